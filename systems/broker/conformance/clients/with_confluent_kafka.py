"""confluent-kafka: librdkafka of today, with its admin client."""

import sys
import time

sys.path.insert(0, sys.path[0] + "/..")
from cases import SEND_PAUSE_S, SEND_S, Cases, equal
import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

cases = Cases()
PATIENCE_S = 30
admin = AdminClient({"bootstrap.servers": cases.bootstrap})


def create(topic, partitions=1, **config):
    new = NewTopic(topic, partitions, cases.replicas, config=config)
    admin.create_topics([new])[topic].result(PATIENCE_S)
    return topic


def produce(topic, records, **settings):
    """Sends, and returns where each landed. A record is the arguments of `Producer.produce`."""
    offsets = []

    def landed(error, message):
        if error is not None:
            raise KafkaException(error)
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": cases.bootstrap, "acks": "all", **settings})
    for record in records:
        producer.produce(topic, on_delivery=landed, **record)
        producer.poll(0)
    equal(producer.flush(PATIENCE_S), 0, "not delivered:")
    return offsets


def read(consumer, count):
    records, deadline = [], time.monotonic() + PATIENCE_S
    while len(records) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(records), timeout=0.5):
            if message.error():
                raise KafkaException(message.error())
            records.append(message)
    return records


def consumer_of(group, **settings):
    return Consumer(
        {
            "bootstrap.servers": cases.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )


def read_all(topic, count):
    consumer = consumer_of(cases.name("reader"))
    consumer.assign([TopicPartition(topic, 0, 0)])
    records = read(consumer, count)
    consumer.close()
    return records


@cases.case
def topics_and_configs():
    topic = create(cases.name("topics"), 3, **{"min.insync.replicas": "1"})
    equal(len(admin.list_topics(timeout=PATIENCE_S).topics[topic].partitions), 3, "partitions")
    try:
        create(topic)
        raise AssertionError("made twice")
    except KafkaException as e:
        equal(e.args[0].code(), KafkaError.TOPIC_ALREADY_EXISTS)
    described = admin.describe_cluster(request_timeout=PATIENCE_S).result()
    equal(len(described.nodes), len(cases.bootstrap.split(",")), "brokers")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    settings = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    equal(settings["min.insync.replicas"].value, "1")
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics


@cases.case
def idempotent_producer_with_each_codec():
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
        topic = create(cases.name(f"codec-{codec}"))
        sent = [{"key": f"key {i}", "value": "value " * 20 + str(i)} for i in range(1000)]
        settings = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 20}
        equal(produce(topic, sent, **settings), list(range(1000)), f"{codec}: offsets")
        got = [(m.key().decode(), m.value().decode()) for m in read_all(topic, 1000)]
        equal(got, [(r["key"], r["value"]) for r in sent], f"{codec}: records")


@cases.case
def headers_and_nulls():
    topic = create(cases.name("headers"))
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    produce(topic, [{"value": b"v", "headers": headers}, {"key": b"k", "value": None}, {"key": b"", "value": b""}])
    got = [(m.key(), m.value(), m.headers()) for m in read_all(topic, 3)]
    equal(got, [(None, b"v", headers), (b"k", None, None), (b"", b"", None)])


@cases.case
def large_records():
    topic = create(cases.name("large"))
    value = bytes(range(256)) * 3900
    settings = {"message.max.bytes": 1_048_588}
    equal(produce(topic, [{"value": value}] * 8, **settings), list(range(8)), "offsets")
    equal([m.value() == value for m in read_all(topic, 8)], [True] * 8, "records")
    try:
        produce(topic, [{"value": bytes(1_200_000)}], **{"message.max.bytes": 4_000_000})
        raise AssertionError("a record above the broker's limit was taken")
    except KafkaException as e:
        equal(e.args[0].code(), KafkaError.MSG_SIZE_TOO_LARGE)


@cases.case
def list_offsets():
    topic = create(cases.name("times"))
    produce(topic, [{"value": b"v", "timestamp": at_ms} for at_ms in [1000, 3000, 2000]])
    partition = TopicPartition(topic, 0)
    for spec, offset in [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 3),
        (OffsetSpec.max_timestamp(), 1),
        (OffsetSpec.for_timestamp(1500), 1),
        (OffsetSpec.for_timestamp(9000), -1),
    ]:
        found = admin.list_offsets({partition: spec})[partition].result(PATIENCE_S)
        equal(found.offset, offset, f"{spec!r}")


