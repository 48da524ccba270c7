//! Packets that are lost, late, too many or refused: each kind proved by its own probes, alone and all at once.

use super::*;
use riprap_live::sandbox::Lag;

/// Whether so many of [`LOSS_PROBES`] are about so many of a hundred.
#[track_caller]
fn check_losses(network: &Network, lossy: &[(Endpoint, Endpoint)], percent: u32) {
    let pairs = all_pairs(network);
    let lost = network.lost(&pairs).expect("probes work");
    for (pair, lost) in pairs.iter().zip(lost) {
        let expected = if lossy.contains(pair) { percent } else { 0 };
        let points = (f64::from(lost) / f64::from(LOSS_PROBES)).mul_add(100.0, -f64::from(expected));
        assert!(points.abs() < 10.0, "{lost} lost of {pair:?}, {expected} % expected");
    }
}

/// So many milliseconds, always.
fn ms(delay: u64) -> Lag {
    Lag { delay: Duration::from_millis(delay), jitter: Duration::ZERO }
}

#[track_caller]
fn check_delays(network: &Network, delays: &BTreeMap<(Endpoint, Endpoint), Lag>) {
    let pairs = all_pairs(network);
    for (pair, took) in pairs.iter().zip(network.delays(&pairs).expect("probes work")) {
        let Lag { delay, jitter } = delays.get(pair).copied().unwrap_or_default();
        let (least, most) = took.expect("it arrives");
        assert!(
            least >= delay && least < delay + jitter / 2 + Duration::from_millis(50),
            "{pair:?} took {least:?}, not {delay:?}"
        );
        assert!(
            most - least >= jitter / 5,
            "{pair:?} took {least:?} to {most:?}, which is no jitter of {jitter:?}"
        );
    }
}

#[track_caller]
fn check_rates(network: &Network, limited: &[(Endpoint, Endpoint)], bytes_per_s: u64) {
    let pairs = all_pairs(network);
    for (pair, rate) in pairs.iter().zip(network.rates(&pairs).expect("probes work")) {
        match rate {
            None => assert!(!limited.contains(pair), "{pair:?} seems unlimited"),
            Some(rate) => {
                assert!(limited.contains(pair), "{pair:?} lets through {rate} bytes a second");
                let about = bytes_per_s * 8 / 10..=bytes_per_s * 11 / 10;
                assert!(about.contains(&rate), "{pair:?}: {rate} bytes a second, not {bytes_per_s}");
            }
        }
    }
}

#[track_caller]
fn check_refusals(network: &Network, refused: &[(Endpoint, Endpoint)]) {
    let pairs = all_pairs(network);
    for (pair, is_refused) in pairs.iter().zip(network.refused(&pairs).expect("probes work")) {
        // What the other answers to a node that refuses it does not get there.
        let unheard = refused.contains(&(pair.1, pair.0));
        let expected = if refused.contains(pair) { Some(true) } else { (!unheard).then_some(false) };
        assert_eq!(is_refused, expected, "{pair:?}");
    }
}

#[test]
fn losses_are_about_what_they_are_told_to_be() {
    check_inside("packets::losses_are_about_what_they_are_told_to_be", |inside| {
        let network = nodes(inside, 3);
        check_losses(&network, &[], 0);
        for (lossy, percent) in [(&[(N0, N1), (N1, N0)][..], 20), (&[(N0, H), (H, N2)], 60), (&[], 50)] {
            network.set_loss(&lossy.iter().copied().collect(), percent).expect("loses");
            check_losses(&network, lossy, u32::from(percent));
        }
        check_cuts(&network, &[]);
    });
}

