"""aiokafka: the client of Python's asyncio."""

import asyncio
import sys
import time

sys.path.insert(0, sys.path[0] + "/..")
from cases import SEND_PAUSE_S, SEND_S, Cases, equal
import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

cases = Cases()
PATIENCE_S = 30


def awaited(function):
    """A case that is a coroutine."""

    def run():
        asyncio.run(asyncio.wait_for(function(), 4 * PATIENCE_S))

    run.__name__ = function.__name__
    return run


def case(function):
    cases.case(awaited(function))


def through_restarts(function):
    cases.through_restarts(awaited(function))


async def create(topic, partitions=1):
    admin = AIOKafkaAdminClient(bootstrap_servers=cases.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, partitions, cases.replicas)])
    await admin.close()
    return topic


async def read(consumer, count):
    records = []
    while len(records) < count:
        records.append(await asyncio.wait_for(consumer.getone(), PATIENCE_S))
    return records


@case
async def idempotent_producer_with_each_codec():
    for codec in [None, "gzip", "snappy", "lz4", "zstd"]:
        topic = await create(cases.name(f"codec-{codec}"))
        sent = [(f"key {i}".encode(), b"value " * 20 + str(i).encode()) for i in range(300)]
        async with AIOKafkaProducer(
            bootstrap_servers=cases.bootstrap, enable_idempotence=True, compression_type=codec, linger_ms=20
        ) as producer:
            futures = [await producer.send(topic, key=k, value=v, partition=0) for k, v in sent]
            equal([(await f).offset for f in futures], list(range(300)), f"{codec}: offsets")
        consumer = AIOKafkaConsumer(bootstrap_servers=cases.bootstrap, auto_offset_reset="earliest")
        async with consumer:
            consumer.assign([TopicPartition(topic, 0)])
            equal([(r.key, r.value) for r in await read(consumer, 300)], sent, f"{codec}: records")


@case
async def headers_and_nulls():
    topic = await create(cases.name("headers"))
    async with AIOKafkaProducer(bootstrap_servers=cases.bootstrap) as producer:
        await producer.send_and_wait(topic, b"v", headers=[("a", b"1"), ("a", b"")])
        await producer.send_and_wait(topic, None, key=b"k")
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=cases.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        read_back = [(r.key, r.value, list(r.headers)) for r in await read(consumer, 2)]
    equal(read_back, [(None, b"v", [("a", b"1"), ("a", b"")]), (b"k", None, [])])


@case
async def transactions_commit_and_abort():
    topic = await create(cases.name("transactions"))
    expected = []
    async with AIOKafkaProducer(
        bootstrap_servers=cases.bootstrap, transactional_id=cases.name("transactions")
    ) as producer:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, str(number).encode())
            if number % 3 == 1:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
                expected.append(str(number))
    async with AIOKafkaConsumer(
        bootstrap_servers=cases.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        equal([r.value.decode() for r in await read(consumer, len(expected))], expected)


@case
async def two_members_of_a_group():
    topic, group = await create(cases.name("group"), 4), cases.name("group")

    def member():
        return AIOKafkaConsumer(
            topic, bootstrap_servers=cases.bootstrap, group_id=group, auto_offset_reset="earliest"
        )

    async def until(condition, what):
        for _ in range(PATIENCE_S * 10):
            if condition():
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{what}: not within {PATIENCE_S} s")

    first, second = member(), member()
    async with first:
        await until(lambda: len(first.assignment()) == 4, "the first has all")
        await second.start()
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 2, "both share")
        equal(first.assignment() & second.assignment(), set(), "both have")
        await second.stop()
        await until(lambda: len(first.assignment()) == 4, "the first has all again")


@case
async def committed_offsets():
    topic, group = await create(cases.name("commits")), cases.name("commits")
    partition = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=cases.bootstrap) as producer:
        for _ in range(5):
            await producer.send_and_wait(topic, b"v")
    for expect, commit in [(None, 3), (3, 5)]:
        async with AIOKafkaConsumer(
            bootstrap_servers=cases.bootstrap, group_id=group, enable_auto_commit=False
        ) as consumer:
            consumer.assign([partition])
            equal(await consumer.committed(partition), expect, "committed")
            await consumer.commit({partition: commit})
            equal(await consumer.end_offsets([partition]), {partition: 5}, "end")


@through_restarts
async def nothing_is_lost_or_doubled_through_restarts():
    topic = await create(cases.name("restarts"))
    async with AIOKafkaProducer(bootstrap_servers=cases.bootstrap, enable_idempotence=True) as producer:
        futures, deadline = [], time.monotonic() + SEND_S
        while time.monotonic() < deadline:
            futures.append(await producer.send(topic, str(len(futures)).encode()))
            await asyncio.sleep(SEND_PAUSE_S)
        equal([(await f).offset for f in futures], list(range(len(futures))), "offsets")
    consumer = AIOKafkaConsumer(bootstrap_servers=cases.bootstrap, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        records = await read(consumer, len(futures))
        equal([int(r.value) for r in records], list(range(len(futures))), "records")


cases.run(f"aiokafka {aiokafka.__version__}")
