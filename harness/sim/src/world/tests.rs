use super::*;
use bytes::Bytes;
use riprap_env::task::{Io, Tasks};
use riprap_env::{Effects, Env, Node};
use std::cell::RefCell;
use std::rc::Rc;

const MS: u64 = 1_000_000;

/// Sends back what it gets, and keeps it: each batch in a file, synced before it answers.
#[derive(Default)]
struct Echo {
    got: Vec<(ConnId, Bytes)>,
}

impl Node for Echo {
    fn step(&mut self, _: u64, event: Event, _: &mut dyn Env, effects: &mut Effects) {
        match event {
            Event::Received { bytes, .. } if bytes.starts_with(b"panic") => panic!("as asked"),
            Event::Received { bytes, .. } if bytes.starts_with(b"exit") => {
                effects.push(Effect::Exit { status: 3 })
            }
            Event::Received { conn, bytes } => self.got.push((conn, bytes)),
            Event::Stop => effects.push(Effect::Exit { status: 0 }),
            _ => {}
        }
    }

    fn settle(&mut self, _: u64, env: &mut dyn Env, effects: &mut Effects) {
        if self.got.is_empty() {
            return;
        }
        let file = env.disk().open("got").expect("the disk works");
        for (conn, bytes) in self.got.drain(..) {
            let end = env.disk().len(file).expect("it is open");
            env.disk().write_at(file, end, &bytes).expect("the disk works");
            effects.push(Effect::Send { conn, bytes });
        }
        env.disk().sync(file).expect("the disk works");
        env.disk().sync_dir("").expect("the disk works");
    }
}

/// What a client has seen, with when. Units: milliseconds.
type Seen = Rc<RefCell<Vec<(u64, String)>>>;

/// A server `n1` and a client that runs this.
fn world<F: Future<Output = ()> + 'static>(
    seed: u64,
    main: impl Fn(Io, Seen) -> F + Clone + 'static,
) -> (World, HostId, HostId, Seen) {
    let mut world = World::new(seed, Physics::default());
    let server = world.add("n1", || Box::new(Echo::default()));
    let seen = Seen::default();
    let sees = Rc::clone(&seen);
    let client = world.add("c1", move || {
        let (main, sees) = (main.clone(), Rc::clone(&sees));
        Box::new(Tasks::new(move |io| main(io, sees)))
    });
    world.start(server);
    world.start(client);
    (world, server, client, seen)
}

/// Asks every ten milliseconds, on one connection, a new one when that is gone; writes down what comes back.
async fn ask_on(io: Io, seen: Seen) {
    let see = |word: String| seen.borrow_mut().push((io.now_ns() / MS, word));
    let mut n = 0;
    loop {
        let Ok(conn) = io.connect("n1:1").await else {
            see("refused".to_owned());
            io.sleep(100 * MS).await;
            continue;
        };
        loop {
            n += 1;
            conn.send(Bytes::from(format!("{n} ")));
            match conn.receive().await {
                Some(bytes) => see(String::from_utf8_lossy(&bytes).trim().to_owned()),
                None => break,
            }
            io.sleep(10 * MS).await;
        }
        see("gone".to_owned());
    }
}

/// What was seen from one time to another, without repetitions and numbers.
fn between(seen: &Seen, from_ms: u64, to_ms: u64) -> String {
    let seen = seen.borrow();
    let within = seen.iter().filter(|(at_ms, _)| (from_ms..to_ms).contains(at_ms));
    let mut words: Vec<&str> =
        within.map(|(_, word)| if word.parse::<u64>().is_ok() { "answer" } else { word }).collect();
    words.dedup();
    words.join(" ")
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let (mut world, server, client, seen) = world(seed, ask_on);
        world.run_until(500 * MS);
        world.set_cuts(BTreeSet::from([(client, server)]));
        world.run_until(900 * MS);
        world.set_cuts(BTreeSet::new());
        world.power_fail(server);
        world.run_until(1200 * MS);
        world.start(server);
        world.run_until(3000 * MS);
        (world.trace().hash(), world.steps(), seen.take())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    assert!(run(1).2.len() > 100, "{:?}", run(1));
}

