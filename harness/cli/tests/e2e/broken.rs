//! What the machine may refuse: a store, room, programs, a sandbox. One line, and nothing is left running.

use crate::support::{GENTLE, NOBODY, Place, Running, limit_files, myself, program, riprap, turn};
use std::env;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_store_that_cannot_be_made() {
    let _turn = turn();
    let file = Place::mine();
    fs::remove_dir(file.store()).expect("an empty folder of ours");
    fs::write(file.store(), "").expect("a file in a folder of ours");
    // Root may write everywhere, and everybody, as root of a sandbox, where they own the folder.
    let (closed, closed_store) = if myself() == 0 {
        let place = Place::of(Some(NOBODY));
        fs::set_permissions(place.store(), fs::Permissions::from_mode(0o555))
            .expect("permissions of our own");
        let store = place.store();
        (place, store)
    } else {
        (Place::mine(), "/riprap-test-store".into())
    };
    for (place, store, expected) in
        [(&file, file.store(), "Not a directory"), (&closed, closed_store, "Permission denied")]
    {
        let to_store = format!("--store={}", store.display());
        let done = Running::start(place.program([GENTLE, &[&to_store]].concat())).end().expect(255);
        let line = done.only_line();
        let start = format!("create {}", store.display());
        assert!(line.starts_with(&start) && line.contains(expected), "{line}");
        place.expect_nobody();
    }
}

#[test]
fn a_system_that_does_not_start() {
    let _turn = turn();
    let place = Place::mine();
    let program = place.path().join("program");
    for (content, expected) in [
        ("#!/bin/sh\necho no such licence >&2\nexit 3\n", "is down: exit status: 3; logs in "),
        ("#!/no/such/interpreter\n", "failed to start "),
    ] {
        fs::write(&program, content).expect("a file in a folder of ours");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions of our own");
        let bin = format!("--bin={}", program.display());
        let done = place.run(&[GENTLE, &[&bin]].concat()).end().expect(255);
        assert!(done.out.is_empty() && done.last_line().contains(expected), "{done:?}");
        place.expect_nobody();
    }
}

/// A node that ends in the middle of a run though nobody has ended it is a finding about it, and no failure of the harness.
#[test]
fn a_node_that_ends_by_itself_is_an_anomaly() {
    let _turn = turn();
    let place = Place::mine();
    let program = place.path().join("program");
    let content =
        format!("#!/bin/sh\n(sleep 10; kill -9 $$) &\nexec '{}' \"$@\"\n", place.binary().display());
    fs::write(&program, content).expect("a file in a folder of ours");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions of our own");
    let bin = format!("--bin={}", program.display());
    let limits = ["--nemesis=none", "--time-limit=12s", "--recovery-limit=1s", "--drain-limit=1s"];
    let done = place.run(&[&["test"], &limits[..], &[&bin]].concat()).end().expect(1);
    let results = fs::read(place.latest().join("results.json")).expect("results");
    let results: serde_json::Value = serde_json::from_slice(&results).expect("JSON");
    let found = &results["anomalies"]["node-crash"];
    assert_eq!((&found["count"], &found["allowed"]), (&3.into(), &false.into()), "{results:#}");
    let story = found["examples"][0]["story"].as_str().expect("a story");
    assert!(story.starts_with("n1 ended with signal: 9"), "{story}");
    assert!(done.out.contains("node-crash   3   n1 ended with signal: 9"), "{}", done.out);
    place.expect_nobody();
}

#[test]
fn clients_that_may_not_open_enough_files() {
    let _turn = turn();
    let place = Place::mine();
    let mut command = place.command(&[GENTLE, &["--nodes=15"]].concat());
    limit_files(&mut command, 64, Some(500));
    let done = Running::start(command).end().expect(255);
    let line = done.only_line();
    assert!(
        line.starts_with("8 clients of 15 nodes open up to ") && line.contains("500 is the limit"),
        "{line}"
    );
    place.expect_nobody();
}

// ---- in namespaces of our own ----

/// Names the test whose inner part this process is to run, and where.
const INNER: &str = "RIPRAP_E2E_INNER";
const FOLDER: &str = "RIPRAP_E2E_FOLDER";

