//! What is asked for on the command line: told in one line what is wrong with it, helped, listed.

use crate::support::{Running, program, riprap};
use serde_json::Value as Json;
use std::fs::File;
use std::process::Stdio;

const COMMANDS: &[&str] = &["test", "check", "report", "list", "broker", "objects", "compare"];
const LISTS: &[&str] = &["systems", "workloads", "faults", "checkers", "defects"];

#[test]
fn wrong_arguments_are_told_in_one_line() {
    for (line, expected) in [
        ("", "a command is missing; one of: test, sim, replay, shrink, check, "),
        ("tset", "unknown command `tset`; one of: test, sim, replay, shrink, check, "),
        ("--xyzzy", "unknown option `--xyzzy`"),
        ("test --xyzzy", "unknown option `--xyzzy`; `riprap test --help`"),
        ("test --node 3", "`--nodes` may be meant"),
        ("test now", "unknown argument `now`"),
        ("test --seed", "--seed <N> needs a value"),
        ("test --system brokre", "unknown system `brokre`; one of: broker"),
        ("test --system /no/such.toml", "failed to read /no/such.toml: No such file"),
        ("test --system /no/such.toml@1.0", "failed to read /no/such.toml: No such file"),
        (
            "test --controllers 3",
            "--controllers: each node of system `broker` is a controller too; leave it out",
        ),
        (
            "test --nemesis kill:controller",
            "fault `kill:controller` finds none: every node is a broker and a controller",
        ),
        (
            "test --system kafka --controllers 65",
            "--controllers is `65`; a whole number from 0 to 64 is right",
        ),
        ("test --system kafka --controllers 62", "3 nodes and 62 controllers; 64 in all at most are right"),
        (
            "test --system kafka --set feature.x=y",
            "--set feature.x=y: a feature has a level; a whole number is right",
        ),
        ("test --system broker@1.0", "system `broker` has no version `1.0` to choose"),
        ("test --system kafka@3.9.1", "kafka@3.9.1: 4.0.0 or newer is right"),
        ("test --system kafka@latest", "kafka@latest: no version; one like "),
        ("test --system kafka --set node.id=7", "--set node.id: riprap sets it itself; leave it out"),
        ("test --system kafka --defect zero-offset", "--defect: system `kafka` has no planted defects"),
        ("test --system kafka --sim", "--sim: system `kafka` runs live only"),
        (
            "test --system kafka --bin /bin/true",
            "--bin: system `kafka` is fetched by its version; leave it out",
        ),
        (
            "test --system redpanda",
            "--bin: system `redpanda` is not fetched; the program `redpanda` of a release is right",
        ),
        (
            "test --system redpanda@24.2.7 --bin /bin/true",
            "system `redpanda` has no version `24.2.7` to choose: it is this program, or what --bin names",
        ),
        (
            "test --system redpanda --bin /bin/true --set node.node_id=7",
            "--set node.node_id: riprap sets it itself; leave it out",
        ),
        ("test --system redpanda --bin /bin/true --sim", "--bin and --sim exclude each other"),
        ("test --system tansu@0.5.9", "tansu@0.5.9: 0.6.0 or newer is right"),
        ("test --system tansu --txn", "tansu@0.6.0 does not end transactions (it serves no EndTxn)"),
        ("test --system tansu@0.6.0 --workload abort", "tansu@0.6.0 does not end transactions"),
        ("test --system tansu --set storage=sqlite", "unknown setting `storage`; one of: log"),
        ("test --system tansu --defect zero-offset", "--defect: system `tansu` has no planted defects"),
        (
            "test --system tansu --nemesis kill:storage:majority",
            "fault `kill:storage:majority` needs at least 2 nodes of storage; this system has 1",
        ),
        (
            "test --nemesis kill:storage",
            "fault `kill:storage` finds none: brokers of this system keep their data themselves",
        ),
        (
            "test --system tansu --hosts root@10.0.0.1",
            "--hosts names 1, what system `tansu` keeps its data on 1; one more at least is right",
        ),
        ("test --system tansu --nodes 64", "64 nodes and 1 of storage; 64 in all at most are right"),
        ("test --system nats@2.9.1", "nats@2.9.1: 2.10.25 or newer is right"),
        ("test --system nats@latest", "nats@latest: no version; one like "),
        (
            "test --system nats --set store_dir=/",
            "unknown setting `store_dir`; one of: cluster.compression, ",
        ),
        (
            "test --system nats --set sync_interval=soon",
            "setting sync_interval=`soon`: always, or a time such as ",
        ),
        (
            "test --system nats --set client.linger=1",
            "unknown setting `client.linger`; one of: client.ack_timeout, ",
        ),
        ("test --system nats --defect zero-offset", "--defect: system `nats` has no planted defects"),
        (
            "test --system nats --bin /bin/true",
            "--bin: system `nats` is fetched by its version; leave it out",
        ),
        ("test --system nats --sim", "--sim: system `nats` runs live only"),
        ("test --system nats --txn", "system `nats` has no transactions over several streams"),
        ("test --system nats --workload abort", "system `nats` has no transactions over several streams"),
        ("test --system nats --sub-via subscribe", "--sub-via subscribe: system `nats` has no groups"),
        (
            "test --system nats --acks 1 --idempotence false",
            "--acks 1: system `nats` acknowledges what a majority has",
        ),
        (
            "test --system nats --nodes 7 --replication 7",
            "--replication 7: a stream of system `nats` has 1 to 5 replicas",
        ),
        ("test --workload que", "unknown workload `que`; one of: abort, queue"),
        (
            "test --nemesis rolling-upgrade",
            "fault `rolling-upgrade` needs another version to go to; --upgrade-to VERSION is right",
        ),
        (
            "test --upgrade-to /bin/true",
            "--upgrade-to /bin/true: no fault of this run goes there; --nemesis rolling-upgrade",
        ),
        (
            "test --nemesis rolling-upgrade --upgrade-to /etc/no/such",
            "--upgrade-to is `/etc/no/such`: No such file or directory (os error 2); a program is right",
        ),
        (
            "test --nemesis rolling-upgrade --upgrade-to /etc",
            "--upgrade-to is `/etc`: not a file; a program is right",
        ),
        (
            "test --system kafka@4.0.0 --nemesis rolling-upgrade --upgrade-to 3.9.1",
            "--upgrade-to 3.9.1: kafka@3.9.1: 4.0.0 or newer is right",
        ),
        (
            "test --system kafka@4.0.0 --nemesis rolling-upgrade --upgrade-to 4.0.0",
            "--upgrade-to 4.0.0: that is what runs from the start; another is right",
        ),
        (
            "test --sim --nemesis rolling-restart",
            "fault `rolling-restart` strikes real nodes only; leave it out",
        ),
        ("test --nemesis kil", "unknown fault `kil`; one of: bit-flip, client-crash, clock, "),
        ("test --nemesis kill:some", "unknown shape `some` of fault `kill`; one of: one, "),
        ("test --nodes 3 --nemesis partition:majorities-ring", "needs at least 4 nodes; --nodes is 3"),
        ("test --nodes 1 --nemesis partition", "fault `partition` needs more than 1 node"),
        ("test --defect none-such", "unknown defect `none-such`; one of: "),
        ("test --set a=1", "unknown setting `a`; one of: broker.heartbeat.interval.ms, "),
        ("test --set min.insync.replicas=0", "setting min.insync.replicas=`0`: a number from 1"),
        (
            "test --set client.no.such=1",
            "setting `client.no.such` is `1`; librdkafka says: No such configuration property",
        ),
        (
            "test --set client.linger.ms=x",
            "setting `client.linger.ms` is `x`; librdkafka says: Invalid value",
        ),
        ("test --set a", "--set is `a`; PROPERTY=VALUE is right"),
        ("test --isolation serializable", "--isolation is `serializable`; one of: read_committed, "),
        ("test --sub-via telepathy", "--sub-via is `telepathy`; one of: assign, subscribe"),
        ("test --acks 2", "--acks is `2`; one of: 0, 1, all"),
        ("test --acks 1", "--acks 1 and --idempotence true exclude each other"),
        ("test --time-limit 30", "--time-limit is `30`; a whole number with a unit is right, such as 500ms"),
        ("test --time-limit 10ms", "--time-limit is `10ms`; a time from 1s to 168h is right"),
        ("test --time-limit 1e9h", "--time-limit is `1e9h`; a whole number with a unit"),
        ("test --nodes 0", "--nodes is `0`; a whole number from 1 to 64 is right"),
        ("test --nodes -3", "--nodes is `-3`; a whole number from 1 to 64 is right"),
        ("test --concurrency many", "--concurrency is `many`; a whole number from 1 to 1000 is right"),
        ("test --rate inf", "--rate is `inf`; a number from 0.001 to 1000000 is right"),
        ("test --seed 18446744073709551616", "a whole number from 0 to 18446744073709551615 is right"),
        ("test --bin /no/such/program", "--bin is `/no/such/program`: No such file"),
        ("test --bin /", "--bin is `/`: not a file"),
        ("test --sim --hosts a,b", "--sim and --hosts exclude each other; one of them is right"),
        ("test --sim --bin /bin/true", "--bin and --sim exclude each other"),
        ("test --sim --set client.linger.ms=1", "setting `client.linger.ms`"),
        ("sim --seeds 9..1", "--seeds is `9..1`; FIRST..LAST, such as 1..1000, or one seed is right"),
        ("sim --jobs 0", "--jobs is `0`; a whole number from 1 to 256 is right"),
        ("sim --defect none-such", "unknown defect `none-such`"),
        ("replay", "missing <RUN|SCENARIO.json>"),
        ("replay /no/such/run", "/no/such/run: No such file"),
        ("replay /", "read /test.json: No such file"),
        ("replay /etc/passwd", "/etc/passwd: expected "),
        ("shrink /no/such/run -o a", "/no/such/run: No such file"),
        ("test --hosts a:x,b", "--hosts is `a:x`; [USER@]HOST[:PORT] is right"),
        ("test --hosts a --nodes 3", "--hosts and --nodes exclude each other; one of them is right"),
        (
            "test --hosts a --controllers 1",
            "--hosts names 1, --controllers takes 1 of them; one more at least is right",
        ),
        (
            "test --hosts a,b --nemesis membership",
            "fault `membership` needs a host more; --spare-host HOST is right",
        ),
        (
            "test --hosts a,b --spare-host c --nemesis kill",
            "--spare-host: no fault of this run has a node join",
        ),
        ("test --accept-new", "--hosts"),
        (
            "test --bootstrap a:9092",
            "--bootstrap: system `broker` is deployed by riprap itself; leave it out",
        ),
        ("test --system external@1 --bootstrap a:1", "has no version `1` to choose: it is there already; "),
        ("test --system external", "--system external: --bootstrap HOST:PORT,... is missing"),
        ("test --system external --bootstrap a", "--bootstrap is `a`; HOST:PORT is right"),
        (
            "test --system external --bootstrap a:1 --nemesis kill",
            "fault `kill`: the nodes of a cluster that is there ",
        ),
        (
            "test --system external --bootstrap a:1 --set a=1",
            "--set a: system `external` has its settings already",
        ),
        (
            "test --system external --bootstrap a:1 --defect x",
            "--defect: system `external` has no planted defects",
        ),
        ("test --system external --bootstrap a:1 --bin /bin/true", "--bin: system `external` runs already"),
        ("test --system external --sim", "--sim: system `external` runs live only"),
        ("test --keep-topics", "--keep-topics: it is about a cluster that is there already; leave it out"),
        ("test --txn --idempotence false", "--txn and --idempotence false exclude each other: "),
        (
            "test --workload abort --idempotence false",
            "--workload abort and --idempotence false exclude each other: ",
        ),
        ("test --txn --acks 1", "--acks 1 and --idempotence true exclude each other"),
        ("compare", "nothing to compare; one of --versions, --defects, --systems is right"),
        ("compare --defects none", "--defects names 1; from 2 to 16 are right"),
        ("compare --defects none,none-such", "unknown defect `none-such`"),
        ("compare --versions 1.0,2.0", "system `broker` has no version `1.0` to choose"),
        ("compare --system kafka --versions 4.0.0,3.9.1", "kafka@3.9.1: 4.0.0 or newer is right"),
        (
            "compare --system kafka@4.0.0 --versions 4.0.0,4.3.1",
            "--system is `kafka@4.0.0` beside --versions",
        ),
        ("compare --systems broker,brokre", "unknown system `brokre`; one of: broker"),
        ("compare --systems broker,kafka --system broker", "--systems and --system exclude each other"),
        ("compare --versions 1,2 --defects a,b", "--versions and --defects exclude each other"),
        ("compare --defects none,none --defect zero-offset", "--defect and --defects exclude each other"),
        ("compare --defects none,none --seed 1", "--seed: --seeds FIRST..LAST is right"),
        ("compare --defects none,none --jobs 2", "--jobs is `2`; 1 is right, or --sim"),
        (
            "compare --defects none,none --seeds 1..5001",
            "--seeds asks for 10002 runs; at most 10000 are right",
        ),
        ("compare --systems broker,kafka --sim", "--sim: system `kafka` runs live only"),
        ("check", "missing <HISTORY>; `riprap check <HISTORY>` is right"),
        ("check a.jsonl b.jsonl", "unknown argument `b.jsonl`"),
        ("check a.jsonl --guarantees best", "--guarantees is `best`; one of: riprap, jepsen"),
        ("check a.jsonl --guarantees jepsen --rw", "--rw and --guarantees jepsen exclude each other: "),
        ("check a.jsonl --workload que", "unknown workload `que`; one of: abort, queue"),
        ("report", "missing <RUN_DIR>; `riprap report <RUN_DIR>` is right"),
        ("report /no/such/run", "open /no/such/run: No such file"),
        ("report /", "read /test.json: No such file"),
        ("list", "missing <WHAT>; one of: systems, workloads, faults, checkers, defects"),
        ("list seeds", "WHAT is `seeds`; one of: systems, "),
        ("broker", "missing --dir <DIR>; `riprap broker --dir <DIR>` is right"),
        ("broker --dir /tmp --listen here", "--listen is `here`; HOST:PORT with an IP address is right"),
        ("broker --dir /tmp --peers here", "--peers has `here`; ID@HOST:PORT is expected"),
        ("broker --dir /tmp --defect none-such", "none-such"),
    ] {
        let done = riprap(line.split_whitespace()).expect(254);
        assert!(done.only_line().contains(expected), "riprap {line}\n{}{expected}", done.err);
    }
    // Whatever an argument holds, it stays one line.
    let done = riprap(["test", "--workload", "a\n\x1b[31mb"]).expect(254);
    assert!(done.only_line().starts_with("unknown workload `a [31mb`"), "{}", done.err);
}