#[test]
fn a_host_without_a_process_refuses() {
    let (mut world, server, _, seen) = world(1, ask_on);
    world.run_until(200 * MS);
    world.kill(server);
    world.run_until(500 * MS);
    world.start(server);
    world.run_until(1000 * MS);
    assert_eq!(between(&seen, 0, 200), "answer");
    assert_eq!(between(&seen, 200, 500), "gone refused");
    assert_eq!(between(&seen, 600, 1000), "answer");
    // What was synced has survived, what was on its way has not.
    assert!(world.disk(server).contents("got").is_some_and(|bytes| bytes.starts_with(b"1 2 3 ")));
}

#[test]
fn a_paused_process_takes_in_later_what_came() {
    let (mut world, server, _, seen) = world(1, ask_on);
    world.run_until(200 * MS);
    world.pause(server);
    assert!(world.is_up(server) && world.is_paused(server));
    world.run_until(500 * MS);
    world.resume(server);
    world.run_until(800 * MS);
    assert_eq!(between(&seen, 205, 500), "");
    assert_eq!(between(&seen, 500, 800), "answer");
}

#[test]
fn a_cut_holds_back_and_loses_nothing() {
    let (mut world, server, client, seen) = world(1, ask_on);
    world.run_until(200 * MS);
    let read = |world: &mut World| world.disk(server).contents("got").map_or(0, <[u8]>::len);
    // One way only: what is asked arrives, the answer does not.
    world.set_cuts(BTreeSet::from([(server, client)]));
    assert!(world.passes((client, server)) && !world.passes((server, client)));
    let before = read(&mut world);
    world.run_until(1000 * MS);
    assert!(read(&mut world) > before);
    assert_eq!(between(&seen, 205, 1000), "");
    world.set_cuts(BTreeSet::new());
    world.run_until(2500 * MS);
    assert_eq!(between(&seen, 1000, 2500), "answer");
    // The other way nothing arrives at all.
    world.set_cuts(BTreeSet::from([(client, server)]));
    world.run_until(2600 * MS);
    let before = read(&mut world);
    world.run_until(3000 * MS);
    assert_eq!(read(&mut world), before);
}

#[test]
fn what_was_held_arrives_though_its_sender_gave_up() {
    let (mut world, server, client, _) = world(1, async |io: Io, _| {
        let conn = io.connect("n1:1").await.expect("it listens");
        io.sleep(20 * MS).await;
        conn.send(Bytes::from_static(b"late"));
        io.sleep(20 * MS).await;
        drop(conn);
        std::future::pending().await
    });
    world.run_until(10 * MS);
    world.set_holds(BTreeSet::from([(client, server)]));
    world.run_until(2000 * MS);
    assert_eq!(world.disk(server).contents("got"), None);
    world.set_holds(BTreeSet::new());
    world.run_until(6000 * MS);
    assert_eq!(world.disk(server).contents("got"), Some(&b"late"[..]));
}

/// Of a host that is deaf on the connections that it has, others can still be made.
#[test]
fn the_deaf_hear_on_new_connections_at_once_and_on_old_ones_late() {
    let (mut world, server, client, seen) = world(1, async |io: Io, seen: Seen| {
        let old = io.connect("n1:1").await.expect("it listens");
        io.sleep(20 * MS).await;
        old.send(Bytes::from_static(b"late "));
        let new = io.connect("n1:1").await.expect("it listens still");
        new.send(Bytes::from_static(b"soon "));
        let answer = new.receive().await.expect("it is heard");
        seen.borrow_mut().push((io.now_ns() / MS, String::from_utf8_lossy(&answer).trim().to_owned()));
        std::future::pending().await
    });
    world.run_until(10 * MS);
    let nodes = BTreeSet::from([server]);
    assert_eq!(world.set_deaf(nodes.clone(), Others::Among(nodes.clone())), []);
    assert_eq!(world.set_deaf(nodes.clone(), Others::Outside(nodes)), [(client, server)]);
    world.run_until(1000 * MS);
    assert_eq!(between(&seen, 0, 1000), "soon");
    assert_eq!(world.disk(server).contents("got"), Some(&b"soon "[..]));
    world.set_deaf(BTreeSet::new(), Others::All);
    world.run_until(3000 * MS);
    assert_eq!(world.disk(server).contents("got"), Some(&b"soon late "[..]));
}

