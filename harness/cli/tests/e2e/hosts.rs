//! Runs over SSH: against real sshds, each in a network namespace of a sandbox's own (`harness/live/examples/hosts.rs`).
//!
//! An sshd needs root and has to be there; without, these tests say that they are skipped.

use crate::support::{Done, Place, Running, turn};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SSHD: &str = "/usr/sbin/sshd";

/// The program that runs a command beside hosts; none where there can be no hosts, which is said.
fn bed() -> Option<PathBuf> {
    // SAFETY: geteuid touches no memory.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root || !Path::new(SSHD).exists() {
        eprintln!("skipped: hosts need root and {SSHD} (Debian: openssh-server)");
        return None;
    }
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--package=riprap-live", "--example=hosts"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the example `hosts` is built");
    let bed = Path::new(env!("CARGO_BIN_EXE_riprap")).with_file_name("examples").join("hosts");
    assert!(bed.exists(), "{} is there", bed.display());
    Some(bed)
}

/// Runs a script of sh beside three hosts and one to spare, with the program as `$riprap`, what it is told to reach them by as
/// `$hosts`, `$spare` and `$key`, and their folders below `$folder`.
fn beside(bed: &Path, place: &Place, script: &str) -> Done {
    let mut command = Command::new(bed);
    let given = format!(
        "set -u; riprap={}; hosts={{hosts}}; spare={{spare}}; key={{key}}; folder={{folder}}",
        env!("CARGO_BIN_EXE_riprap")
    );
    let gentle = "gentle='--store store --rate 50 --concurrency 5 --seed 1 --fault-time 2s --quiet-time 3s'";
    command.args(["/bin/sh", "-c", &format!("{given}; {gentle}; {script}")]);
    command.current_dir(place.path()).env("HOSTS", "4").stdin(Stdio::null());
    Running::start(command).end()
}