/// What a process does before it becomes another program: makes itself a user namespace, in which it is the user that
/// it was, and a mount namespace.
struct Apart {
    uid: u32,
    maps: [(&'static CStr, CString); 3],
}

impl Apart {
    fn of(uid: u32, gid: u32, inside: u32) -> Apart {
        let map = |id| CString::new(format!("{inside} {id} 1\n")).expect("no null in it");
        let deny = CString::from(c"deny");
        Apart {
            uid,
            maps: [
                (c"/proc/self/setgroups", deny),
                (c"/proc/self/uid_map", map(uid)),
                (c"/proc/self/gid_map", map(gid)),
            ],
        }
    }

    /// Only system calls: between fork and exec nothing may be allocated or locked.
    fn enter(&self) -> io::Result<()> {
        // SAFETY: these calls touch no memory of ours.
        unsafe {
            if libc::geteuid() != self.uid {
                ok(libc::setresgid(self.uid, self.uid, self.uid))?;
                ok(libc::setresuid(self.uid, self.uid, self.uid))?;
            }
            ok(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS))?;
            // Without it, after a change of user, the files in /proc/self are root's.
            ok(libc::prctl(libc::PR_SET_DUMPABLE, 1))?;
        }
        self.maps.iter().try_for_each(|(path, content)| write(path, content))
    }
}

fn ok(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes a file by system calls alone.
fn write(path: &CStr, content: &CStr) -> io::Result<()> {
    // SAFETY: both strings end with a null, and live through the calls.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        ok(file)?;
        let written = libc::write(file, content.as_ptr().cast(), content.count_bytes());
        let result = ok(written as libc::c_int);
        libc::close(file);
        result
    }
}

/// Runs a test's inner part, as root of namespaces of its own, with a folder to mount things in.
#[track_caller]
fn run_apart(test: &str, place: &Place) {
    // SAFETY: geteuid and getegid touch no memory.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let apart = Apart::of(uid, gid, 0);
    let mut command = Command::new("/proc/self/exe");
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(INNER, test).env(FOLDER, place.path());
    // SAFETY: `enter` makes system calls and nothing else.
    unsafe { command.pre_exec(move || apart.enter()) };
    Running::start(command).end().expect(0);
}

/// The folder, if this process is to run the inner part of this test.
fn inner(test: &str) -> Option<PathBuf> {
    (env::var_os(INNER)? == test).then(|| env::var_os(FOLDER).expect("set by the outer part").into())
}

fn mount_tmpfs(at: &Path, size_bytes: u32) {
    let at = CString::new(at.to_str().expect("plain")).expect("no null in it");
    let options = CString::new(format!("size={size_bytes}")).expect("no null in it");
    // SAFETY: all strings end with a null, and live through the call.
    let done =
        unsafe { libc::mount(c"none".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) };
    ok(done).unwrap_or_else(|e| panic!("mount a tmpfs: {e}"));
}

/// The smallest is full before the brokers serve, the largest when there is a verdict and no room for the report.
#[test]
fn a_disk_that_is_full_costs_no_history() {
    const NAME: &str = "broken::a_disk_that_is_full_costs_no_history";
    let Some(folder) = inner(NAME) else {
        let _turn = turn();
        let place = Place::mine();
        run_apart(NAME, &place);
        return place.expect_nobody();
    };
    for size_kib in [16, 96, 150] {
        let store = folder.join(format!("store-{size_kib}"));
        fs::create_dir(&store).expect("a folder in a folder of ours");
        mount_tmpfs(&store, size_kib << 10);
        let to_store = format!("--store={}", store.display());
        // Brokers without room serve nobody: nothing is to be waited for.
        let limits = ["--time-limit=6s", "--recovery-limit=5s", "--drain-limit=5s", to_store.as_str()];
        let done = Running::start(program([GENTLE, &limits].concat())).end().expect(255);
        let line = done.last_line();
        assert!(
            line.contains("No space left on device") || line.contains(" is full: "),
            "{size_kib} KiB: {done:?}"
        );
        let history = store.join("latest/history.jsonl");
        if history.exists() {
            // Never 1: what could not be written is no fault of the brokers. 0 only after the final reads.
            let checked = riprap(["check", history.to_str().expect("plain")]);
            let drained = fs::read_to_string(&history).expect("readable").contains(r#""value":"drained""#);
            assert!(checked.code == 2 || (checked.code == 0 && drained), "{size_kib} KiB: {checked:?}");
            // A verdict that was reached is not lost though it cannot be stored.
            assert_eq!(done.out.is_empty(), !drained, "{size_kib} KiB: {done:?}");
        }
    }
}

/// A kernel that grants no user namespaces, seen by somebody who is not root.
#[test]
fn a_refused_sandbox_names_the_setting() {
    let root = myself() == 0;
    let place = Place::of(root.then_some(NOBODY));
    // SAFETY: getegid touches no memory.
    let (uid, gid) = if root { (NOBODY, NOBODY) } else { (myself(), unsafe { libc::getegid() }) };
    let apart = Apart::of(uid, gid, uid);
    let mut command = Command::new(place.binary());
    command.args(GENTLE).arg("--store").arg(place.store()).current_dir("/");
    // SAFETY: `enter` and `write` make system calls and nothing else.
    unsafe {
        command.pre_exec(move || {
            apart.enter()?;
            write(c"/proc/sys/user/max_user_namespaces", c"0")
        });
    }
    let done = Running::start(command).end().expect(255);
    let line = done.only_line();
    assert!(
        line.contains("user.max_user_namespaces is 0: as root, sysctl -w user.max_user_namespaces="),
        "{line}"
    );
    assert!(line.ends_with(", or run riprap as root"), "{line}");
    assert_eq!(fs::read_dir(place.store()).expect("a folder").count(), 0, "nothing was begun");
    place.expect_nobody();
}
