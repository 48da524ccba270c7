//! The local sandbox, from outside and from inside.
//!
//! Each test executes this test binary anew (`--exact NAME`) as the user whom it stands for, and there enters a sandbox of
//! its own; what the test binary does then, it does three times over: as outer process, as supervisor and as harness.
//! Root runs every test as itself and as nobody. Where no sandbox can be had the tests fail with the line that says why.

use riprap_live::sandbox::{
    Ended, Endpoint, Entered, Inside, Network, NodeIx, NodeProcess, ProcessError, ProcessSpec, ProcessState,
    Reach, SandboxError, enter, probe,
};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names the test whose inner part this process is to run.
const TEST: &str = "RIPRAP_LIVE_TEST";
/// A folder that the inner part may write to.
const FOLDER: &str = "RIPRAP_LIVE_FOLDER";
/// Far above what any test needs; ends one that hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// What a cut pair costs a probe.
const WAIT: Duration = Duration::from_millis(200);
const NOBODY: u32 = 65534;

/// A test binary executed anew.
struct Run {
    child: Child,
    out: BufReader<ChildStdout>,
    errors: thread::JoinHandle<String>,
    folder: TempDir,
}

/// How a run ended.
struct Done {
    /// As a shell would say it: 128 and more for a signal.
    code: i32,
    out: String,
    errors: String,
    folder: TempDir,
}

/// Who runs the tests.
fn myself() -> u32 {
    // SAFETY: geteuid touches no memory.
    unsafe { libc::geteuid() }
}

/// Those as whom a test can run here: `None` is whoever runs the tests.
fn users() -> Vec<Option<u32>> {
    if myself() == 0 { vec![None, Some(NOBODY)] } else { vec![None] }
}