#[test]
fn help_has_an_example_and_the_version_a_number() {
    let mut lines = vec!["--help".to_owned(), "-h".to_owned(), "help".to_owned()];
    for command in COMMANDS {
        lines.extend([format!("{command} --help"), format!("{command} -h"), format!("help {command}")]);
    }
    for line in &lines {
        let done = riprap(line.split_whitespace()).expect(0);
        assert_eq!(done.err, "", "riprap {line}");
        let example = done.out.split_once("Examples:\n").map(|(_, examples)| examples).unwrap_or_default();
        assert!(example.trim_start().starts_with("riprap "), "riprap {line}\n{}", done.out);
    }
    let done = riprap(["--help"]).expect(0);
    assert!(COMMANDS.iter().all(|command| done.out.contains(&format!("\n  {command} "))), "{}", done.out);
    let done = riprap(["--version"]).expect(0);
    assert_eq!(
        (done.out.as_str(), done.err.as_str()),
        (concat!("riprap ", env!("CARGO_PKG_VERSION"), "\n"), "")
    );
}

#[test]
fn lists_are_sorted_and_say_in_json_what_they_say_in_text() {
    for what in LISTS {
        let text = riprap(["list", what]).expect(0);
        let json = riprap(["list", what, "--json"]).expect(0);
        assert_eq!((text.err.as_str(), json.err.as_str()), ("", ""), "{what}");
        let entries: Vec<Json> = serde_json::from_str(&json.out).unwrap_or_else(|e| panic!("{what}: {e}"));
        let word = |entry: &Json, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let names: Vec<String> = entries.iter().map(|entry| word(entry, "name")).collect();
        assert!(!names.is_empty() && names.iter().all(|name| !name.is_empty()), "{what}: {names:?}");
        assert!(names.is_sorted(), "{what}: {names:?}");
        assert!(entries.iter().all(|entry| !word(entry, "doc").is_empty()), "{what}: {}", json.out);
        let in_text: Vec<&str> =
            text.out.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
        assert_eq!(in_text, names, "{what}");
    }
}