#[test]
fn delays_delay_what_they_name() {
    check_inside("packets::delays_delay_what_they_name", |inside| {
        let network = nodes(inside, 3);
        check_delays(&network, &BTreeMap::new());
        let varies = |delay, jitter| Lag { jitter: Duration::from_millis(jitter), ..ms(delay) };
        for delays in [
            &[((N0, N1), ms(200)), ((H, N1), ms(30))][..],
            &[((N2, H), ms(100))],
            &[((N0, N1), varies(50, 300)), ((H, N1), ms(30))],
            &[],
        ] {
            let delays: BTreeMap<_, _> = delays.iter().copied().collect();
            network.set_delays(&delays).expect("delays");
            check_delays(&network, &delays);
        }
    });
}

/// A stream loses nothing, keeps its order and goes on, whatever is delayed meanwhile; large packets too.
#[test]
fn streams_survive_delays_and_limits() {
    check_inside("packets::streams_survive_delays_and_limits", |inside| {
        let network = nodes(inside, 2);
        let (mut client, mut server) = connected(&network);
        client.set_write_timeout(Some(Duration::from_secs(4))).expect("x");
        let sent: Vec<u8> = (0..2_000_000_u32).map(|i| (i % 251) as u8).collect();
        let jitter = Duration::from_millis(20);
        let delays = BTreeMap::from([((N0, N1), Lag { jitter, ..ms(30) }), ((N1, N0), ms(20))]);
        let both = BTreeSet::from([(N0, N1), (N1, N0)]);
        thread::scope(|scope| {
            let sent = &sent;
            scope.spawn(move || (0..3).for_each(|_| client.write_all(sent).expect("goes on")));
            let hear = |server: &mut TcpStream| {
                let mut heard = vec![0; sent.len()];
                server.read_exact(&mut heard).expect("goes on");
                assert!(heard == *sent, "other bytes arrived than were sent");
            };
            network.set_delays(&delays).expect("delays");
            hear(&mut server);
            network.set_limits(&[(both, 4_000_000)]).expect("limits");
            hear(&mut server);
            network.set_delays(&BTreeMap::new()).expect("heals");
            network.set_limits(&[]).expect("heals");
            hear(&mut server);
        });
    });
}

/// A connection from the first node to the second.
fn connected(network: &Network) -> (TcpStream, TcpStream) {
    let at = SocketAddr::from((network.address(NodeIx(1)), 9092));
    let listener =
        network.with_node(NodeIx(1), || TcpListener::bind(at)).expect("a node").expect("a free port");
    let client = network.with_node(NodeIx(0), || TcpStream::connect(at)).expect("a node").expect("whole");
    (client, listener.accept().expect("whole").0)
}

#[test]
fn limits_limit_what_they_name() {
    check_inside("packets::limits_limit_what_they_name", |inside| {
        let network = nodes(inside, 3);
        check_rates(&network, &[], 0);
        let limited = [(N0, N1), (H, N0)];
        for bytes_per_s in [20_000, 200_000] {
            let limits = limited.map(|pair| (BTreeSet::from([pair]), bytes_per_s));
            network.set_limits(&limits).expect("limits");
            check_rates(&network, &limited, bytes_per_s);
        }
        network.set_limits(&[]).expect("heals");
        check_rates(&network, &[], 0);
    });
}

/// One who sends through a limit what needs two seconds takes about as long; two who share it, each half as fast.
#[test]
fn limits_are_shared() {
    check_inside("packets::limits_are_shared", |inside| {
        let network = nodes(inside, 2);
        let both = BTreeSet::from([(N0, N1), (N1, N0)]);
        network.set_limits(&[(both, 500_000)]).expect("limits");
        let (client, server) = connected(&network);
        let took = |mut from: TcpStream, mut to: TcpStream| {
            let start = Instant::now();
            let sender = thread::spawn(move || from.write_all(&vec![0; 500_000]));
            to.read_exact(&mut vec![0; 500_000]).expect("goes on");
            sender.join().expect("no panic").expect("goes on");
            start.elapsed().as_millis()
        };
        let there = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
        let alone = took(there.0, there.1);
        assert!((800..2000).contains(&alone), "{alone} ms");
        let there = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
        let one = thread::spawn(move || took(there.0, there.1));
        let other = took(server, client);
        let slower = one.join().expect("no panic").max(other);
        assert!((1600..4000).contains(&slower), "{slower} ms");
    });
}

