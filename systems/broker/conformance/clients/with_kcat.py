"""kcat: what an operator types."""

import json
import subprocess
import sys
import time

sys.path.insert(0, sys.path[0] + "/..")
from cases import Cases, equal

cases = Cases()
# Longer than any group needs to settle.
PATIENCE_S = 30


def kcat(*arguments, stdin=b""):
    command = ["kcat", "-b", cases.bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout.decode()


def create(topic, partitions=1):
    """kcat makes no topics; the admin client of the same library does."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cases.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, cases.replicas)])[topic].result(PATIENCE_S)
    return topic


@cases.case
def metadata():
    topic = create(cases.name("metadata"), 3)
    listed = json.loads(kcat("-L", "-J"))
    equal(len(listed["brokers"]), len(cases.bootstrap.split(",")), "brokers")
    found = [t for t in listed["topics"] if t["topic"] == topic]
    equal([len(t["partitions"]) for t in found], [3], "partitions")
    for partition in found[0]["partitions"]:
        equal(len(partition["isrs"]), cases.replicas, "in sync")


@cases.case
def produce_and_consume():
    topic = create(cases.name("lines"))
    lines = "".join(f"line {i}\n" for i in range(1000))
    kcat("-P", "-t", topic, stdin=lines.encode())
    equal(kcat("-C", "-t", topic, "-e", "-q"), lines)


@cases.case
def compression():
    for codec in ["gzip", "snappy", "lz4", "zstd"]:
        topic = create(cases.name(codec))
        lines = "".join(f"line {i} {codec * 10}\n" for i in range(1000))
        kcat("-P", "-t", topic, "-z", codec, stdin=lines.encode())
        equal(kcat("-C", "-t", topic, "-e", "-q"), lines, codec)


@cases.case
def headers_keys_and_nulls():
    topic = create(cases.name("headers"))
    kcat("-P", "-t", topic, "-K", ":", "-Z", "-H", "a=1", "-H", "a=2", "-H", "empty=", stdin=b"k:v\nk:\n:v\n")
    read = [json.loads(line) for line in kcat("-C", "-t", topic, "-e", "-q", "-J").splitlines()]
    equal([(r["key"], r["payload"]) for r in read], [("k", "v"), ("k", None), (None, "v")])
    for record in read:
        equal(record["headers"], ["a", "1", "a", "2", "empty", ""], "headers")


@cases.case
def offsets_from_end_and_time():
    topic = create(cases.name("offsets"))
    before_ms = int(time.time() * 1000) - 3_600_000
    kcat("-P", "-t", topic, stdin=b"a\nb\nc\n")
    equal(kcat("-C", "-t", topic, "-o", "-2", "-e", "-q"), "b\nc\n", "two from the end")
    equal(kcat("-C", "-t", topic, "-o", f"s@{before_ms}", "-e", "-q"), "a\nb\nc\n", "since an hour ago")
    equal(kcat("-Q", "-t", f"{topic}:0:-1").split(), [topic, "[0]", "offset", "3"], "query")
    equal(kcat("-Q", "-t", f"{topic}:0:{before_ms}").split(), [topic, "[0]", "offset", "0"], "query by time")


@cases.case
def idempotent_producer():
    topic = create(cases.name("idempotent"))
    kcat("-P", "-t", topic, "-X", "enable.idempotence=true", stdin=b"a\nb\n")
    equal(kcat("-C", "-t", topic, "-e", "-q"), "a\nb\n")


@cases.case
def group():
    topic = create(cases.name("group"), 2)
    settings = ["-X", "auto.offset.reset=earliest", "-e", "-q", "-G", cases.name("group"), topic]
    kcat("-P", "-t", topic, "-p", "0", stdin=b"a\nb\n")
    kcat("-P", "-t", topic, "-p", "1", stdin=b"c\n")
    equal(sorted(kcat(*settings).split()), ["a", "b", "c"], "the first time")
    kcat("-P", "-t", topic, "-p", "1", stdin=b"d\n")
    equal(kcat(*settings), "d\n", "the second time")


cases.run("kcat " + subprocess.run(["kcat", "-V"], capture_output=True).stdout.decode().split("Version ")[1].split()[0])