def cooperate(name, **settings):
    topic, group = create(cases.name(name), 4), cases.name(name)
    first, second = consumer_of(group, **settings), consumer_of(group, **settings)
    try:
        first.subscribe([topic])

        def until(condition, what):
            deadline = time.monotonic() + PATIENCE_S
            while not condition():
                if time.monotonic() > deadline:
                    raise AssertionError(f"{what}: not within {PATIENCE_S} s")
                for member in [first, second]:
                    try:
                        member.poll(0.1)
                    except RuntimeError:
                        pass  # It left.

        until(lambda: len(first.assignment()) == 4, "the first has all")
        second.subscribe([topic])
        until(lambda: len(first.assignment()) == len(second.assignment()) == 2, "both share")
        equal({p.partition for p in first.assignment() + second.assignment()}, {0, 1, 2, 3}, "both have")
        second.close()
        until(lambda: len(first.assignment()) == 4, "the first has all again")
    finally:
        first.close()


@cases.case
def group_with_eager_rebalance():
    cooperate("range", **{"partition.assignment.strategy": "range"})


@cases.case
def group_with_cooperative_rebalance():
    cooperate("cooperative-sticky", **{"partition.assignment.strategy": "cooperative-sticky"})


@cases.case
def consumer_protocol_uniform():
    cooperate("uniform", **{"group.protocol": "consumer"})


@cases.case
def consumer_protocol_range():
    cooperate("remote-range", **{"group.protocol": "consumer", "group.remote.assignor": "range"})


@cases.case
def consumer_protocol_commits():
    topic, group = create(cases.name("consumer-commits")), cases.name("consumer-commits")
    produce(topic, [{"value": b"v"}] * 5)
    settings = {"group.protocol": "consumer"}
    consumer = consumer_of(group, **settings)
    # By a pattern: the broker finds the topics.
    consumer.subscribe([f"^{topic}$"])
    read(consumer, 5)
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    equal([p.offset for p in consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)], [3], "committed")
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    equal((described.state.name, described.type.name), ("STABLE", "CONSUMER"), "described")
    equal([p.topic for m in described.members for p in m.assignment.topic_partitions], [topic], "assigned")
    consumer.close()
    consumer = consumer_of(group, **settings)
    consumer.subscribe([topic])
    equal([m.offset() for m in read(consumer, 2)], [3, 4], "where the group goes on")
    consumer.close()


@cases.case
def groups_and_their_offsets():
    topic, group = create(cases.name("groups")), cases.name("groups")
    produce(topic, [{"value": b"v"}] * 5)
    consumer = consumer_of(group)
    consumer.subscribe([topic])
    read(consumer, 5)
    consumer.commit(asynchronous=False)
    equal([p.offset for p in consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)], [5], "committed")
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    equal((described.state.name, len(described.members)), ("STABLE", 1), "described")
    consumer.close()
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert group in [g.group_id for g in listed.valid], listed.errors
    asked = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S)
    equal([p.offset for p in found.topic_partitions], [5], "offsets listed")
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([moved])[group].result(PATIENCE_S)
    consumer = consumer_of(group)
    consumer.subscribe([topic])
    equal([m.offset() for m in read(consumer, 3)], [2, 3, 4], "from where it was moved to")
    consumer.close()
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert group not in [g.group_id for g in admin.list_consumer_groups().result(PATIENCE_S).valid]


