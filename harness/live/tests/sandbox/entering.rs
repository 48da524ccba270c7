//! Entering a sandbox, leaving it, and what is left of it: nothing.

use super::*;

#[test]
fn files_and_folders_are_the_callers() {
    const NAME: &str = "entering::files_and_folders_are_the_callers";
    if is_inner_part_of(NAME) {
        return enter_and(|_| {
            assert_eq!(env::current_dir().expect("a working directory"), folder());
            fs::create_dir("results").expect("the caller's folder is writable");
            fs::write(folder().join("results/verdict"), "valid").expect("the caller's folder is writable");
        });
    }
    for user in users() {
        let done = Run::start(NAME, user, &[]).end().expect(0);
        let file = done.folder.path().join("results/verdict");
        assert_eq!(fs::read_to_string(&file).expect("written inside"), "valid");
        assert_eq!(fs::metadata(&file).expect("there").uid(), user.unwrap_or_else(myself));
    }
}

#[test]
fn root_inside_writes_where_root_outside_may() {
    const NAME: &str = "entering::root_inside_writes_where_root_outside_may";
    if is_inner_part_of(NAME) {
        return enter_and(|_| {
            let root_outside =
                fs::read_to_string("/proc/self/uid_map").expect("readable").contains("4294967295");
            if root_outside {
                let theirs = folder().join("theirs");
                fs::create_dir(&theirs).expect("writable");
                std::os::unix::fs::chown(&theirs, Some(NOBODY), Some(NOBODY)).expect("root gives away");
                fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).expect("root may");
                fs::write(theirs.join("file"), "x").expect("root writes into another user's folder");
            }
        });
    }
    Run::start(NAME, None, &[]).end().expect(0);
}

#[test]
fn exit_codes_pass_through() {
    const NAME: &str = "entering::exit_codes_pass_through";
    const CODE: &str = "RIPRAP_LIVE_CODE";
    if is_inner_part_of(NAME) {
        return enter_and(|_| {
            // SAFETY: getpid and getppid touch no memory.
            let (pid, parent) = unsafe { (libc::getpid(), libc::getppid()) };
            assert!(pid > 1 && parent == 1, "pid {pid}, parent {parent}");
            process::exit(env::var(CODE).expect("set").parse().expect("a number"));
        });
    }
    for user in users() {
        for code in ["0", "1", "2", "254", "255"] {
            Run::start(NAME, user, &[(CODE, code)]).end().expect(code.parse().expect("a number"));
        }
    }
}

#[test]
fn death_by_a_signal_is_told() {
    const NAME: &str = "entering::death_by_a_signal_is_told";
    if is_inner_part_of(NAME) {
        return enter_and(|_| {
            // SAFETY: raise touches no memory.
            unsafe { libc::raise(libc::SIGKILL) };
        });
    }
    for user in users() {
        let done = Run::start(NAME, user, &[]).end().expect(255);
        assert!(
            done.errors.contains("riprap: the process inside the sandbox was ended by signal 9"),
            "{}",
            done.errors
        );
    }
}

/// How many SIGINT, SIGTERM or SIGHUP the inner part has got.
static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_signal(_: i32) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_first_signal_is_passed_on_and_a_second_one_kills() {
    const NAME: &str = "entering::a_first_signal_is_passed_on_and_a_second_one_kills";
    const OBEY: &str = "RIPRAP_LIVE_OBEY";
    if is_inner_part_of(NAME) {
        return enter_and(|_| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                // SAFETY: the handler touches an atomic and nothing else.
                unsafe { libc::signal(signal, count_signal as *const () as libc::sighandler_t) };
            }
            println!("ready");
            let deadline = Instant::now() + LIMIT;
            while SIGNALS.load(Ordering::SeqCst) == 0 && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            println!("signalled");
            if env::var(OBEY).is_ok() {
                process::exit(40 + SIGNALS.load(Ordering::SeqCst) as i32);
            }
            thread::sleep(LIMIT);
        });
    }
    for user in users() {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            let mut run = Run::start(NAME, user, &[(OBEY, "1")]);
            run.hear("ready");
            run.signal(signal);
            run.end().expect(41);
        }
        let mut run = Run::start(NAME, user, &[]);
        run.hear("ready");
        run.signal(libc::SIGINT);
        run.hear("signalled");
        // The same request said again at once is not a second one...
        run.signal(libc::SIGTERM);
        thread::sleep(Duration::from_millis(400));
        assert!(run.child.try_wait().expect("ours").is_none(), "killed by the echo of the first signal");
        // ... and this one is.
        run.signal(libc::SIGINT);
        let done = run.end().expect(255);
        assert!(done.errors.contains("riprap: interrupted twice"), "{}", done.errors);
    }
}

