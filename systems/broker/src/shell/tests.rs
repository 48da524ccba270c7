//! A scripted node behind real loopback sockets.

mod process;
mod unsent;

use super::*;
use riprap_env::Node;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex};

/// How long a test waits for what must come: long, because it is waited for in full only where the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A node that is one function of its events; it leaves when it is asked to stop.
struct Script<F>(F);

impl<F: FnMut(u64, Event, &mut dyn Env, &mut Effects)> Observed for Script<F> {}

impl<F: FnMut(u64, Event, &mut dyn Env, &mut Effects)> Node for Script<F> {
    fn step(&mut self, now_ns: u64, event: Event, env: &mut dyn Env, effects: &mut Effects) {
        let stop = event == Event::Stop;
        (self.0)(now_ns, event, env, effects);
        if stop {
            effects.push(Effect::Exit { status: 0 });
        }
    }

    fn settle(&mut self, _now_ns: u64, _env: &mut dyn Env, _effects: &mut Effects) {}
}

/// Sends back what it gets.
fn echo(_now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects) {
    if let Event::Received { conn, bytes } = event {
        effects.push(Effect::Send { conn, bytes });
    }
}

fn config(dir: &tempfile::TempDir) -> ShellConfig {
    ShellConfig {
        listen: "127.0.0.1:0".parse().expect("an address"),
        dir: dir.path().join("data"),
        seed: 1,
        entity: "n1".to_owned(),
        metrics: None,
        clock_offset: None,
    }
}

/// Runs `what` with its log, from `info` on, in the file `log` of a folder.
fn logging<T>(dir: &Path, what: impl FnOnce() -> T) -> T {
    let file = std::fs::File::create(dir.join("log")).expect("a log");
    let subscriber = tracing_subscriber::fmt().with_writer(Mutex::new(file)).finish();
    tracing::subscriber::with_default(subscriber, what)
}

/// Serves `node` while `client` runs, then stops it. Returns its exit status and its log.
fn check_node(
    limits: Limits,
    node: impl Observed + Send + 'static,
    client: impl FnOnce(SocketAddr),
) -> (i32, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let config = config(&dir);
    let runtime = runtime().expect("a runtime");
    let listener = bind(&runtime, config.listen).expect("a port");
    let address = listener.local_addr().expect("bound");
    let (stop, stops) = mpsc::channel(1);
    let log_dir = dir.path().to_owned();
    let serving = std::thread::spawn(move || {
        let mut node = node;
        let serve = || serve(&runtime, &mut node, config, listener, stops, limits);
        logging(&log_dir, serve).expect("serves")
    });
    client(address);
    stop.try_send(()).ok();
    let status = serving.join().expect("the shell does not panic");
    (status, std::fs::read_to_string(dir.path().join("log")).expect("a log"))
}

fn check(
    limits: Limits,
    step: impl FnMut(u64, Event, &mut dyn Env, &mut Effects) + Send + 'static,
    client: impl FnOnce(SocketAddr),
) -> String {
    let (status, log) = check_node(limits, Script(step), client);
    assert_eq!(status, 0, "{log}");
    log
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a live socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("a live socket");
    stream
}

/// What arrives until the other side closes.
fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("reads to the end");
    all
}

/// Bytes that do not repeat in step with any buffer's size.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i / 251) ^ (i / 63_001)) as u8).collect()
}

#[test]
fn echoes_bytes_cut_anywhere() {
    let small = Limits { read_bytes: 100, inbox_events: 2, batch_events: 3, ..Limits::default() };
    for limits in [small, Limits::default()] {
        check(limits, echo, |address| {
            let sent = pattern(200_000);
            let mut stream = connect(address);
            let mut reader = stream.try_clone().expect("a live socket");
            let expect = sent.clone();
            let reading = std::thread::spawn(move || {
                let mut got = vec![0; expect.len()];
                reader.read_exact(&mut got).expect("all comes back");
                assert!(got == expect, "bytes differ");
            });
            let (mut at, mut cut) = (0, 1);
            while at < sent.len() {
                let end = (at + cut).min(sent.len());
                stream.write_all(&sent[at..end]).expect("writes");
                (at, cut) = (end, cut * 7 % 4999);
            }
            reading.join().expect("the reader is content");
        });
    }
}

