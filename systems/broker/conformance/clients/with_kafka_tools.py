"""Kafka's own command-line tools, as an operator calls them. Their jars' class path comes in CLASSPATH."""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.path[0] + "/..")
from cases import Cases, equal

cases = Cases()
# A virtual machine takes seconds to start on a busy machine.
PATIENCE_S = 60
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
TOOLS = "org.apache.kafka.tools"
# The one tool that is still among the broker's own classes.
CONFIGS = "kafka.admin.ConfigCommand"


def tool(name, *arguments, stdin="", server="--bootstrap-server"):
    command = [*JAVA, name if name.startswith("kafka.") else f"{TOOLS}.{name}", server, cases.bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE_S, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{name} {' '.join(arguments)}: {done.stdout[-300:]} {done.stderr[-300:]}")
    return done.stdout


def create(name, partitions=1):
    topic = cases.name(name)
    tool(
        "TopicCommand", "--create", "--topic", topic, "--partitions", str(partitions),
        "--replication-factor", str(cases.replicas),
    )  # fmt: skip
    return topic


def columns(table, name):
    """The rows of a table of words, each as a dictionary, whose column `TOPIC` says `name`."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    head = next(line for line in lines if "TOPIC" in line)
    return [row for row in (dict(zip(head, line)) for line in lines) if row.get("TOPIC") == name]


@cases.case
def topics():
    topic = create("topics", 3)
    described = tool("TopicCommand", "--describe", "--topic", topic)
    assert re.search(rf"ReplicationFactor: {cases.replicas}\b", described), described
    equal(len(re.findall(r"Leader: \d+", described)), 3, "leaders")
    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "4")
    described = tool("TopicCommand", "--describe", "--topic", topic)
    equal(len(re.findall(r"Leader: \d+", described)), 4, "leaders after it grew")
    assert topic in tool("TopicCommand", "--list").split()
    equal(tool("TopicCommand", "--describe", "--under-replicated-partitions").strip(), "", "under-replicated")
    tool("TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool("TopicCommand", "--list").split()


@cases.case
def console_producer_and_consumer():
    topic = create("console")
    lines = [f"key {i}\tvalue {i}" for i in range(200)]
    tool(
        "ConsoleProducer", "--topic", topic, "--reader-property", "parse.key=true", "--compression-codec", "zstd",
        stdin="\n".join(lines) + "\n",
    )  # fmt: skip
    got = tool(
        "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "200",
        "--formatter-property", "print.key=true", "--timeout-ms", "20000",
    )  # fmt: skip
    equal(got.splitlines(), lines)


@cases.case
def groups_and_offsets():
    topic, group = create("groups"), cases.name("groups")
    tool("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    got = tool(
        "consumer.ConsoleConsumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "2",
        "--timeout-ms", "20000",
    )  # fmt: skip
    equal(got.split(), ["a", "b"])
    groups = "consumer.group.ConsumerGroupCommand"
    (row,) = columns(tool(groups, "--describe", "--group", group), topic)
    equal((row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]), ("2", "3", "1"), "described")
    assert group in tool(groups, "--list").split()
    state = tool(groups, "--describe", "--group", group, "--state")
    assert "Empty" in state, state
    (row,) = columns(
        tool(groups, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"), topic
    )
    equal(row["NEW-OFFSET"], "0", "after the reset")
    tool(groups, "--delete", "--group", group)
    assert group not in tool(groups, "--list").split()


@cases.case
def groups_of_the_consumer_protocol():
    topic, group = create("consumed", 2), cases.name("consumers")
    tool("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    groups = "consumer.group.ConsumerGroupCommand"
    command = [
        *JAVA, f"{TOOLS}.consumer.ConsoleConsumer", "--bootstrap-server", cases.bootstrap, "--topic", topic,
        "--group", group, "--from-beginning", "--command-property", "group.protocol=consumer",
    ]  # fmt: skip
    member = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        equal(sorted(member.stdout.readline().strip() for _ in range(3)), ["a", "b", "c"], "consumed")
        rows = columns(tool(groups, "--describe", "--group", group), topic)
        equal(sorted(row["PARTITION"] for row in rows), ["0", "1"], "partitions")
        assert all(row["CONSUMER-ID"] != "-" for row in rows), rows
        state = tool(groups, "--describe", "--group", group, "--state")
        assert "Stable" in state and "uniform" in state, state
        members = tool(groups, "--describe", "--group", group, "--members", "--verbose")
        assert f"{topic}:0,1" in members, members
        assert re.search(rf"{group}\s+Consumer\s", tool(groups, "--list", "--type")), "its type"
    finally:
        member.terminate()
        member.wait(PATIENCE_S)
    assert "Empty" in tool(groups, "--describe", "--group", group, "--state")
    tool(groups, "--delete-offsets", "--group", group, "--topic", topic)
    assert topic not in tool(groups, "--describe", "--group", group, "--offsets"), "its offsets"
    tool(groups, "--delete", "--group", group)


@cases.case
def get_offsets():
    topic = create("offsets", 2)
    tool("ConsoleProducer", "--topic", topic, stdin="a\n" * 5)
    for at, expect in [("latest", 5), ("earliest", 0)]:
        lines = tool("GetOffsetShell", "--topic", topic, "--time", at).split()
        equal(len(lines), 2, f"{at}: partitions")
        equal(sum(int(line.split(":")[2]) for line in lines), expect, at)
    # Partitions without records have no such offset, and are left out.
    assert tool("GetOffsetShell", "--topic", topic, "--time", "max-timestamp").startswith(f"{topic}:")


@cases.case
def verifiable_producer_and_consumer():
    topic, group = create("verifiable", 2), cases.name("verifiable")
    produced = tool("VerifiableProducer", "--topic", topic, "--max-messages", "1000", "--acks", "-1")
    events = [json.loads(line) for line in produced.splitlines()]
    equal(sum(e["name"] == "producer_send_success" for e in events), 1000, "acknowledged")
    consumed = tool(
        "VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", "1000",
        "--reset-policy", "earliest",
    )  # fmt: skip
    events = [json.loads(line) for line in consumed.splitlines()]
    equal(sum(e["count"] for e in events if e["name"] == "records_consumed"), 1000, "consumed")
    assert all(e["success"] for e in events if e["name"] == "offsets_committed"), "a commit failed"


@cases.case
def configs():
    topic = create("configs")
    entity = ["--entity-type", "topics", "--entity-name", topic]
    tool(CONFIGS, *entity, "--alter", "--add-config", "retention.ms=1000,min.insync.replicas=1")
    described = tool(CONFIGS, *entity, "--describe")
    assert re.search(r"retention\.ms=1000\b.*DYNAMIC_TOPIC_CONFIG", described), described
    tool(CONFIGS, *entity, "--alter", "--delete-config", "retention.ms")
    described = tool(CONFIGS, *entity, "--describe")
    assert "retention.ms" not in described and "min.insync.replicas=1" in described, described
    everything = tool(CONFIGS, *entity, "--describe", "--all")
    assert re.search(r"retention\.ms=604800000\b.*DEFAULT_CONFIG", everything), everything
    try:
        tool(CONFIGS, *entity, "--alter", "--add-config", "min.insync.replicas=none")
    except RuntimeError:
        pass
    else:
        raise AssertionError("a setting that is no number is taken")
    of_broker = tool(CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "num.partitions=1" in of_broker, of_broker


@cases.case
def replicas_and_leaders():
    topic = create("moves")
    tool("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    brokers = list(range(1, cases.replicas + 1))
    target = brokers[1:] + brokers[:1]
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": target}]}
    moves = "reassign.ReassignPartitionsCommand"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        tool(moves, "--reassignment-json-file", file.name, "--execute")
        for _ in range(10):
            verified = tool(moves, "--reassignment-json-file", file.name, "--verify")
            if "is completed" in verified:
                break
        assert "is completed" in verified, verified
    assert "No partition reassignments found" in tool(moves, "--list")
    described = tool("TopicCommand", "--describe", "--topic", topic)
    assert f"Replicas: {','.join(map(str, target))}\t" in described, described
    tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    described = tool("TopicCommand", "--describe", "--topic", topic)
    assert f"Leader: {target[0]}\t" in described, described
    got = tool(
        "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000"
    )
    equal(got.split(), ["a", "b", "c"])


@cases.case
def logs_and_producers():
    topic = create("logs")
    tool("ConsoleProducer", "--topic", topic, stdin="a\nb\n")
    folders = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    told = json.loads(folders[folders.index("{") :])
    logs = [log for broker in told["brokers"] for folder in broker["logDirs"] for log in folder["partitions"]]
    equal([log["partition"] for log in logs], [f"{topic}-0"] * cases.replicas, "logs")
    assert all(log["size"] > 0 for log in logs), logs
    producers = tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", "0")
    equal(len(producers.strip().splitlines()), 2, "a head and one producer")


@cases.case
def transactions():
    topic, transactional = create("transactions"), cases.name("transactional")
    command = [
        *JAVA, f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", "1000000", "--record-size", "100",
        "--throughput", "10", "--transactional-id", transactional, "--transaction-duration-ms", "600000",
        "--command-property", f"bootstrap.servers={cases.bootstrap}", "transaction.timeout.ms=600000",
    ]  # fmt: skip

    def transactions(*arguments):
        """The rows of what the tool tells, each as a dictionary."""
        head, *lines = [line.split() for line in tool("TransactionsCommand", *arguments).splitlines()]
        return [dict(zip(head, line)) for line in lines]

    def open_since():
        """Where the transaction in the partition begins; nothing before its first record is there."""
        producers = transactions("describe-producers", "--topic", topic, "--partition", "0")
        return producers and producers[0]["CurrentTransactionStartOffset"]

    producer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(20):
            if since := open_since():
                break
        equal(since, "0", "begins")
        (listed,) = [row for row in transactions("list") if row["TransactionalId"] == transactional]
        equal(listed["TransactionState"], "Ongoing", "listed")
        (described,) = transactions("describe", "--transactional-id", transactional)
        told = {name: described[name] for name in ["TransactionState", "TransactionTimeoutMs", "TopicPartitions"]}
        expect = {"TransactionState": "Ongoing", "TransactionTimeoutMs": "600000", "TopicPartitions": f"{topic}-0"}
        equal(told, expect, "described")
        equal((described["CoordinatorId"], described["ProducerId"]), (listed["Coordinator"], listed["ProducerId"]), "who")
    finally:
        # Without a chance to end its transaction.
        producer.kill()
        producer.wait()
    # Its coordinator knows of it, so it hangs nowhere, however long it lasts.
    equal(transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", "0"), [], "hanging")
    tool("TransactionsCommand", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    equal(open_since(), "None", "open after it was aborted")
    tool("TransactionsCommand", "forceTerminateTransaction", "--transactionalId", transactional)
    (described,) = transactions("describe", "--transactional-id", transactional)
    equal(described["TransactionState"], "Empty", "ended by force")
    tool("ConsoleProducer", "--topic", topic, stdin="after\n")
    got = tool(
        "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--isolation-level", "read_committed",
        "--max-messages", "1", "--timeout-ms", "20000",
    )  # fmt: skip
    equal(got.split(), ["after"], "what a reader of committed records gets")


@cases.case
def broker_api_versions():
    told = tool("BrokerApiVersionsCommand")
    equal(len(re.findall(r"id: \d+ ", told)), len(cases.bootstrap.split(",")), "brokers")


jar = next(entry for entry in os.environ["CLASSPATH"].split(":") if "/kafka-tools-" in entry)
cases.run("kafka-tools " + re.search(r"kafka-tools-(.*)\.jar", jar).group(1))