def transactional(name, **settings):
    producer = Producer({"bootstrap.servers": cases.bootstrap, "transactional.id": cases.name(name), **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


def read_committed(topic, partition=0):
    """The values that are there now, as a consumer of committed records reads them."""
    consumer = consumer_of(cases.name("reader"), **{"isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values, deadline = [], time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for message in consumer.consume(100, timeout=0.5):
            if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return values
            if message.error():
                raise KafkaException(message.error())
            values.append(message.value().decode())
    raise AssertionError(f"{topic} has no end")


def await_committed(topic, expected, what, partition=0):
    """Reads until what was committed is there: a commit is answered before its markers are written."""
    deadline = time.monotonic() + PATIENCE_S
    while (values := read_committed(topic, partition)) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    equal(values, expected, what)


@cases.case
def transactions_commit_and_abort():
    topic = create(cases.name("transactions"), 2)
    producer = transactional("transactions")
    expected = []
    for number in range(6):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, str(number), partition=partition)
        if number % 3 == 1:
            producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
            expected.append(str(number))
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    equal(producer.flush(PATIENCE_S), 0, "not delivered:")
    equal(read_committed(topic), expected, "while one is open")
    producer.commit_transaction(PATIENCE_S)
    await_committed(topic, [*expected, "open"], "of partition 0")
    equal(read_committed(topic, 1), expected, "of partition 1")


@cases.case
def a_producer_fences_another():
    topic = create(cases.name("fenced"))
    old = transactional("fenced")
    old.begin_transaction()
    old.produce(topic, "old")
    equal(old.flush(PATIENCE_S), 0, "not delivered:")
    new = transactional("fenced")
    try:
        old.commit_transaction(PATIENCE_S)
        raise AssertionError("the old one has committed")
    except KafkaException as e:
        equal(e.args[0].code(), KafkaError._FENCED)
    new.begin_transaction()
    new.produce(topic, "new")
    new.commit_transaction(PATIENCE_S)
    await_committed(topic, ["new"], "read")


@cases.case
def offsets_in_a_transaction():
    topic, group = create(cases.name("in-transaction")), cases.name("in-transaction")
    produce(topic, [{"value": str(i)} for i in range(5)])
    member, producer = consumer_of(group), transactional("in-transaction")
    member.subscribe([topic])
    read(member, 5)
    for at, commits in [(2, False), (3, True)]:
        producer.begin_transaction()
        offsets = [TopicPartition(topic, 0, at)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), PATIENCE_S)
        if commits:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    equal(member.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset, 3, "committed")
    member.close()


# librdkafka takes a group's coordinator from its cache and waits for a connection to change its state before it asks who
# that is by now, for ever and whatever the timeout; that of a broker which is down may be none of those that change
# (librdkafka issues 5456 and 5511, open in 2.16.0). A connection that is closed because it is idle has changed.
CLOSE_IDLE_MS = 5_000


@cases.through_restarts
def exactly_once_copy_through_restarts():
    source, target = create(cases.name("source")), create(cases.name("target"))
    feed = Producer({"bootstrap.servers": cases.bootstrap, "enable.idempotence": True})
    member = consumer_of(cases.name("copy"), **{"session.timeout.ms": 10_000})
    member.subscribe([source])
    settings = {"transaction.timeout.ms": 20_000, "connections.max.idle.ms": CLOSE_IDLE_MS}
    producer = transactional("copy", **settings)
    sent, copied, deadline = 0, 0, time.monotonic() + SEND_S
    while copied < sent or time.monotonic() < deadline:
        assert time.monotonic() < deadline + 2 * PATIENCE_S, f"{copied} of {sent} copied"
        if time.monotonic() < deadline:
            feed.produce(source, str(sent))
            feed.poll(0)
            sent += 1
        messages = [m for m in member.consume(100, timeout=SEND_PAUSE_S) if not m.error()]
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(target, message.value())
            offsets = [TopicPartition(source, 0, messages[-1].offset() + 1)]
            producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), PATIENCE_S)
            producer.commit_transaction(PATIENCE_S)
            copied = messages[-1].offset() + 1
        except KafkaException as e:
            if not e.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(PATIENCE_S)
            member.seek(TopicPartition(source, 0, messages[0].offset()))
    member.close()
    await_committed(target, [str(i) for i in range(sent)], "copied")


@cases.through_restarts
def nothing_is_lost_or_doubled_through_restarts():
    topic, group = create(cases.name("restarts")), cases.name("restarts")
    member = consumer_of(group)
    member.subscribe([topic])
    seen, refused, sent = set(), [], 0

    def landed(error, message):
        if error is not None:
            refused.append(str(error))

    producer = Producer({"bootstrap.servers": cases.bootstrap, "enable.idempotence": True})
    deadline = time.monotonic() + SEND_S
    while time.monotonic() < deadline:
        producer.produce(topic, str(sent), on_delivery=landed)
        sent += 1
        producer.poll(0)
        for message in member.consume(100, timeout=SEND_PAUSE_S):
            if not message.error():
                seen.add(int(message.value()))
    equal(producer.flush(PATIENCE_S), 0, "not delivered:")
    equal(refused, [], "refused:")
    equal([int(m.value()) for m in read_all(topic, sent)], list(range(sent)), "records")
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) < sent and time.monotonic() < deadline:
        seen.update(int(m.value()) for m in member.consume(100, timeout=0.5) if not m.error())
    equal(sorted(set(range(sent)) - seen), [], "not seen by the group")
    member.close()


version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
cases.run(f"confluent-kafka {version}")