#[test]
fn the_far_away_answer_late() {
    let (mut world, server, client, seen) = world(1, ask_on);
    world.run_until(1000 * MS);
    let near = seen.borrow().len();
    let far_away = || BTreeMap::from([(server, (100 * MS, 0))]);
    world.set_delays(far_away(), Others::Outside(BTreeSet::from([server])));
    assert_eq!([world.delay_ns((client, server)), world.delay_ns((server, server))], [(100 * MS, 0), (0, 0)]);
    world.run_until(2000 * MS);
    let far = seen.borrow().len() - near;
    assert!((5..=10).contains(&far), "{far} answers in a second, each of which takes a tenth");
    world.set_delays(far_away(), Others::Among(BTreeSet::from([server])));
    world.run_until(3100 * MS);
    assert!(seen.borrow().len() - near - far >= near, "as near as before");
}

#[test]
fn a_reset_is_heard_by_both() {
    let (mut world, server, client, seen) = world(1, ask_on);
    world.run_until(200 * MS);
    assert_eq!(world.reset(server, &Others::Among(BTreeSet::from([server]))), []);
    assert_eq!(world.reset(server, &Others::All), [client]);
    world.run_until(300 * MS);
    assert_eq!(between(&seen, 200, 300), "gone answer");
}

#[test]
fn a_slow_disk_makes_answers_slow() {
    let count = |factor| {
        let (mut world, server, _, seen) = world(1, ask_on);
        world.set_sync_factor(server, factor);
        world.run_until(1000 * MS);
        seen.borrow().len()
    };
    assert!(count(100) * 2 < count(1), "{} {}", count(100), count(1));
}

/// A process that does not go on with what has rotted has not crashed.
#[test]
fn a_disk_rots_and_is_replaced() {
    let (mut world, server, ..) = world(1, async |io: Io, _| {
        let conn = io.connect("n1:1").await.expect("it listens");
        conn.send(Bytes::from_static(b"kept"));
        io.sleep(20 * MS).await;
        conn.send(Bytes::from_static(b"exit"));
        std::future::pending().await
    });
    assert_eq!(world.flip_bit(server, 7), None, "there is nothing yet");
    world.run_until(10 * MS);
    let before = world.disk(server).contents("got").map(<[u8]>::to_vec);
    let flipped = world.flip_bit(server, 9).expect("there is a file");
    let (path, offset) = ("got".to_owned(), 1);
    assert_eq!(flipped, FlippedBit { path, offset, was: b'e', is: b'e' ^ 2 });
    assert_ne!(world.disk(server).contents("got").map(<[u8]>::to_vec), before);
    assert!(world.has_rotted(server));
    world.run_until(100 * MS);
    assert!(!world.is_up(server) && world.crashes().is_empty());
    world.replace_disk(server);
    assert!(!world.has_rotted(server) && world.disk(server).files().next().is_none());
}

/// A process that ends for want of room has not crashed.
#[test]
fn a_disk_that_is_full_takes_what_fits() {
    let (mut world, server, ..) = world(1, async |io: Io, _| {
        let conn = io.connect("n1:1").await.expect("it listens");
        io.sleep(20 * MS).await;
        conn.send(Bytes::from_static(b"exit"));
        std::future::pending().await
    });
    world.run_until(10 * MS);
    world.set_disk_room(server, Some(7));
    assert_eq!(world.disk_room(server), Some(7));
    world.run_until(100 * MS);
    assert!(!world.is_up(server) && world.crashes().is_empty());
    world.set_disk_room(server, None);
    assert_eq!(world.disk_room(server), None);
}

