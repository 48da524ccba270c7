//! The network between nodes: what is cut, what is healed, and what of the machine is left alone.

use super::*;

#[test]
fn cuts_cut_what_they_name_and_heal() {
    check_inside("network::cuts_cut_what_they_name_and_heal", |inside| {
        let network = nodes(inside, 3);
        check_cuts(&network, &[]);
        let tables: [&[(Endpoint, Endpoint)]; 6] = [
            &[(N0, N1)],
            &[(N0, N1), (N1, N0)],
            &[(N0, N1), (N1, N0), (N0, N2), (N2, N0)],
            &[(H, N0)],
            &[(N2, H), (H, N2), (N2, N1)],
            &[],
        ];
        for cuts in tables {
            let before = network.dropped_packets().expect("a counter");
            network.set_cuts(&cuts.iter().copied().collect()).expect("cuts apply");
            check_cuts(&network, cuts);
            let dropped = network.dropped_packets().expect("a counter") - before;
            assert_eq!(dropped > 0, !cuts.is_empty(), "{dropped} packets dropped by {cuts:?}");
        }
        network
            .set_cuts(&BTreeSet::from([(NodeIx(0), NodeIx(1)), (NodeIx(2), NodeIx(1))]))
            .expect("cuts apply");
        network.heal().expect("cuts heal");
        check_cuts(&network, &[]);
    });
}

#[test]
fn cut_pairs_are_probed_at_once() {
    check_inside("network::cut_pairs_are_probed_at_once", |inside| {
        let network = nodes(inside, 3);
        let pairs: Vec<_> = all_pairs(&network).into_iter().filter(|(a, b)| *a != H && *b != H).collect();
        network.set_cuts(&pairs.iter().copied().collect()).expect("cuts apply");
        let start = Instant::now();
        assert_eq!(network.reachable_pairs(&pairs, WAIT).expect("probes work"), vec![Reach::No; 6]);
        let took = start.elapsed();
        assert!(took >= WAIT && took < WAIT * 3, "{took:?} for 6 pairs, {WAIT:?} for one");
    });
}

#[test]
fn nothing_leaks_once_a_cut_is_acknowledged() {
    check_inside("network::nothing_leaks_once_a_cut_is_acknowledged", |inside| {
        let network = nodes(inside, 2);
        let socket = |node: NodeIx| {
            let at = SocketAddr::from((network.address(node), 700));
            network.with_node(node, || UdpSocket::bind(at).expect("a free port")).expect("a node")
        };
        let (from, to) = (socket(NodeIx(0)), socket(NodeIx(1)));
        to.set_nonblocking(true).expect("a socket option");
        let count = |n: u32| {
            for _ in 0..n {
                from.send_to(b"x", to.local_addr().expect("bound")).expect("a cut is silent to the sender");
            }
            (0..n).take_while(|_| to.recv(&mut [0; 8]).is_ok()).count()
        };
        network.reachable(N0, N1, WAIT).expect("link addresses are learnt");
        for round in 0..20 {
            assert_eq!(count(15), 15, "whole, round {round}");
            network.set_cuts(&BTreeSet::from([(N0, N1)])).expect("cuts apply");
            assert_eq!(count(15), 0, "cut, round {round}");
            network.heal().expect("cuts heal");
        }
        assert_eq!(network.dropped_packets().expect("a counter"), 20 * 15);
    });
}

#[test]
fn established_connections_stall_and_go_on() {
    check_inside("network::established_connections_stall_and_go_on", |inside| {
        let network = nodes(inside, 2);
        let at = SocketAddr::from((network.address(NodeIx(1)), 9092));
        let listener =
            network.with_node(NodeIx(1), || TcpListener::bind(at).expect("a free port")).expect("a node");
        let connect = || TcpStream::connect_timeout(&at, WAIT);
        let mut client = network.with_node(NodeIx(0), connect).expect("a node").expect("whole");
        let mut server = listener.accept().expect("whole").0;
        assert_eq!(server.peer_addr().expect("connected").ip(), network.address(NodeIx(0)));
        let mut hear = |wait: Duration| {
            server.set_read_timeout(Some(wait)).expect("a socket option");
            server.read(&mut [0; 8])
        };
        client.write_all(b"1").expect("whole");
        assert_eq!(hear(LIMIT).expect("whole"), 1);

        network.set_cuts(&BTreeSet::from([(N0, N1)])).expect("cuts apply");
        client.write_all(b"2").expect("into the send buffer");
        assert!(hear(WAIT).is_err(), "a cut connection carried data");
        let refused = network.with_node(NodeIx(0), connect).expect("a node");
        assert!(refused.is_err(), "connected through a cut");
        network.heal().expect("cuts heal");
        assert_eq!(hear(LIMIT).expect("retransmitted after the heal"), 1);
    });
}

#[test]
fn networks_follow_each_other() {
    check_inside("network::networks_follow_each_other", |inside| {
        for count in [1, 5, 2] {
            let network = nodes(inside, count);
            assert_eq!(network.len(), count);
            check_cuts(&network, &[]);
            let second = Network::new(inside, 1).expect_err("one at a time");
            assert!(matches!(second, SandboxError::Network { .. }), "{second}");
            check_cuts(&network, &[]);
        }
        for wrong in [0, 1000] {
            let error = Network::new(inside, wrong).expect_err("not a number of nodes");
            assert!(error.to_string().contains("1 to 64"), "{error}");
        }
    });
}

#[test]
fn the_machines_network_is_untouched() {
    const NAME: &str = "network::the_machines_network_is_untouched";
    if is_inner_part_of(NAME) {
        return enter_and(|inside| {
            let network = nodes(inside, 3);
            network.set_cuts(&BTreeSet::from([(N0, N1)])).expect("cuts apply");
            println!("ready");
            std::io::stdin().read_to_end(&mut Vec::new()).expect("nothing to read");
            println!("interfaces: {}", interfaces().join(" "));
        });
    }
    for user in users() {
        let before = machine();
        let mut run = Run::start(NAME, user, &[]);
        run.hear("ready");
        assert_eq!(machine(), before, "during");
        assert_eq!(run.hear("interfaces: "), "br0 lo riprap-n1 riprap-n2 riprap-n3");
        run.end().expect(0);
        assert_eq!(machine(), before, "after");
    }
}

/// Interfaces, addresses and routes of this process's network.
fn machine() -> (Vec<String>, [String; 3]) {
    let read = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    (interfaces(), [read("fib_trie"), read("if_inet6"), read("route")])
}