#[test]
fn refusals_refuse_whom_they_name() {
    check_inside("packets::refusals_refuse_whom_they_name", |inside| {
        let network = nodes(inside, 3);
        check_refusals(&network, &[]);
        let (mut client, mut server) = connected(&network);
        client.set_write_timeout(Some(Duration::from_secs(4))).expect("x");
        let refusals =
            BTreeMap::from([(NodeIx(1), BTreeSet::from([N0])), (NodeIx(2), BTreeSet::from([N1, H]))]);
        network.set_refusals(&refusals).expect("refuses");
        check_refusals(&network, &[(N0, N1), (N1, N2), (H, N2)]);
        // What stands stalls, and goes on.
        client.write_all(b"1").expect("into the send buffer");
        server.set_read_timeout(Some(WAIT)).expect("a socket option");
        assert!(server.read(&mut [0; 8]).is_err(), "a refused connection carried data");
        network.set_refusals(&BTreeMap::new()).expect("heals");
        check_refusals(&network, &[]);
        server.set_read_timeout(Some(LIMIT)).expect("a socket option");
        assert_eq!(server.read(&mut [0; 8]).expect("sent again after the heal"), 1);
    });
}

/// Both sides hear of it though nothing passes between them, and nobody else does.
#[test]
fn resets_break_the_connections_that_they_name() {
    check_inside("packets::resets_break_the_connections_that_they_name", |inside| {
        let network = nodes(inside, 3);
        let at = |node: usize| SocketAddr::from((network.address(NodeIx(node)), 9092));
        let listen = |node: usize| {
            // Java's sockets are of IPv6, and speak IPv4 as well.
            let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 9092));
            let address = if node == 1 { any } else { at(node) };
            network
                .with_node(NodeIx(node), || TcpListener::bind(address))
                .expect("a node")
                .expect("a free port")
        };
        let listeners = [listen(0), listen(1)];
        let connect = |from: Endpoint, to: usize| {
            let client = match from {
                Endpoint::Harness => TcpStream::connect(at(to)),
                Endpoint::Node(node) => {
                    network.with_node(node, || TcpStream::connect(at(to))).expect("a node")
                }
            };
            let both = [client.expect("whole"), listeners[to].accept().expect("whole").0];
            both.map(|mut end| {
                end.set_read_timeout(Some(WAIT)).expect("a socket option");
                move || {
                    matches!(
                        end.read(&mut [0; 8]).map_err(|e| e.kind()),
                        Err(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
                    )
                }
            })
        };
        let [mut out, mut into, mut client, mut elsewhere] =
            [connect(N1, 0), connect(N0, 1), connect(H, 1), connect(N2, 0)];
        network.set_cuts(&all_pairs(&network).into_iter().collect()).expect("cuts apply");
        let broken = network.reset(NodeIx(1), &BTreeSet::from([N0, N2])).expect("breaks");
        assert_eq!(broken, [N0, N0]);
        for ends in [&mut out, &mut into] {
            assert_eq!(ends.each_mut().map(|is_broken| is_broken()), [true, true]);
        }
        assert_eq!(client.each_mut().map(|is_broken| is_broken()), [false, false]);
        assert_eq!(network.reset(NodeIx(1), &BTreeSet::from([H])).expect("breaks"), [H]);
        assert_eq!(client.each_mut().map(|is_broken| is_broken()), [true, true]);
        assert_eq!(network.reset(NodeIx(1), &BTreeSet::from([N0, N2, H])).expect("breaks"), []);
        assert_eq!(elsewhere.each_mut().map(|is_broken| is_broken()), [false, false]);
    });
}