#[test]
fn a_node_that_breaks_is_a_finding() {
    for (word, how, has_trace) in
        [("panic", "panicked: as asked", true), ("exit", "ended with status 3", false)]
    {
        let (mut world, server, _, seen) = world(1, async move |io: Io, seen: Seen| {
            let conn = io.connect("n1:1").await.expect("it listens");
            conn.send(Bytes::from_static(word.as_bytes()));
            assert_eq!(conn.receive().await, None);
            seen.borrow_mut().push((0, "gone".to_owned()));
        });
        world.run_until(100 * MS);
        let [crash] = world.crashes() else { panic!("{:?}", world.crashes()) };
        assert_eq!((crash.host, crash.how.as_str(), crash.panic.is_some()), (server, how, has_trace));
        assert!(!world.is_up(server));
        assert_eq!(between(&seen, 0, 1), "gone");
    }
}

#[test]
fn a_node_that_does_not_come_to_rest_is_a_finding() {
    let mut world = World::new(1, Physics::default());
    let restless = || async {
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        })
        .await;
    };
    let host = world.add("n1", move || Box::new(Tasks::new(move |_| restless())));
    world.start(host);
    let [crash] = world.crashes() else { panic!("{:?}", world.crashes()) };
    assert!(crash.how.starts_with("panicked: tasks do not come to rest"), "{}", crash.how);
    assert!(crash.panic.is_some() && !world.is_up(host));
}

#[test]
fn clocks_can_be_set_wrong() {
    let (mut world, _, client, seen) = world(1, async |io: Io, seen: Seen| {
        loop {
            io.sleep(100 * MS).await;
            let off = io.wall_clock_ms() - 1_700_000_000_000;
            seen.borrow_mut().push((io.now_ns() / MS, off.to_string()));
        }
    });
    world.run_until(150 * MS);
    world.set_clock_offset_ms(client, -5000);
    world.run_until(250 * MS);
    // Every other time it is right, from the moment on when it was set.
    world.strobe_clock(client, 7000, 200 * MS);
    world.run_until(850 * MS);
    world.set_clock_offset_ms(client, 0);
    world.run_until(950 * MS);
    let off = |ms: u64| (ms, (ms + 7000).to_string());
    let right = |ms: u64| (ms, ms.to_string());
    assert_eq!(
        seen.take(),
        [
            right(100),
            (200, "-4800".to_owned()),
            off(300),
            off(400),
            right(500),
            right(600),
            off(700),
            off(800),
            right(900)
        ]
    );
}

#[test]
fn a_follower_is_told_and_changes_nothing() {
    let run = |follows: bool| {
        let (mut world, server, _, _) = world(1, ask_on);
        let told: Rc<RefCell<BTreeMap<&'static str, usize>>> = Rc::default();
        if follows {
            let told = Rc::clone(&told);
            world.follow(move |_, event| {
                let word = match event {
                    TraceEvent::Added { .. } => "added",
                    TraceEvent::Host { .. } => "host",
                    TraceEvent::Connect { .. } => "connect",
                    TraceEvent::Send { .. } => "send",
                    TraceEvent::Arrive { .. } => "arrive",
                    TraceEvent::Closed { .. } => "closed",
                    TraceEvent::Wake { .. } => "wake",
                    TraceEvent::Log { .. } => "log",
                };
                *told.borrow_mut().entry(word).or_default() += 1;
            });
        }
        world.run_until(100 * MS);
        world.kill(server);
        world.run_until(300 * MS);
        (world.trace(), told.take())
    };
    let (quiet, told) = run(true);
    assert_eq!(quiet, run(false).0);
    assert!(
        ["host", "connect", "send", "arrive", "closed", "wake"].iter().all(|word| told.contains_key(word)),
        "{told:?}"
    );
}