#[test]
fn serves_a_thousand_connections() {
    check(Limits::default(), echo, |address| {
        // Both ends are in this process: 2000 descriptors may be more than it is allowed.
        let mut streams: Vec<TcpStream> = Vec::new();
        for _ in 0..allowed_connections(1000) {
            streams.push(connect(address));
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&(i as u64).to_be_bytes()).expect("writes");
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            let mut got = [0; 8];
            stream.read_exact(&mut got).expect("an answer");
            assert_eq!(u64::from_be_bytes(got), i as u64);
        }
    });
}

/// As many of `wanted` connections as the limit on open files lets a process hold both ends of.
fn allowed_connections(wanted: usize) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("proc is mounted");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit on files");
    let files = line.split_whitespace().nth(3).expect("a number").parse().unwrap_or(usize::MAX);
    const OTHER_TESTS: usize = 200;
    wanted.min((files - OTHER_TESTS) / 2)
}

#[test]
fn a_flood_does_not_starve_others() {
    check(Limits::default(), echo, |address| {
        let done = Arc::new(AtomicUsize::new(0));
        let mut floods = Vec::new();
        for _ in 0..3 {
            let mut writer = connect(address);
            let mut reader = writer.try_clone().expect("a live socket");
            let stop = done.clone();
            floods.push(std::thread::spawn(move || {
                let chunk = [7; 64 << 10];
                while stop.load(Ordering::Relaxed) == 0 {
                    writer.write_all(&chunk).expect("the flood is taken");
                }
                writer.shutdown(Shutdown::Write).expect("a live socket");
            }));
            floods.push(std::thread::spawn(move || {
                let mut sink = [0; 64 << 10];
                while reader.read(&mut sink).expect("the flood comes back") > 0 {}
            }));
        }
        let mut quiet = connect(address);
        for i in 0..20_u8 {
            quiet.write_all(&[i]).expect("writes");
            let mut got = [0];
            quiet.read_exact(&mut got).expect("an answer within the patience");
            assert_eq!(got, [i]);
        }
        done.store(1, Ordering::Relaxed);
        for flood in floods {
            flood.join().expect("floods end well");
        }
    });
}

#[test]
fn what_was_sent_goes_out_before_the_close() {
    let answer = pattern(3 << 20);
    let (events, seen) = std_mpsc::channel();
    let to_send = answer.clone();
    let step = move |_now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects| {
        events.send(event.clone()).ok();
        if let Event::Received { conn, .. } = event {
            for chunk in to_send.chunks(100_000) {
                effects.push(Effect::Send { conn, bytes: Bytes::copy_from_slice(chunk) });
            }
            effects.push(Effect::Close { conn });
            effects.push(Effect::Send { conn, bytes: Bytes::from_static(b"too late") });
        }
    };
    let conn = ConnId::accepted_by_driver(0);
    check(Limits::default(), step, |address| {
        let mut stream = connect(address);
        stream.write_all(b"go").expect("writes");
        let mut got = vec![0];
        stream.read_exact(&mut got).expect("the answer begins");
        // The node has closed by now and reads this no more: a socket closed over unread bytes would send a reset,
        // and the rest of the answer would be lost.
        stream.write_all(b"more").expect("writes");
        got.extend(read_all(&mut stream));
        assert!(got == answer, "the answer comes whole, and nothing after it");
        drop(stream);
        let mut events = Vec::new();
        while events.last() != Some(&Event::Closed { conn }) {
            events.push(seen.recv_timeout(PATIENCE).expect("the close is reported"));
        }
        assert!(matches!(&events[1], Event::Accepted { conn: c, .. } if *c == conn), "{events:?}");
        assert_eq!(events[2], Event::Received { conn, bytes: Bytes::from_static(b"go") });
        assert_eq!(events.len(), 4, "{events:?}");
    });
    assert_eq!(seen.iter().collect::<Vec<_>>(), [Event::Stop]);
}

