"""kafka-python: a client in Python alone."""

import sys
import time

sys.path.insert(0, sys.path[0] + "/..")
from cases import Cases, equal
import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

cases = Cases()
PATIENCE_S = 30


def create(topic, partitions=1):
    admin = KafkaAdminClient(bootstrap_servers=cases.bootstrap)
    admin.create_topics([NewTopic(topic, partitions, cases.replicas)])
    admin.close()
    return topic


def read(consumer, count):
    """So many records, or as many as come in time."""
    records, deadline = [], time.monotonic() + PATIENCE_S
    while len(records) < count and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=500).values():
            records += batch
    return records


def assigned(topic):
    consumer = KafkaConsumer(bootstrap_servers=cases.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


@cases.case
def topics():
    admin = KafkaAdminClient(bootstrap_servers=cases.bootstrap)
    topic = create(cases.name("topics"), 3)
    assert topic in admin.list_topics()
    equal(len(admin.describe_topics([topic])[0]["partitions"]), 3, "partitions")
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    equal(len(admin.describe_cluster()["brokers"]), len(cases.bootstrap.split(",")), "brokers")
    admin.close()


@cases.case
def produce_and_consume_with_each_codec():
    for codec in [None, "gzip", "snappy", "lz4", "zstd"]:
        topic = create(cases.name(f"codec-{codec}"))
        producer = KafkaProducer(
            bootstrap_servers=cases.bootstrap, acks="all", compression_type=codec, linger_ms=20
        )
        sent = [(f"key {i}".encode(), b"value " * 20 + str(i).encode()) for i in range(500)]
        futures = [producer.send(topic, key=k, value=v, partition=0) for k, v in sent]
        equal([f.get(PATIENCE_S).offset for f in futures], list(range(500)), f"{codec}: offsets")
        producer.close()
        consumer = assigned(topic)
        equal([(r.key, r.value) for r in read(consumer, 500)], sent, f"{codec}: records")
        consumer.close()


@cases.case
def headers_and_nulls():
    topic = create(cases.name("headers"))
    producer = KafkaProducer(bootstrap_servers=cases.bootstrap)
    headers = [("a", b"1"), ("a", b""), ("b", b"\x00\xff")]
    producer.send(topic, key=None, value=b"v", headers=headers).get(PATIENCE_S)
    producer.send(topic, key=b"k", value=None).get(PATIENCE_S)
    producer.close()
    consumer = assigned(topic)
    first, second = read(consumer, 2)
    equal((first.key, first.value, list(map(tuple, first.headers))), (None, b"v", headers))
    equal((second.key, second.value, list(second.headers)), (b"k", None, []))
    consumer.close()


@cases.case
def offsets_by_time():
    topic = create(cases.name("times"))
    producer = KafkaProducer(bootstrap_servers=cases.bootstrap)
    for at_ms in [1000, 2000, 3000]:
        producer.send(topic, value=b"v", timestamp_ms=at_ms).get(PATIENCE_S)
    producer.close()
    consumer, partition = assigned(topic), TopicPartition(topic, 0)
    equal(consumer.beginning_offsets([partition]), {partition: 0}, "beginning")
    equal(consumer.end_offsets([partition]), {partition: 3}, "end")
    for at_ms, offset in [(0, 0), (1000, 0), (1001, 1), (3000, 2)]:
        found = consumer.offsets_for_times({partition: at_ms})[partition]
        equal(found and found.offset, offset, f"at {at_ms}")
    equal(consumer.offsets_for_times({partition: 3001})[partition], None, "after the last")
    consumer.seek(partition, 2)
    equal([r.offset for r in read(consumer, 1)], [2], "after a seek")
    consumer.close()


@cases.case
def transactions_commit_and_abort():
    topic = create(cases.name("transactions"))
    producer = KafkaProducer(bootstrap_servers=cases.bootstrap, transactional_id=cases.name("transactions"))
    producer.init_transactions()
    expected = []
    for number in range(6):
        producer.begin_transaction()
        producer.send(topic, str(number).encode()).get(30)
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected.append(str(number))
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=cases.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    consumer.assign([TopicPartition(topic, 0)])
    equal([r.value.decode() for r in read(consumer, len(expected))], expected)
    consumer.close()


@cases.case
def group_with_committed_offsets():
    topic, group = create(cases.name("group"), 2), cases.name("group")
    producer = KafkaProducer(bootstrap_servers=cases.bootstrap)
    for i in range(10):
        producer.send(topic, value=str(i).encode(), partition=i % 2).get(PATIENCE_S)

    def member():
        consumer = KafkaConsumer(
            bootstrap_servers=cases.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        consumer.subscribe([topic])
        return consumer

    consumer = member()
    equal(sorted(int(r.value) for r in read(consumer, 10)), list(range(10)), "the first time")
    consumer.commit()
    for partition in [0, 1]:
        equal(consumer.committed(TopicPartition(topic, partition)), 5, "committed")
    consumer.close()
    producer.send(topic, value=b"10", partition=0).get(PATIENCE_S)
    producer.close()
    consumer = member()
    equal([r.value for r in read(consumer, 1)], [b"10"], "the second time")
    consumer.close()


cases.run(f"kafka-python {kafka.__version__}")
