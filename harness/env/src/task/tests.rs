use super::*;
use crate::disk::{Disk, MemDisk};
use crate::node::{ConnId, LogLevel};
use bytes::Bytes;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

const MS: u64 = 1_000_000;

struct TestEnv {
    disk: MemDisk,
    logged: Vec<String>,
}

impl Env for TestEnv {
    fn disk(&mut self) -> &mut dyn Disk {
        &mut self.disk
    }

    fn wall_clock_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn random_u64(&mut self, _: &'static str) -> u64 {
        7
    }

    fn log(&mut self, level: LogLevel, _module: &'static str, line: fmt::Arguments<'_>) {
        self.logged.push(format!("{level:?} {line}"));
    }
}

/// A node of tasks and what it has said so far, a word each.
struct Driven {
    node: Tasks,
    env: TestEnv,
    said: Said,
}

/// What tasks say.
#[derive(Clone, Default)]
struct Said(Rc<RefCell<Vec<String>>>);

impl Said {
    fn say(&self, word: impl Into<String>) {
        self.0.borrow_mut().push(word.into());
    }
}

impl Driven {
    fn new<F: Future<Output = ()> + 'static>(main: impl FnOnce(Io, Said) -> F + 'static) -> Driven {
        let said = Said::default();
        let heard = said.clone();
        let node = Tasks::new(move |io| main(io, heard));
        Driven { node, env: TestEnv { disk: MemDisk::new(), logged: Vec::new() }, said }
    }

    /// Feeds a batch of events at a time; expects what was said and done then, a word each.
    fn check(&mut self, at_ms: u64, events: Vec<Event>, expected: &str) {
        let mut effects = Vec::new();
        for event in events {
            self.node.step(at_ms * MS, event, &mut self.env, &mut effects);
        }
        self.node.settle(at_ms * MS, &mut self.env, &mut effects);
        let mut words = self.said.0.take();
        words.extend(effects.iter().map(|effect| match effect {
            Effect::Connect { conn, to } => format!("connect-{}-{to}", conn.0),
            Effect::Send { conn, bytes } => format!("send-{}-{}", conn.0, String::from_utf8_lossy(bytes)),
            Effect::Close { conn } => format!("close-{}", conn.0),
            Effect::WakeAt { at_ns } => format!("wake-{}", at_ns / MS),
            Effect::Exit { status } => format!("exit-{status}"),
        }));
        assert_eq!(words.join(" "), expected, "at {at_ms} ms");
    }
}

fn received(conn: u64, text: &str) -> Event {
    Event::Received { conn: ConnId(conn), bytes: Bytes::copy_from_slice(text.as_bytes()) }
}

#[test]
fn a_task_speaks_on_a_connection() {
    let mut driven = Driven::new(async |io: Io, said: Said| {
        let conn = io.connect("n1:9092").await.expect("it is let in");
        conn.send(Bytes::from_static(b"hello"));
        while let Some(bytes) = conn.receive().await {
            said.say(String::from_utf8_lossy(&bytes));
        }
        said.say("gone");
    });
    driven.check(0, vec![Event::Start], "connect-0-n1:9092");
    driven.check(1, vec![Event::Connected { conn: ConnId(0) }], "send-0-hello");
    driven.check(2, vec![received(0, "a"), received(0, "b")], "a b");
    driven.check(3, vec![received(9, "stray")], "");
    driven.check(4, vec![received(0, "c"), Event::Closed { conn: ConnId(0) }], "c gone");
}

#[test]
fn a_connection_may_be_refused() {
    let mut driven = Driven::new(async |io: Io, said: Said| {
        said.say(io.connect("n1:1").await.expect_err("nobody listens").to_string());
    });
    driven.check(0, vec![Event::Start], "connect-0-n1:1");
    driven.check(1, vec![Event::Closed { conn: ConnId(0) }], "n1:1 refuses connections");
}