#[test]
fn a_peer_that_leaves_is_reported_once_and_what_was_sent_goes_out() {
    let answer = pattern(3 << 20);
    let to_send = Bytes::from(answer.clone());
    let (closes, seen) = std_mpsc::channel();
    let step = move |_now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects| match event {
        Event::Received { conn, .. } => effects.push(Effect::Send { conn, bytes: to_send.clone() }),
        Event::Closed { conn } => closes.send(conn).expect("the test waits"),
        _ => {}
    };
    check(Limits::default(), step, |address| {
        let mut stream = connect(address);
        stream.write_all(b"x").expect("writes");
        let mut got = vec![0];
        stream.read_exact(&mut got).expect("the answer begins");
        stream.shutdown(Shutdown::Write).expect("a live socket");
        assert_eq!(seen.recv_timeout(PATIENCE), Ok(ConnId::accepted_by_driver(0)));
        got.extend(read_all(&mut stream));
        assert!(got == answer, "the answer comes whole");
        drop(connect(address));
        assert_eq!(seen.recv_timeout(PATIENCE), Ok(ConnId::accepted_by_driver(1)));
    });
    assert_eq!(seen.iter().count(), 0);
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let limits = Limits { idle: Duration::from_millis(50), ..Limits::default() };
    check(limits, echo, |address| {
        let mut silent = connect(address);
        assert_eq!(silent.read(&mut [0]).expect("the end"), 0);
    });
}

#[test]
fn a_full_inbox_holds_the_sender_back() {
    let limits = Limits { inbox_events: 4, read_bytes: 1000, batch_events: 4, ..Limits::default() };
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("nobody panicked");
    let taken = Arc::new(AtomicUsize::new(0));
    let (node_gate, node_taken) = (gate.clone(), taken.clone());
    let step = move |_now_ns: u64, event: Event, _env: &mut dyn Env, _effects: &mut Effects| {
        if let Event::Received { bytes, .. } = event {
            drop(node_gate.lock().expect("nobody panicked"));
            node_taken.fetch_add(bytes.len(), Ordering::Relaxed);
        }
    };
    let total = 64 << 20;
    check(limits, step, move |address| {
        let mut stream = connect(address);
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a live socket");
        let mut sent = 0;
        let blocked = loop {
            match stream.write(&[0; 64 << 10]) {
                Ok(n) => sent += n,
                Err(e) => break e.kind(),
            }
            assert!(sent < total, "nothing held the sender back");
        };
        assert_eq!(blocked, ErrorKind::WouldBlock);
        drop(closed);
        let deadline = Instant::now() + PATIENCE;
        while taken.load(Ordering::Relaxed) < sent && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(taken.load(Ordering::Relaxed), sent, "what was accepted arrives");
    });
}

#[test]
fn opens_connections() {
    // A second node's listener, played by the test; and a port where nobody listens.
    let there = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = there.local_addr().expect("bound").to_string();
    let nowhere = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").to_string();
    let (good, bad) = (ConnId::opened_by_node(1), ConnId::opened_by_node(2));
    let (events, seen) = std_mpsc::channel();
    let step = move |_now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects| {
        if event == Event::Start {
            effects.push(Effect::Connect { conn: good, to: to.clone() });
            effects.push(Effect::Send { conn: good, bytes: Bytes::from_static(b"hello") });
            effects.push(Effect::Connect { conn: bad, to: nowhere.clone() });
        }
        events.send(event).ok();
    };
    check(Limits::default(), step, |_| {
        let (mut accepted, _) = there.accept().expect("the node comes");
        accepted.set_read_timeout(Some(PATIENCE)).expect("a live socket");
        let mut got = [0; 5];
        accepted.read_exact(&mut got).expect("what was sent before it stood");
        assert_eq!(&got, b"hello");
        accepted.write_all(b"x").expect("writes");
        drop(accepted);
        let mut of_good = Vec::new();
        let mut bad_closed = false;
        while of_good.last() != Some(&Event::Closed { conn: good }) || !bad_closed {
            match seen.recv_timeout(PATIENCE).expect("events come") {
                Event::Closed { conn } if conn == bad => bad_closed = true,
                Event::Start => {}
                event => of_good.push(event),
            }
        }
        let received = Event::Received { conn: good, bytes: Bytes::from_static(b"x") };
        assert_eq!(of_good, [Event::Connected { conn: good }, received, Event::Closed { conn: good }]);
    });
}

