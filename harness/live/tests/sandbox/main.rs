//! The local sandbox, from outside and from inside.
//!
//! Each test executes this test binary anew (`--exact NAME`) as the user whom it stands for, and there enters a sandbox of
//! its own; what the test binary does then, it does three times over: as outer process, as supervisor and as harness.
//! Root runs every test as itself and as nobody. Where no sandbox can be had the tests fail with the line that says why.

mod disks;
mod entering;
mod network;
mod packets;
mod processes;

use riprap_live::sandbox::{
    Ended, Endpoint, Entered, Inside, LOSS_PROBES, Network, NodeIx, NodeProcess, ProcessError, ProcessSpec,
    ProcessState, Reach, SandboxError, enter, probe,
};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
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

/// The names of the network interfaces, sorted.
fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/dev").expect("every Linux has it");
    let mut names: Vec<_> =
        text.lines().filter_map(|l| Some(l.split_once(':')?.0.trim().to_string())).collect();
    names.sort();
    names
}

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