impl Run {
    fn start(test: &str, user: Option<u32>, set: &[(&str, &str)]) -> Run {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))
            .expect("permissions of our own folder");
        // By this link it is found also where the path to it is closed to nobody.
        let mut command = Command::new("/proc/self/exe");
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(TEST, test).env(FOLDER, folder.path()).envs(set.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir(folder.path());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        // What cargo left open for us (its jobserver) is not to be counted as left open by the sandbox.
        // And whoever started the tests may have told them to ignore what ends a program (nohup); the sandbox heeds that.
        // SAFETY: between fork and exec the closure makes system calls alone, which touch no memory.
        unsafe {
            command.pre_exec(|| {
                libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        let mut child = command.spawn().expect("this test binary runs");
        let out = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let errors = thread::spawn(move || {
            let mut all = Vec::new();
            stderr.read_to_end(&mut all).expect("a pipe is readable");
            String::from_utf8_lossy(&all).into_owned()
        });
        Run { child, out, errors, folder }
    }

    /// Reads until the inner part has printed a line that starts so; returns the rest of that line.
    fn hear(&mut self, start: &str) -> String {
        let mut heard = String::new();
        loop {
            let mut line = String::new();
            let len = self.out.read_line(&mut line).expect("a pipe is readable");
            assert!(len > 0, "never heard {start:?}, only {heard:?}");
            // libtest's own "test NAME ... " has no newline of its own.
            if let Some(at) = line.find(start) {
                return line[at + start.len()..].trim().to_string();
            }
            heard += &line;
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: kill touches no memory; the child is ours and not reaped yet.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Waits for the end of the outer process, and for that of all that hold its output: everything inside.
    fn end(mut self) -> Done {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                break status;
            }
            if Instant::now() > deadline {
                self.child.kill().expect("the child is ours");
            }
            thread::sleep(Duration::from_millis(2));
        };
        let mut out = String::new();
        self.out.read_to_string(&mut out).expect("tests print text");
        let errors = self.errors.join().expect("reading does not panic");
        let code = status.code().unwrap_or_else(|| 128 + status.signal().expect("either or"));
        Done { code, out, errors, folder: self.folder }
    }
}

impl Done {
    #[track_caller]
    fn expect(self, code: i32) -> Done {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.errors);
        self
    }
}

/// The inner part: enters, as the program's `main` does, and runs `body` inside.
fn enter_and(body: impl FnOnce(&Inside)) {
    match enter() {
        Ok(Entered::Inside(inside)) => body(&inside),
        Ok(Entered::Done(status)) => process::exit(status.into()),
        Err(error) => {
            eprintln!("riprap: {error}");
            process::exit(255);
        }
    }
}

fn is_inner_part_of(test: &str) -> bool {
    env::var_os(TEST).is_some_and(|t| t == test)
}

/// A test that only has an inside: it passes when `body` does not panic, whoever runs it.
#[track_caller]
fn check_inside(test: &str, body: fn(&Inside)) {
    if is_inner_part_of(test) {
        return enter_and(body);
    }
    for user in users() {
        Run::start(test, user, &[]).end().expect(0);
    }
}

fn folder() -> PathBuf {
    env::var_os(FOLDER).expect("set by the outer part").into()
}

fn nodes(inside: &Inside, count: usize) -> Network {
    Network::new(inside, count).unwrap_or_else(|e| panic!("{e}"))
}

/// Every pair of different places, the harness among them.
fn all_pairs(network: &Network) -> Vec<(Endpoint, Endpoint)> {
    let places: Vec<Endpoint> = network.nodes().map(Endpoint::Node).chain([Endpoint::Harness]).collect();
    let pairs = places.iter().flat_map(|a| places.iter().map(move |b| (*a, *b)));
    pairs.filter(|(a, b)| a != b).collect()
}

/// Asks the network about every pair, and expects exactly the cut ones not to get through.
#[track_caller]
fn check_cuts(network: &Network, cuts: &[(Endpoint, Endpoint)]) {
    let pairs = all_pairs(network);
    let found = network.reachable_pairs(&pairs, WAIT).expect("probes work");
    for (pair, reach) in pairs.iter().zip(found) {
        let expect = if cuts.contains(pair) { Reach::No } else { Reach::Yes };
        assert_eq!(reach, expect, "{pair:?} while {cuts:?} are cut");
    }
}

const N0: Endpoint = Endpoint::Node(NodeIx(0));
const N1: Endpoint = Endpoint::Node(NodeIx(1));
const N2: Endpoint = Endpoint::Node(NodeIx(2));
const H: Endpoint = Endpoint::Harness;

// ---- network ----

#[test]
fn cuts_cut_what_they_name_and_heal() {
    check_inside("cuts_cut_what_they_name_and_heal", |inside| {
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
    check_inside("cut_pairs_are_probed_at_once", |inside| {
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
    check_inside("nothing_leaks_once_a_cut_is_acknowledged", |inside| {
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
    check_inside("established_connections_stall_and_go_on", |inside| {
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
    check_inside("networks_follow_each_other", |inside| {
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
    const NAME: &str = "the_machines_network_is_untouched";
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

/// The names of the network interfaces, sorted.
fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/dev").expect("every Linux has it");
    let mut names: Vec<_> =
        text.lines().filter_map(|l| Some(l.split_once(':')?.0.trim().to_string())).collect();
    names.sort();
    names
}

/// Interfaces, addresses and routes of this process's network.
fn machine() -> (Vec<String>, [String; 3]) {
    let read = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    (interfaces(), [read("fib_trie"), read("if_inet6"), read("route")])
}

// ---- entering and leaving ----

#[test]
fn files_and_folders_are_the_callers() {
    const NAME: &str = "files_and_folders_are_the_callers";
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
    const NAME: &str = "root_inside_writes_where_root_outside_may";
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
    const NAME: &str = "exit_codes_pass_through";
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
    const NAME: &str = "death_by_a_signal_is_told";
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
    const NAME: &str = "a_first_signal_is_passed_on_and_a_second_one_kills";
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
    const NAME: &str = "everything_dies_with_the_outer_process";
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
    const NAME: &str = "a_kill_at_any_moment_leaves_nothing";
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
    const NAME: &str = "a_forged_marker_does_not_pass_for_a_sandbox";
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
    const NAME: &str = "a_sandbox_holds_another";
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
    const NAME: &str = "a_masked_proc_will_do";
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
    check_inside("entering_again_is_being_inside", |_| {
        let again = thread::spawn(|| matches!(enter(), Ok(Entered::Inside(_)))).join();
        assert!(again.expect("no panic"));
    });
}

#[test]
fn a_refusal_names_the_setting() {
    check_inside("a_refusal_names_the_setting", |_| {
        assert!(probe().is_ok(), "{:?}", probe());
        let limit = "/proc/sys/user/max_user_namespaces";
        fs::write(limit, "0").expect("root inside sets its own namespace's limits");
        // Root needs no user namespaces...
        assert!(probe().is_ok(), "{:?}", probe());
        Run::start("a_sandbox_holds_another", None, &[(DEPTH, "2")]).end().expect(0);
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
    check_inside("nothing_stays_open", |inside| {
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

// ---- processes ----

fn shell(script: &str) -> ProcessSpec {
    ProcessSpec {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: BTreeMap::from([("WHO".into(), "node".into())]),
        cwd: Some("/".into()),
        log: folder().join("log"),
    }
}

/// Waits until a started script has written so.
#[track_caller]
fn await_log(text: &str) {
    let deadline = Instant::now() + LIMIT;
    let log = || fs::read_to_string(folder().join("log")).unwrap_or_default();
    while !log().contains(text) {
        assert!(Instant::now() < deadline, "{text:?} never came, only {:?}", log());
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn processes_start_pause_go_on_and_die() {
    check_inside("processes_start_pause_go_on_and_die", |inside| {
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
    check_inside("processes_end_when_asked_or_are_killed", |inside| {
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
    check_inside("a_kill_reaches_the_whole_group", |inside| {
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
    check_inside("what_cannot_start_says_why", |inside| {
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