/// As in `riprap list faults | head -1`, and on a disk that is full.
#[test]
fn whoever_reads_may_go_away() {
    for line in ["--help", "--version", "list checkers", "list checkers --json"] {
        let mut command = program(line.split_whitespace());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        command.stdout(writer).stderr(Stdio::piped());
        let done = command.output().expect("it runs");
        assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), b"".as_slice()), "riprap {line}");

        let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
        let done = program(line.split_whitespace()).stdout(full).output().expect("it runs");
        let words = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(255), "riprap {line}: {words}");
        assert!(words.starts_with("riprap: failed to write to stdout: No space left"), "{words}");
    }
    // Nobody to hear what is wrong: the code alone says it.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = program(["tset"]).stdout(Stdio::null()).stderr(writer).status().expect("it runs");
    assert_eq!(status.code(), Some(254));
}

#[test]
fn a_broker_that_cannot_run_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file in a folder of ours");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().expect("bound").to_string();
    for (listen, dir, expected) in [
        (taken.as_str(), folder.path(), "failed to listen on "),
        ("127.0.0.1:0", file.as_path(), "/file: File exists"),
    ] {
        let dir = dir.to_str().expect("plain");
        let done = Running::start(program(["broker", "--listen", listen, "--dir", dir])).end().expect(255);
        assert!(done.last_line().contains(expected), "{}", done.err);
    }
    let mut command = program(["broker", "--listen", "127.0.0.1:0", "--dir", "/no/such"]);
    command.env("RIPRAP_LOG", "info,loud");
    let done = Running::start(command).end().expect(254);
    assert!(
        done.only_line().starts_with("RIPRAP_LOG is `info,loud`: `loud` is neither a level"),
        "{}",
        done.err
    );
}