/// What its sender took for lost arrives, after what was sent later on another connection.
#[test]
fn holds_hold_the_connections_that_stand() {
    check_inside("packets::holds_hold_the_connections_that_stand", |inside| {
        let network = nodes(inside, 3);
        let at = SocketAddr::from((network.address(NodeIx(1)), 9092));
        let listener =
            network.with_node(NodeIx(1), || TcpListener::bind(at)).expect("a node").expect("a free port");
        let connect = |from: usize| {
            let client = network.with_node(NodeIx(from), || TcpStream::connect(at)).expect("a node");
            let server = listener.accept().expect("whole").0;
            server.set_read_timeout(Some(WAIT)).expect("a socket option");
            (client.expect("whole"), server)
        };
        let hear = |server: &mut TcpStream| {
            let mut bytes = [0; 8];
            server.read(&mut bytes).map(|len| bytes[..len].to_vec()).map_err(|e| e.kind())
        };
        let (mut held, mut late) = connect(0);
        let (mut other, mut heard) = connect(2);
        assert_eq!(network.hold(&BTreeSet::from([(N0, N1), (H, N1)])).expect("holds"), [(N0, N1)]);
        held.write_all(b"late").expect("into the send buffer");
        drop(held);
        other.write_all(b"1").expect("whole");
        assert_eq!(hear(&mut heard), Ok(b"1".to_vec()));
        // Another fault that comes and goes lets nothing go.
        network.set_delays(&BTreeMap::from([((N0, N1), ms(1))])).expect("delays");
        network.set_delays(&BTreeMap::new()).expect("heals");
        assert_eq!(hear(&mut late), Err(ErrorKind::WouldBlock));
        let (mut again, mut soon) = connect(0);
        again.write_all(b"soon").expect("whole");
        assert_eq!(hear(&mut soon), Ok(b"soon".to_vec()));
        // Nor does it break what proves the hold.
        assert_eq!(network.reset(NodeIx(1), &BTreeSet::from([H])).expect("breaks"), []);
        assert_eq!(network.hold(&BTreeSet::new()).expect("lets go"), []);
        late.set_read_timeout(Some(LIMIT)).expect("a socket option");
        assert_eq!((hear(&mut late), hear(&mut late)), (Ok(b"late".to_vec()), Ok(Vec::new())));
    });
}

/// Every kind on the same links: each is seen as if it were alone, and each heals alone.
#[test]
fn kinds_do_not_undo_each_other() {
    check_inside("packets::kinds_do_not_undo_each_other", |inside| {
        let network = nodes(inside, 3);
        let both = [(N0, N1), (N1, N0)];
        let set: BTreeSet<_> = both.into_iter().collect();
        let delays = BTreeMap::from(both.map(|pair| (pair, ms(60))));
        let refusals = BTreeMap::from([(NodeIx(1), BTreeSet::from([N0]))]);
        network.set_cuts(&set).expect("cuts apply");
        network.set_loss(&set, 40).expect("loses");
        network.set_delays(&delays).expect("delays");
        network.set_limits(&[(set.clone(), 100_000)]).expect("limits");
        network.set_refusals(&refusals).expect("refuses");
        assert_eq!(network.hold(&set).expect("holds"), []);
        check_cuts(&network, &both);
        check_losses(&network, &both, 40);
        check_delays(&network, &delays);
        check_rates(&network, &both, 100_000);
        check_refusals(&network, &[(N0, N1)]);

        network.heal().expect("cuts heal");
        network.set_limits(&[]).expect("heals");
        check_cuts(&network, &[]);
        check_losses(&network, &both, 40);
        check_delays(&network, &delays);
        check_rates(&network, &[], 0);
        network.set_loss(&BTreeSet::new(), 0).expect("heals");
        network.set_delays(&BTreeMap::new()).expect("heals");
        check_losses(&network, &[], 0);
        check_delays(&network, &BTreeMap::new());
        check_refusals(&network, &[(N0, N1)]);
        assert_eq!(network.hold(&BTreeSet::new()).expect("lets go"), []);
        network.set_refusals(&BTreeMap::new()).expect("heals");
        check_refusals(&network, &[]);
    });
}