#[test]
fn gives_up_connecting_when_asked_to() {
    // A listener whose queue is full answers no SYN: the kernel's queue of a backlog of 0 holds one connection.
    let runtime = runtime().expect("a runtime");
    let guard = runtime.enter();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let full = socket.listen(0).expect("listens");
    drop(guard);
    let to = full.local_addr().expect("bound");
    let _queued = connect(to);
    let conn = ConnId::opened_by_node(1);
    let (events, seen) = std_mpsc::channel();
    let step = move |_now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects| {
        if event == Event::Start {
            effects.push(Effect::Connect { conn, to: to.to_string() });
            effects.push(Effect::Close { conn });
        }
        events.send(event).ok();
    };
    let limits = Limits { connect_timeout: PATIENCE * 2, ..Limits::default() };
    check(limits, step, |_| {
        assert_eq!(seen.recv_timeout(PATIENCE), Ok(Event::Start));
        assert_eq!(seen.recv_timeout(PATIENCE), Ok(Event::Closed { conn }));
    });
}

#[test]
fn wakes_no_sooner_than_asked_and_only_as_asked_last() {
    let (wakes, seen) = std_mpsc::channel();
    let step = move |now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects| match event {
        Event::Start => {
            effects.push(Effect::WakeAt { at_ns: now_ns });
            effects.push(Effect::WakeAt { at_ns: now_ns + 30_000_000 });
            wakes.send((now_ns + 30_000_000, 0)).ok();
        }
        Event::Wake => {
            wakes.send((u64::MAX, now_ns)).ok();
            effects.push(Effect::WakeAt { at_ns: u64::MAX });
        }
        _ => {}
    };
    check(Limits::default(), step, |_| {
        let (asked, _) = seen.recv_timeout(PATIENCE).expect("it started");
        let (_, woken) = seen.recv_timeout(PATIENCE).expect("it wakes");
        assert!(woken >= asked, "woken at {woken}, asked for {asked}");
        assert!(seen.try_recv().is_err());
    });
}

/// Counts steps and settles; answers in settle alone.
#[derive(Default)]
struct Settling {
    unsettled: usize,
    batches: Vec<usize>,
    to: Vec<ConnId>,
}

impl Observed for Settling {}

impl Node for Settling {
    fn step(&mut self, _now_ns: u64, event: Event, env: &mut dyn Env, effects: &mut Effects) {
        self.unsettled += 1;
        match event {
            Event::Received { conn, .. } => self.to.push(conn),
            Event::Stop => {
                log!(env, Info, "batches {:?}", self.batches);
                log!(env, Debug, "left out");
                effects.push(Effect::Exit { status: 3 });
            }
            _ => {}
        }
    }

    fn settle(&mut self, _now_ns: u64, _env: &mut dyn Env, effects: &mut Effects) {
        self.batches.push(std::mem::take(&mut self.unsettled));
        for conn in self.to.drain(..) {
            effects.push(Effect::Send { conn, bytes: Bytes::from_static(b"durable") });
        }
    }
}

