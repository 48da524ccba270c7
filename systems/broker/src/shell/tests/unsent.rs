//! Connections whose other side does not take what it was sent.

use super::*;

#[test]
fn a_connection_that_does_not_read_is_closed_at_the_limit() {
    let limits = Limits { unsent_bytes: 1 << 20, ..Limits::default() };
    let sent = Arc::new(AtomicUsize::new(0));
    let (closes, seen) = std_mpsc::channel();
    let counter = sent.clone();
    let step = move |_now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects| match event {
        Event::Received { conn, bytes } => {
            // Each byte asks for an answer of 64 KiB.
            for _ in 0..bytes.len() {
                counter.fetch_add(64 << 10, Ordering::Relaxed);
                effects.push(Effect::Send { conn, bytes: Bytes::from_static(&[0; 64 << 10]) });
            }
        }
        Event::Closed { conn } => closes.send(conn).expect("the test waits"),
        _ => {}
    };
    let log = check(limits, step, |address| {
        let mut greedy = connect(address);
        // The kernel's buffers take some megabytes before the limit is met.
        while greedy.write_all(&[1; 16]).is_ok() && seen.try_recv().is_err() {
            std::thread::yield_now();
        }
        let mut modest = connect(address);
        modest.write_all(&[1]).expect("others are served");
        modest.read_exact(&mut [0; 64 << 10]).expect("others are served");
    });
    assert!(log.contains("closing connection 1: more than 1048576 bytes wait"), "{log}");
}

#[test]
fn of_many_that_do_not_read_the_worst_is_closed() {
    let limits = Limits { unsent_in_all_bytes: 64 << 20, ..Limits::default() };
    let (closes, seen) = std_mpsc::channel();
    let step = move |_now_ns: u64, event: Event, _env: &mut dyn Env, effects: &mut Effects| match event {
        Event::Received { conn, bytes } => {
            // Each byte asks for an answer of so many megabytes.
            for megabytes in &bytes[..] {
                for _ in 0..*megabytes {
                    effects.push(Effect::Send { conn, bytes: Bytes::from_static(&[0; 1 << 20]) });
                }
            }
        }
        Event::Closed { conn } => closes.send(conn).expect("the test waits"),
        _ => {}
    };
    let log = check(limits, step, |address| {
        let mut slow: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
        for (stream, megabytes) in slow.iter_mut().zip([10, 100, 10, 10]) {
            stream.write_all(&[megabytes]).expect("writes");
        }
        let cut = seen.recv_timeout(PATIENCE).expect("one is closed");
        assert_eq!(cut, ConnId::accepted_by_driver(1));
        // The others get all of what is theirs.
        for stream in [0, 2, 3].map(|at: usize| &slow[at]) {
            let mut stream = stream;
            let mut got = vec![1; 10 << 20];
            stream.read_exact(&mut got).expect("what was sent");
        }
        assert_eq!(seen.try_recv(), Err(std_mpsc::TryRecvError::Empty));
    });
    assert_eq!(log.matches("more than 67108864 for all").count(), 1, "{log}");
}

/// Sends as many megabytes as each byte says.
fn megabytes(conn: ConnId, bytes: &[u8], effects: &mut Effects) {
    for _ in 0..bytes.iter().map(|byte| usize::from(*byte)).sum() {
        effects.push(Effect::Send { conn, bytes: Bytes::from_static(&[0; 1 << 20]) });
    }
}

#[test]
fn where_it_is_crowded_who_takes_nothing_is_closed() {
    let stalled = Duration::from_millis(50);
    let limits = Limits { crowded_bytes: 32 << 20, stalled, ..Limits::default() };
    let (closes, seen) = std_mpsc::channel();
    let step = move |_: u64, event: Event, _: &mut dyn Env, effects: &mut Effects| match event {
        Event::Received { conn, bytes } => megabytes(conn, &bytes, effects),
        Event::Closed { conn } => closes.send(conn).expect("the test waits"),
        _ => {}
    };
    let log = check(limits, step, |address| {
        let mut greedy = connect(address);
        // Alone it may take its time.
        greedy.write_all(&[16]).expect("writes");
        assert!(seen.recv_timeout(10 * stalled).is_err());
        greedy.write_all(&[48]).expect("writes");
        assert_eq!(seen.recv_timeout(PATIENCE).expect("it is closed"), ConnId::accepted_by_driver(0));
        let mut modest = connect(address);
        modest.write_all(&[20]).expect("others are served");
        modest.read_exact(&mut vec![1; 20 << 20]).expect("all of it");
    });
    assert!(log.contains("closing connection 1: it takes none of "), "{log}");
}

#[test]
fn a_node_that_asks_hears_when_all_is_taken() {
    let (tells, told) = std_mpsc::channel();
    let step = move |_: u64, event: Event, env: &mut dyn Env, effects: &mut Effects| match event {
        Event::Received { conn, bytes } if bytes[0] > 0 => megabytes(conn, &bytes, effects),
        Event::Received { conn, .. } => {
            let (of_one, of_all) = (env.unsent_bytes(conn), env.unsent_in_all_bytes());
            tells.send(of_one.min(of_all)).expect("the test waits");
        }
        Event::Drained { conn } => tells.send(env.unsent_bytes(conn)).expect("the test waits"),
        _ => {}
    };
    check(Limits::default(), step, |address| {
        let mut stream = connect(address);
        stream.write_all(&[32]).expect("writes");
        stream.read_exact(&mut [1; 1]).expect("some of it");
        stream.write_all(&[0]).expect("writes");
        assert!(told.recv_timeout(PATIENCE).expect("it is asked") > 0);
        stream.read_exact(&mut vec![1; (32 << 20) - 1]).expect("the rest");
        assert_eq!(told.recv_timeout(PATIENCE).expect("it hears"), 0);
        // It asks again when there is nothing: no event follows.
        stream.write_all(&[0]).expect("writes");
        assert_eq!(told.recv_timeout(PATIENCE).expect("it is asked"), 0);
    });
    assert_eq!(told.recv().ok(), None, "nothing else was told");
}
