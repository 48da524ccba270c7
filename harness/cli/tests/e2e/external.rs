//! Runs against a cluster that was there before: a bundled broker that the test itself starts on loopback.

use crate::support::{LIMIT, Place, Running, await_some, riprap, turn};
use serde_json::Value as Json;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// A broker of the place's own, and where it listens.
fn broker(place: &Place) -> (Running, String) {
    // Whoever else asked for a port in between would get another one.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address: SocketAddr = free.local_addr().expect("bound");
    drop(free);
    let dir = place.path().join("broker");
    let args = ["broker", "--listen", &address.to_string(), "--dir", dir.to_str().expect("plain")];
    let broker = Running::start(place.program(args));
    await_some("a broker that listens", LIMIT, || TcpStream::connect(address).ok().map(drop));
    (broker, address.to_string())
}

/// The topics of runs that the broker has.
fn topics(address: &str) -> Vec<String> {
    let external =
        riprap_systems::find("external").and_then(|system| system.existing()).expect("there is one");
    let admin = external(&[address.to_owned()], &[]).expect("a client");
    admin.topics("riprap-").expect("it answers")
}

fn json(path: &Path) -> Json {
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn a_cluster_that_is_there_is_tested_and_left_as_it_was() {
    let _turn = turn();
    let place = Place::mine();
    let (broker, address) = broker(&place);
    let run = |more: &[&str]| {
        let there = ["test", "--system=external", "--bootstrap", &address, "--nodes=1", "--seed=3"];
        let gentle = ["--time-limit=5s", "--concurrency=8", "--rate=100"];
        place.run(&[&there, &gentle[..], more].concat()).end()
    };
    // What an earlier run left there, of the same seed, is another's.
    let done = run(&["--keep-topics"]).expect(0);
    assert!(done.out.starts_with("valid   external queue, "), "{}", done.out);
    let said = format!("external at {address}, queue on 1 nodes, faults none, ");
    assert!(done.err.contains(&said), "{}", done.err);
    let first = place.latest().canonicalize().expect("it points at the run");
    let name = first.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(done.err.contains(&format!("riprap: the run's topics stay: riprap-{name}-*")), "{}", done.err);
    assert_eq!(json(&first.join("test.json"))["bootstrap"], Json::from(vec![address.clone()]));
    let kept = topics(&address);
    assert!(
        !kept.is_empty() && kept.iter().all(|topic| topic.starts_with(&format!("riprap-{name}-t"))),
        "{kept:?}"
    );

    let dying = &["--sub-via=assign,subscribe", "--nemesis=all"];
    for more in [&dying[..], &["--txn", "--sub-via=subscribe"]] {
        let done = run(more).expect(0);
        assert!(done.out.starts_with("valid   external queue, "), "{}", done.out);
        assert!(!done.err.contains("failed to remove"), "{}", done.err);
        await_some("the end of the run's topics", LIMIT, || {
            (topics(&address).len() == kept.len()).then_some(())
        });
        let history = place.history();
        riprap(["check", history.to_str().expect("plain"), "--sub-via=subscribe"]).expect(0);
    }
    broker.signal(libc::SIGTERM);
    broker.end().expect(0);
    place.expect_nobody();
}

#[test]
fn a_cluster_that_is_not_as_it_was_said_to_be_is_told() {
    let place = Place::mine();
    let (broker, address) = broker(&place);
    let refused =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port").local_addr().expect("bound");
    for (there, expected) in [
        (address.clone(), format!("{address} knows 1 of 3 brokers; --nodes says how many there are")),
        (refused.to_string(), format!("{refused} does not answer: ")),
    ] {
        let done = place
            .run(&["test", "--system=external", "--bootstrap", &there, "--time-limit=1s"])
            .end()
            .expect(255);
        assert!(done.last_line().starts_with("the cluster does not serve: not within 15s: "), "{}", done.err);
        assert!(done.last_line().contains(&expected), "{}", done.err);
    }
    // The user need not wait for that.
    let run = place.run(&["test", "--system=external", "--bootstrap", &address, "--time-limit=1s"]);
    run.await_catching();
    std::thread::sleep(Duration::from_millis(100));
    run.signal(libc::SIGINT);
    assert_eq!(run.end().expect(2).last_line(), "interrupted before the cluster served");
    broker.signal(libc::SIGTERM);
    broker.end().expect(0);
}