#[test]
fn settles_once_a_batch_and_logs() {
    let limits = Limits { batch_events: 4, ..Limits::default() };
    let (status, log) = check_node(limits, Settling::default(), |address| {
        let mut streams: Vec<TcpStream> = (0..20).map(|_| connect(address)).collect();
        for stream in &mut streams {
            stream.write_all(b"x").expect("writes");
        }
        for stream in &mut streams {
            stream.read_exact(&mut [0; 7]).expect("an answer");
        }
    });
    assert_eq!(status, 3);
    let (time, line) = log.split_once(' ').expect("words");
    assert!(time.starts_with("20") && time.ends_with('Z'), "{log}");
    let batches = line.strip_prefix(" INFO riprap_broker::shell::tests: batches [");
    let batches: Vec<usize> = batches
        .and_then(|line| line.strip_suffix("] node=\"n1\"\n"))
        .expect("one line, with its level, module and node")
        .split(", ")
        .map(|n| n.parse().expect("a number"))
        .collect();
    assert_eq!(batches[0], 1, "the start is a batch of its own: {log}");
    // One more than the limit where a wake-up joins.
    assert!(batches.iter().all(|n| (1..=5).contains(n)) && batches.iter().sum::<usize>() >= 41, "{log}");
}

#[test]
fn a_panic_is_the_last_line_of_the_log() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = config(&dir);
    let runtime = runtime().expect("a runtime");
    let listener = bind(&runtime, config.listen).expect("a port");
    let (_stop, stops) = mpsc::channel(1);
    let step = |_: u64, _: Event, env: &mut dyn Env, _: &mut Effects| {
        log!(env, Warn, "about to panic");
        panic!("as asked");
    };
    let serving = || {
        logging(dir.path(), || serve(&runtime, &mut Script(step), config, listener, stops, Limits::default()))
    };
    catch_unwind(AssertUnwindSafe(serving)).expect_err("the panic goes on");
    let log = std::fs::read_to_string(dir.path().join("log")).expect("a log");
    let lines: Vec<&str> = log.lines().map(|line| line.split_once(' ').expect("words").1).collect();
    let expect = [
        " WARN riprap_broker::shell::tests: about to panic node=\"n1\"",
        "ERROR riprap_broker::shell: the node panicked: as asked node=\"n1\"",
    ];
    assert_eq!(lines, expect);
}

#[test]
fn the_last_answer_goes_out_before_the_exit() {
    let answer = pattern(4 << 20);
    let to_send = Bytes::from(answer.clone());
    let step = move |_now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects| {
        if let Event::Received { conn, .. } = event {
            effects.push(Effect::Send { conn, bytes: to_send.clone() });
            effects.push(Effect::Exit { status: 0 });
        }
    };
    check(Limits::default(), step, |address| {
        let mut stream = connect(address);
        stream.write_all(b"x").expect("writes");
        assert!(read_all(&mut stream) == answer, "the answer comes whole");
    });
}

#[test]
fn a_second_stop_does_not_wait() {
    struct Deaf;
    impl Observed for Deaf {}
    impl Node for Deaf {
        fn step(&mut self, _: u64, _: Event, _: &mut dyn Env, _: &mut Effects) {}
        fn settle(&mut self, _: u64, _: &mut dyn Env, _: &mut Effects) {}
    }
    let dir = tempfile::tempdir().expect("a folder");
    let config = config(&dir);
    let runtime = runtime().expect("a runtime");
    let listener = bind(&runtime, config.listen).expect("a port");
    let (stop, stops) = mpsc::channel(2);
    stop.try_send(()).expect("there is room");
    stop.try_send(()).expect("there is room");
    let status = serve(&runtime, &mut Deaf, config, listener, stops, Limits::default());
    assert_eq!(status.expect("serves"), STOPPED_TWICE);
}

#[test]
fn bad_configurations_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let on_taken_port = ShellConfig { listen: taken.local_addr().expect("bound"), ..config(&dir) };
    std::fs::write(dir.path().join("file"), "").expect("writes");
    let below_a_file = ShellConfig { dir: dir.path().join("file/data"), ..config(&dir) };
    for (config, expect) in [(on_taken_port, "failed to listen on 127.0.0.1:"), (below_a_file, "file/data: ")]
    {
        let error = run(&mut Script(echo), config).expect_err(expect).to_string();
        assert!(error.contains(expect), "{error}");
    }
}
