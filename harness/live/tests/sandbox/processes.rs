//! Processes of nodes: started, paused, ended.

use super::*;

#[test]
fn processes_start_pause_go_on_and_die() {
    check_inside("processes::processes_start_pause_go_on_and_die", |inside| {
        let network = nodes(inside, 2);
        let mut server = NodeProcess::spawn(
            &shell("echo $WHO in $PWD; cat /proc/net/dev >&2; echo started; while :; do sleep 0.01; done"),
            &network,
            NodeIx(1),
        )
        .expect("starts");
        await_log("node in /\n");
        await_log("eth0");
        await_log("started");
        assert!(
            !fs::read_to_string(folder().join("log")).expect("there").contains("br0"),
            "in the harness's network"
        );

        assert_eq!(server.state(), ProcessState::Alive);
        for _ in 0..3 {
            server.pause().expect("stops");
            assert_eq!(server.state(), ProcessState::Paused);
            server.pause().expect("is stopped");
            assert_eq!(server.has_exited().expect("ours"), None);
            server.resume().expect("goes on");
            assert_eq!(server.state(), ProcessState::Alive);
        }
        server.pause().expect("stops");
        assert_eq!(server.kill().expect("a stopped process dies, too").signal(), Some(libc::SIGKILL));
        assert_eq!(server.state(), ProcessState::Gone);
        assert_eq!(server.kill().expect("is dead").signal(), Some(libc::SIGKILL));
        let paused = server.pause().expect_err("is dead");
        assert!(matches!(paused, ProcessError::Ended { .. }), "{paused}");
    });
}

#[test]
fn processes_end_when_asked_or_are_killed() {
    check_inside("processes::processes_end_when_asked_or_are_killed", |inside| {
        let network = nodes(inside, 1);
        let obeys = "trap 'echo bye; exit 7' TERM; echo one up; sleep 600 & wait";
        let mut server = NodeProcess::spawn(&shell(obeys), &network, NodeIx(0)).expect("starts");
        await_log("one up");
        server.pause().expect("stops");
        let Ended { status, forced } = server.terminate(LIMIT).expect("ends");
        assert_eq!((status.code(), forced), (Some(7), false));
        await_log("one up\nbye");

        let refuses = "trap '' TERM; echo two up; sleep 600 & wait";
        let mut server = NodeProcess::spawn(&shell(refuses), &network, NodeIx(0)).expect("starts");
        await_log("two up");
        let Ended { status, forced } = server.terminate(Duration::from_millis(50)).expect("ends");
        assert_eq!((status.signal(), forced), (Some(libc::SIGKILL), true));

        let mut server = NodeProcess::spawn(&shell("exit 3"), &network, NodeIx(0)).expect("starts");
        assert_eq!(server.wait(LIMIT).expect("ours").and_then(|s| s.code()), Some(3));
        assert_eq!(server.state(), ProcessState::Gone);
    });
}

#[test]
fn a_kill_reaches_the_whole_group() {
    check_inside("processes::a_kill_reaches_the_whole_group", |inside| {
        let network = nodes(inside, 1);
        for (script, end) in [
            ("sleep 600 & echo $!.; wait", "kill"),
            ("sleep 600 & echo $!.", "exit"),
            ("sleep 600 & echo $!.; wait", "drop"),
        ] {
            let _ = fs::remove_file(folder().join("log"));
            let mut server = NodeProcess::spawn(&shell(script), &network, NodeIx(0)).expect("starts");
            await_log(".\n");
            let log = fs::read_to_string(folder().join("log")).expect("there");
            let below: u32 = log.trim().trim_end_matches('.').parse().expect("a pid");
            match end {
                "kill" => drop(server.kill().expect("dies")),
                "exit" => drop(server.wait(LIMIT).expect("ours").expect("exits")),
                _ => drop(server),
            }
            let deadline = Instant::now() + LIMIT;
            while fs::exists(format!("/proc/{below}")).expect("readable") {
                assert!(Instant::now() < deadline, "{below} lives on after {end}");
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

#[test]
fn what_cannot_start_says_why() {
    check_inside("processes::what_cannot_start_says_why", |inside| {
        let network = nodes(inside, 1);
        let no_program = ProcessSpec { program: "/no/such".into(), ..shell("") };
        let error = NodeProcess::spawn(&no_program, &network, NodeIx(0)).expect_err("does not exist");
        assert!(error.to_string().starts_with("failed to start /no/such: No such file"), "{error}");
        let no_log = ProcessSpec { log: "/no/such/log".into(), ..shell("") };
        let error = NodeProcess::spawn(&no_log, &network, NodeIx(0)).expect_err("no folder");
        assert!(
            error.to_string().starts_with("failed to open the log /no/such/log: No such file"),
            "{error}"
        );
    });
}