/// All processes below one, as the machine numbers them.
fn descendants(of: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("mounted").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        found.extend(children.get(&found[next]).into_iter().flatten());
        next += 1;
    }
    found.split_off(1)
}

#[test]
fn everything_dies_with_the_outer_process() {
    const NAME: &str = "entering::everything_dies_with_the_outer_process";
    if is_inner_part_of(NAME) {
        return enter_and(|inside| {
            let network = nodes(inside, 3);
            let servers: Vec<_> = network
                .nodes()
                .map(|n| NodeProcess::spawn(&shell("sleep 600 & setsid sleep 600 & wait"), &network, n))
                .collect();
            thread::sleep(Duration::from_millis(100));
            println!("ready {}", servers.len());
            thread::sleep(LIMIT);
        });
    }
    for user in users() {
        let mut run = Run::start(NAME, user, &[]);
        run.hear("ready 3");
        let inside = descendants(run.child.id());
        assert!(inside.len() >= 2 + 3 * 3, "{inside:?}");
        run.signal(libc::SIGKILL);
        run.end().expect(128 + 9);
        // Their end is announced by the end of their output, but burying them takes a moment longer.
        let deadline = Instant::now() + Duration::from_secs(5);
        let alive =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "));
        while inside.iter().any(alive) {
            assert!(
                Instant::now() < deadline,
                "still alive: {:?}",
                inside.iter().filter(|p| alive(p)).collect::<Vec<_>>()
            );
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_kill_at_any_moment_leaves_nothing() {
    const NAME: &str = "entering::a_kill_at_any_moment_leaves_nothing";
    if is_inner_part_of(NAME) {
        return enter_and(|inside| {
            let _network = nodes(inside, 2);
            thread::sleep(LIMIT);
        });
    }
    for user in users() {
        for moment_ms in (0..60).step_by(4) {
            let run = Run::start(NAME, user, &[]);
            thread::sleep(Duration::from_millis(moment_ms));
            run.signal(libc::SIGKILL);
            // `end` waits for the end of the output that everything inside holds.
            let start = Instant::now();
            run.end().expect(128 + 9);
            assert!(start.elapsed() < LIMIT / 2, "something lived on, killed after {moment_ms} ms");
        }
    }
}

#[test]
fn a_forged_marker_does_not_pass_for_a_sandbox() {
    const NAME: &str = "entering::a_forged_marker_does_not_pass_for_a_sandbox";
    if is_inner_part_of(NAME) {
        return enter_and(|inside| {
            let network = nodes(inside, 1);
            check_cuts(&network, &[]);
            println!("interfaces: {}", interfaces().join(" "));
        });
    }
    for marker in ["harness:0", "supervisor:0", "harness:1", "harness:-1", "harness", "nonsense:3", ""] {
        let mut run = Run::start(NAME, None, &[("RIPRAP_SANDBOX", marker)]);
        assert_eq!(run.hear("interfaces: "), "br0 lo riprap-n1", "{marker}");
        run.end().expect(0);
    }
}

/// How many sandboxes are around a test of nesting.
const DEPTH: &str = "RIPRAP_LIVE_DEPTH";

#[test]
fn a_sandbox_holds_another() {
    const NAME: &str = "entering::a_sandbox_holds_another";
    if is_inner_part_of(NAME) {
        return enter_and(|inside| {
            let network = nodes(inside, 2);
            check_cuts(&network, &[]);
            let depth: u32 = env::var(DEPTH).map_or(0, |d| d.parse().expect("a number"));
            if depth < 2 {
                Run::start(NAME, None, &[(DEPTH, &(depth + 1).to_string())]).end().expect(0);
            }
        });
    }
    for user in users() {
        Run::start(NAME, user, &[]).end().expect(0);
    }
}

/// As in containers, whose engines cover parts of `/proc`: the kernel then refuses a new one, which would uncover them.
#[test]
fn a_masked_proc_will_do() {
    const MASKED: &str = "RIPRAP_LIVE_MASKED";
    const NAME: &str = "entering::a_masked_proc_will_do";
    if is_inner_part_of(NAME) {
        return enter_and(|inside| {
            if env::var(MASKED).is_err() {
                // SAFETY: the strings are static; no data is passed.
                let masked = unsafe {
                    libc::mount(
                        c"none".as_ptr(),
                        c"/proc/bus".as_ptr(),
                        c"tmpfs".as_ptr(),
                        0,
                        std::ptr::null(),
                    )
                };
                assert_eq!(masked, 0, "{}", std::io::Error::last_os_error());
                return drop(Run::start(NAME, None, &[(MASKED, "1")]).end().expect(0));
            }
            let own = fs::read_link("/proc/self").expect("mounted").display().to_string();
            assert_ne!(
                own,
                process::id().to_string(),
                "/proc is the sandbox's own, so that this tests nothing"
            );
            let network = nodes(inside, 2);
            check_cuts(&network, &[]);
            let mut server =
                NodeProcess::spawn(&shell("sleep 600 & wait"), &network, NodeIx(0)).expect("starts");
            assert_eq!(server.state(), ProcessState::Alive);
            server.pause().expect("stops");
            assert_eq!(server.state(), ProcessState::Paused);
            server.kill().expect("dies");
            assert_eq!(server.state(), ProcessState::Gone);
        });
    }
    for user in users() {
        Run::start(NAME, user, &[]).end().expect(0);
    }
}

#[test]
fn entering_again_is_being_inside() {
    check_inside("entering::entering_again_is_being_inside", |_| {
        let again = thread::spawn(|| matches!(enter(), Ok(Entered::Inside(_)))).join();
        assert!(again.expect("no panic"));
    });
}

#[test]
fn a_refusal_names_the_setting() {
    check_inside("entering::a_refusal_names_the_setting", |_| {
        assert!(probe().is_ok(), "{:?}", probe());
        let limit = "/proc/sys/user/max_user_namespaces";
        fs::write(limit, "0").expect("root inside sets its own namespace's limits");
        // Root needs no user namespaces...
        assert!(probe().is_ok(), "{:?}", probe());
        Run::start("entering::a_sandbox_holds_another", None, &[(DEPTH, "2")]).end().expect(0);
        // ... and without its capabilities is like anybody.
        let refused = thread::spawn(|| {
            drop_capabilities();
            probe()
        });
        let error = refused.join().expect("no panic").expect_err("refused");
        assert_eq!(
            error.to_string(),
            "the kernel refuses a sandbox: clone with new namespaces: No space left on device (os error 28); \
             user.max_user_namespaces is 0: as root, sysctl -w user.max_user_namespaces=10000, or run riprap with all capabilities"
        );
    });
}

/// Takes all capabilities away from the calling thread.
fn drop_capabilities() {
    let header = [0x2008_0522_u32, 0];
    let none = [0_u32; 6];
    // SAFETY: the header says version 3, of the calling thread; that version reads six words.
    let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn nothing_stays_open() {
    check_inside("entering::nothing_stays_open", |inside| {
        let open = || fs::read_dir("/proc/self/fd").expect("mounted").count();
        let before = open();
        for round in 0..3 {
            let network = nodes(inside, 3);
            network.set_cuts(&BTreeSet::from([(N0, N1)])).expect("cuts apply");
            check_cuts(&network, &[(N0, N1)]);
            let script = shell(&format!("echo {round} up; sleep 600 & wait"));
            let mut server = NodeProcess::spawn(&script, &network, NodeIx(0)).expect("starts");
            // By then the shell has opened and closed the libraries that it needs.
            await_log(&format!("{round} up"));
            let theirs = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("alive").count();
            assert_eq!(theirs, 3, "a server inherits its standard streams only");
            server.kill().expect("dies");
            probe().expect("as before");
        }
        assert_eq!(open(), before);
    });
}