#[test]
fn what_takes_too_long_is_dropped_where_it_is() {
    let mut driven = Driven::new(async |io: Io, said: Said| {
        let until_ns = io.now_ns() + 10 * MS;
        let connected = io.by(until_ns, io.connect("n1:1")).await;
        said.say(if connected.is_none() { "late" } else { "in time" });
        let value = io.by(until_ns + MS, async { 7 }).await;
        said.say(value.map_or("late".to_owned(), |n| n.to_string()));
    });
    driven.check(0, vec![Event::Start], "connect-0-n1:1 wake-10");
    // Too early a wake-up changes nothing, and is asked for again.
    driven.check(5, vec![Event::Wake], "wake-10");
    // What the driver says of a connection that was given up is heard by nobody.
    driven.check(10, vec![Event::Wake], "late 7 close-0");
    driven.check(11, vec![Event::Connected { conn: ConnId(0) }, received(0, "x")], "");
    driven.check(12, vec![Event::Closed { conn: ConnId(0) }], "");
}

#[test]
fn sleeps_end_in_the_order_of_their_times() {
    let mut driven = Driven::new(async |io: Io, said: Said| {
        for (word, ms) in [("c", 30), ("a", 10), ("b", 20), ("a2", 10)] {
            let (own, said) = (io.clone(), said.clone());
            let nap = async move {
                own.sleep(ms * MS).await;
                said.say(word);
            };
            io.spawn(nap).detach();
        }
    });
    driven.check(0, vec![Event::Start], "wake-10");
    driven.check(10, vec![Event::Wake], "a a2 wake-20");
    driven.check(35, vec![Event::Wake], "b c");
}

#[test]
fn a_task_is_cancelled_with_its_handle() {
    struct Tells(Said, &'static str);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.say(self.1);
        }
    }
    let mut driven = Driven::new(async |io: Io, said: Said| {
        let (own, told) = (io.clone(), said.clone());
        let long = io.spawn(async move {
            let _tells = Tells(told, "cancelled");
            // A task within it goes with it.
            let _inner = own.spawn(std::future::pending::<()>());
            own.sleep(1000 * MS).await;
        });
        io.sleep(MS).await;
        assert!(!long.is_over());
        drop(long);
        let short = io.spawn(async { 3 });
        said.say(short.await.expect("it was let end").to_string());
    });
    driven.check(0, vec![Event::Start], "wake-1");
    driven.check(1, vec![Event::Wake], "cancelled 3");
}

#[test]
fn signals_and_inboxes_wake_who_waits() {
    let inbox: Inbox<u32> = Inbox::default();
    let theirs = inbox.clone();
    let mut driven = Driven::new(async move |io: Io, said: Said| {
        let signal = Rc::new(Signal::default());
        for word in ["x", "y"] {
            let (signal, said) = (Rc::clone(&signal), said.clone());
            io.spawn(async move {
                signal.told().await;
                said.say(word);
            })
            .detach();
        }
        loop {
            let n = theirs.take().await;
            said.say(n.to_string());
            // Told between the call and the first poll: heard all the same.
            let told = signal.told();
            signal.tell();
            told.await;
        }
    });
    driven.check(0, vec![Event::Start], "");
    inbox.put(1);
    inbox.put(2);
    driven.check(1, vec![], "1 2 x y");
    inbox.put(3);
    driven.check(2, vec![], "3");
}

#[test]
fn a_stop_ends_the_node() {
    let mut driven = Driven::new(async |io: Io, _: Said| {
        io.log(LogLevel::Warn, format_args!("up at {}", io.wall_clock_ms()));
        io.sleep(MS).await;
    });
    driven.check(0, vec![Event::Start], "wake-1");
    assert_eq!(driven.env.logged, ["Warn up at 1700000000000"]);
    driven.check(0, vec![Event::Accepted { conn: ConnId(1), peer: "p".to_owned() }], "close-1");
    driven.check(1, vec![Event::Stop], "exit-0");
}