fn json(path: &Path) -> Json {
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn a_run_over_ssh_is_like_any_other() {
    let Some(bed) = bed() else { return };
    let (_turn, place) = (turn(), Place::mine());
    let mut faults =
        vec!["kill", "partition", "loss", "reject", "reset", "latency", "rate", "hold", "rolling-upgrade"];
    if fs::File::options().read(true).write(true).open("/dev/fuse").is_ok() {
        faults.extend(["power-loss", "disk-slow", "bit-flip"]);
    } else {
        eprintln!("skipped: faults of disks, /dev/fuse cannot be opened");
    }
    let run_for = |limit: &str| {
        let script = format!(
            "cp $riprap other; echo >>other
             $riprap test --hosts $hosts --ssh-key $key --accept-new --time-limit {limit} $gentle --nemesis {} --upgrade-to other
             code=$?
             for n in n1 n2 n3; do ls $folder/$n/.cache/riprap/agent | cut -d- -f1; done
             exit $code",
            faults.join(",")
        );
        beside(&bed, &place, &script)
    };
    let mut done = run_for("25s");
    if done.code == 2 {
        // On a machine with much else to do nodes take longer.
        done = run_for("60s");
    }
    let done = done.expect(0);
    assert!(done.out.starts_with("valid   broker queue, "), "{}", done.out);
    let programs = "\n".to_owned() + &"program\nriprap\n".repeat(3);
    assert!(done.out.contains(&programs), "the agent and the other version each: {}", done.out);
    assert!(
        done.err.contains(" on 3 nodes (root@10.77.0.10, root@10.77.0.11, root@10.77.0.12), "),
        "{}",
        done.err
    );
    let run = place.latest();
    assert_eq!(json(&run.join("test.json"))["hosts"].as_array().map(Vec::len), Some(3));
    for node in ["n1", "n2", "n3"] {
        let log = fs::read_to_string(run.join("nodes").join(node).join("node.log")).expect("it was brought");
        assert!(!log.is_empty(), "{node} has said something");
    }
    let history = fs::read_to_string(run.join("history.jsonl")).expect("there");
    for fault in faults {
        let f = if fault == "rate" { "limit-rate" } else { fault };
        assert!(history.contains(&format!("\"f\":\"{f}\"")), "{fault} struck");
    }
}

#[test]
fn a_host_to_spare_joins_and_leaves() {
    let Some(bed) = bed() else { return };
    let (_turn, place) = (turn(), Place::mine());
    let run_for = |limit: &str| {
        let script = format!(
            "$riprap test --hosts $hosts --spare-host $spare --ssh-key $key --accept-new --time-limit {limit} $gentle \
             --nemesis membership"
        );
        beside(&bed, &place, &script)
    };
    let mut done = run_for("8s");
    if done.code == 2 {
        // On a machine with much else to do partitions take longer to move.
        done = run_for("60s");
    }
    done.expect(0);
    let run = place.latest();
    let results = json(&run.join("results.json"));
    assert_eq!(results["liveness"]["members"], Json::from("n4 has left"));
    let log = fs::read_to_string(run.join("riprap.log")).expect("it is there");
    assert!(log.contains("n4 has joined, and has "), "{log}");
    assert!(run.join("nodes/n4/node.log").exists(), "it was brought too");
}

#[test]
fn who_is_at_the_other_end_is_checked() {
    let Some(bed) = bed() else { return };
    let (_turn, place) = (turn(), Place::mine());
    let check = |script: &str, code: i32, said: &str| {
        let done = beside(&bed, &place, script).expect(code);
        assert!(done.err.contains(said), "{script}: {}", done.err);
    };
    let test = "$riprap test --time-limit 1s $gentle --nemesis none --hosts";
    check(&format!("{test} $hosts --ssh-key $key"), 255, "known_hosts; --accept-new adds it, if it is right");
    check(
        &format!("{test} $hosts --ssh-key $folder/none --accept-new"),
        255,
        "/none: No such file or directory",
    );
    check(
        &format!("ssh-keygen -q -t ed25519 -N '' -f mine; {test} $hosts --ssh-key mine --accept-new"),
        255,
        "--ssh-key mine: ",
    );
    // Known from the first run on; then another key is there for the first of them.
    let known = "~/.ssh/known_hosts";
    check(
        &format!(
            "{test} $hosts --ssh-key $key --accept-new || exit; {test} $hosts --ssh-key $key || exit; \
             key2=$(cut -d' ' -f2 $folder/key.pub); grep -c riprap {known} >&2; \
             sed -i \"s|^10.77.0.10 ssh-ed25519 [^ ]*|10.77.0.10 ssh-ed25519 $key2|\" {known}; {test} $hosts --ssh-key $key --accept-new"
        ),
        255,
        "another machine answers, or its key was changed",
    );
    check(
        &format!("{test} 10.77.0.10:23 --ssh-key $key"),
        255,
        "failed to log in to root@10.77.0.10:23: 10.77.0.10:23: Connection refused",
    );
    check(
        &format!("{test} 10.77.0.10,10.77.0.10 --ssh-key $key --accept-new"),
        255,
        "is 10.77.0.10, and so is root@10.77.0.10; a host for each node is right",
    );
}

/// Nobody knows what became of a host that is lost: that is no verdict about the system, and the next run is not harmed.
#[test]
fn a_host_that_is_lost_is_a_failure_of_the_harness() {
    let Some(bed) = bed() else { return };
    let (_turn, place) = (turn(), Place::mine());
    // The agents of two runs: one is killed, and one whose harness is.
    let agents = "grep -l -a -E '/agent/riprap-[0-9a-f]{16}' /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3";
    let script = format!(
        "test=\"$riprap test --hosts $hosts --ssh-key $key --accept-new $gentle\"
         await() {{ until grep -q '\"type\":\"ok\"' store/latest/history.jsonl 2>/dev/null; do sleep 0.1; done; }}
         $test --nemesis none --time-limit 60s & run=$!; await
         kill -9 $({agents} | head -1); wait $run; echo first $? >&2
         rm store/latest
         $test --nemesis power-loss --time-limit 60s & run=$!; await
         $test --nemesis none --time-limit 1s; echo busy $? >&2
         kill -9 $run; $test --nemesis none --time-limit 1s; echo second $? >&2"
    );
    let done = beside(&bed, &place, &script).expect(0);
    let has = |said: &str| assert!(done.err.contains(said), "{said}: {}", done.err);
    has("is lost: its agent has ended; the history so far is in ");
    has("\nfirst 255\n");
    has("another run has this host; its end, or another host, is right");
    has("\nbusy 255\n");
    has("\nsecond 0\n");
}
