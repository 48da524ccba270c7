import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The Java client: admin, producer, consumer. Run from its source; cases.py says what it prints. */
public class Conformance {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    /** How long it goes on sending while brokers are restarted: longer than that takes. */
    private static final Duration SEND = Duration.ofSeconds(30);

    private static final Map<String, Object> CONSUMER_PROTOCOL = Map.of("group.protocol", "consumer");

    private final String bootstrap;
    private final String prefix;
    private final short replicas;
    private final Admin admin;

    interface Case {
        void run() throws Exception;
    }

    Conformance(String bootstrap, String prefix, short replicas) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        this.replicas = replicas;
        admin = Admin.create(settings(Map.of()));
    }

    public static void main(String[] args) {
        Conformance all = new Conformance(args[0], args[1], Short.parseShort(args[2]));
        Map<String, Case> cases = new LinkedHashMap<>();
        if (args[3].equals("restarts")) {
            cases.put("nothing-is-lost-or-doubled-through-restarts", all::throughRestarts);
            cases.put("exactly-once-copy-through-restarts", all::copyThroughRestarts);
        } else {
            all.quiet(cases);
        }
        System.out.println("version kafka-clients " + AppInfoParser.getVersion());
        cases.forEach((name, run) -> {
            try {
                run.run();
                System.out.println("pass " + name);
            } catch (Throwable e) {
                e.printStackTrace();
                String why = e.toString().replaceAll("\\s+", " ");
                System.out.println("fail " + name + ": " + why.substring(0, Math.min(300, why.length())));
            }
            System.out.flush();
        });
        System.out.println("end");
        all.admin.close(PATIENCE);
    }

    private void quiet(Map<String, Case> cases) {
        cases.put("topics", this::topics);
        cases.put("more-partitions", this::morePartitions);
        cases.put("describe-cluster", this::describeCluster);
        cases.put("describe-configs", this::describeConfigs);
        cases.put("idempotent-producer-with-each-codec", this::codecs);
        cases.put("producer-without-idempotence", this::withoutIdempotence);
        cases.put("headers-and-nulls", this::headersAndNulls);
        cases.put("large-batches", this::largeBatches);
        cases.put("transactions-commit-and-abort", this::transactions);
        cases.put("a-producer-fences-another", this::fencing);
        cases.put("offsets-in-a-transaction", this::transactionalOffsets);
        cases.put("seek-and-offsets", this::seekAndOffsets);
        cases.put("admin-list-offsets", this::listOffsets);
        cases.put("group-with-eager-rebalance", () -> rebalance(RangeAssignor.class));
        cases.put("group-with-cooperative-rebalance", () -> rebalance(CooperativeStickyAssignor.class));
        cases.put("consumer-protocol-uniform", () -> rebalance("uniform", CONSUMER_PROTOCOL));
        cases.put("consumer-protocol-range", () -> rebalance(
            "range", Map.of("group.protocol", "consumer", "group.remote.assignor", "range")));
        cases.put("consumer-protocol-static-member-returns", this::consumerStaticMember);
        cases.put("consumer-protocol-subscribes-by-pattern", this::consumerPattern);
        cases.put("consumer-protocol-offsets-in-a-transaction", this::consumerTransaction);
        cases.put("consumer-protocol-groups-and-their-offsets", this::consumerGroups);
        cases.put("static-member-returns", this::staticMember);
        cases.put("commits", this::commits);
        cases.put("admin-groups", this::adminGroups);
    }

    // What the cases need.

    private Properties settings(Map<String, Object> more) {
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrap);
        all.putAll(more);
        return all;
    }

    private static void equal(Object got, Object expect, String what) {
        if (!Objects.deepEquals(got, expect)) {
            throw new AssertionError(what + ": " + show(got) + ", not " + show(expect));
        }
    }

    private static String show(Object value) {
        return value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value);
    }

    private static <T> T get(Future<T> future) throws Exception {
        try {
            return future.get(PATIENCE.toSeconds(), java.util.concurrent.TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    private String create(String name, int partitions) throws Exception {
        String topic = prefix + "-" + name;
        get(admin.createTopics(List.of(new NewTopic(topic, partitions, replicas))).all());
        return topic;
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        return new KafkaProducer<>(settings(more), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>();
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        all.putAll(more);
        return new KafkaConsumer<>(settings(all), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private KafkaConsumer<byte[], byte[]> member(String group, Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>(more);
        all.put("group.id", group);
        return consumer(all);
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (records.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(200)).forEach(records::add);
        }
        equal(records.size(), count, "records read");
        return records;
    }

    private List<ConsumerRecord<byte[], byte[]>> readAll(String topic, int count) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return read(consumer, count);
        }
    }

    private void fill(String topic, int partition, int count) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (int i = 0; i < count; i++) {
                get(producer.send(new ProducerRecord<>(topic, partition, null, null, ("v" + i).getBytes())));
            }
        }
    }

    // Admin.

    private void topics() throws Exception {
        String topic = create("topics", 3);
        try {
            create("topics", 3);
            throw new AssertionError("made twice");
        } catch (TopicExistsException expected) {
            // As it should be.
        }
        TopicDescription found = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        equal(found.partitions().size(), 3, "partitions");
        equal(found.partitions().get(0).isr().size(), (int) replicas, "in sync");
        equal(get(admin.listTopics().names()).contains(topic), true, "listed");
        get(admin.deleteTopics(List.of(topic)).all());
        equal(get(admin.listTopics().names()).contains(topic), false, "listed after its deletion");
        try {
            get(admin.describeTopics(List.of(topic)).allTopicNames());
            throw new AssertionError("described after its deletion");
        } catch (UnknownTopicOrPartitionException expected) {
            // As it should be.
        }
    }

    private void morePartitions() throws Exception {
        String topic = create("more-partitions", 1);
        try (KafkaConsumer<byte[], byte[]> member =
                member(prefix + "-more-partitions", Map.of("metadata.max.age.ms", 500, "heartbeat.interval.ms", 300))) {
            member.subscribe(List.of(topic));
            until(List.of(member), () -> member.assignment().size() == 1, "the member has all");
            get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
            until(List.of(member), () -> member.assignment().size() == 3, "the member has the new ones");
            for (int partition = 0; partition < 3; partition++) {
                fill(topic, partition, 2);
            }
            read(member, 6);
        }
        try {
            get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all());
            throw new AssertionError("it shrank");
        } catch (InvalidPartitionsException expected) {
            // As it should be.
        }
    }

    private void describeCluster() throws Exception {
        var cluster = admin.describeCluster();
        equal(get(cluster.nodes()).size(), bootstrap.split(",").length, "brokers");
        equal(get(cluster.clusterId()).isEmpty(), false, "cluster id is empty");
        equal(get(cluster.nodes()).contains(get(cluster.controller())), true, "the controller is one of them");
    }

    private void describeConfigs() throws Exception {
        String topic = create("configs", 1);
        ConfigResource ofTopic = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ConfigResource ofBroker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        Map<ConfigResource, Config> found = get(admin.describeConfigs(List.of(ofTopic, ofBroker)).all());
        equal(found.get(ofTopic).get("unclean.leader.election.enable").value(), "false", "of the topic");
        equal(found.get(ofBroker).get("num.partitions").value(), "1", "of the broker");
    }

    private void listOffsets() throws Exception {
        String topic = create("list-offsets", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (long atMs : new long[] {1000, 3000, 2000}) {
                get(producer.send(new ProducerRecord<>(topic, 0, atMs, null, new byte[1])));
            }
        }
        Map<OffsetSpec, Long> expected = new LinkedHashMap<>();
        expected.put(OffsetSpec.earliest(), 0L);
        expected.put(OffsetSpec.earliestLocal(), 0L);
        expected.put(OffsetSpec.latest(), 3L);
        expected.put(OffsetSpec.maxTimestamp(), 1L);
        expected.put(OffsetSpec.forTimestamp(1500), 1L);
        expected.put(OffsetSpec.forTimestamp(9000), -1L);
        for (Map.Entry<OffsetSpec, Long> one : expected.entrySet()) {
            var found = get(admin.listOffsets(Map.of(partition, one.getKey())).all()).get(partition);
            equal(found.offset(), one.getValue(), one.getKey().getClass().getSimpleName());
        }
    }

    private void adminGroups() throws Exception {
        String topic = create("admin-groups", 1);
        String group = prefix + "-admin-groups";
        TopicPartition partition = new TopicPartition(topic, 0);
        fill(topic, 0, 5);
        try (KafkaConsumer<byte[], byte[]> member = member(group, Map.of())) {
            member.subscribe(List.of(topic));
            read(member, 5);
            member.commitSync();
            ConsumerGroupDescription found = get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
            equal(found.groupState(), GroupState.STABLE, "state");
            equal(found.members().size(), 1, "members");
            equal(found.members().iterator().next().assignment().topicPartitions(), Set.of(partition), "assigned");
        }
        Set<String> listed = get(admin.listGroups().all()).stream().map(g -> g.groupId()).collect(Collectors.toSet());
        equal(listed.contains(group), true, "listed");
        var offsets = get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        equal(offsets.get(partition).offset(), 5L, "its offset");
        get(admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(3))).all());
        offsets = get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        equal(offsets.get(partition).offset(), 3L, "its offset after it was moved");
        get(admin.deleteConsumerGroups(List.of(group)).all());
        listed = get(admin.listGroups().all()).stream().map(g -> g.groupId()).collect(Collectors.toSet());
        equal(listed.contains(group), false, "listed after its deletion");
    }

    // Producer.

    private void codecs() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = create("codec-" + codec, 1);
            Map<String, Object> settings = Map.of("acks", "all", "compression.type", codec, "linger.ms", 20);
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
                for (int i = 0; i < 1000; i++) {
                    byte[] value = ("value ".repeat(20) + i).getBytes();
                    sent.add(producer.send(new ProducerRecord<>(topic, ("key " + i).getBytes(), value)));
                }
            }
            for (int i = 0; i < 1000; i++) {
                equal(get(sent.get(i)).offset(), (long) i, codec + ": offset");
            }
            List<ConsumerRecord<byte[], byte[]>> records = readAll(topic, 1000);
            for (int i = 0; i < 1000; i++) {
                equal(records.get(i).key(), ("key " + i).getBytes(), codec + ": key");
                equal(records.get(i).value(), ("value ".repeat(20) + i).getBytes(), codec + ": value");
            }
        }
    }

    private void withoutIdempotence() throws Exception {
        for (String acks : List.of("0", "1", "all")) {
            String topic = create("acks-" + acks, 1);
            try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("acks", acks, "enable.idempotence", "false"))) {
                for (int i = 0; i < 100; i++) {
                    get(producer.send(new ProducerRecord<>(topic, new byte[] {(byte) i})));
                }
            }
            List<ConsumerRecord<byte[], byte[]>> records = readAll(topic, 100);
            for (int i = 0; i < 100; i++) {
                equal(records.get(i).value(), new byte[] {(byte) i}, "acks " + acks);
            }
        }
    }

    private void headersAndNulls() throws Exception {
        String topic = create("headers", 1);
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, 1234L, null, "v".getBytes());
            record.headers().add("a", "1".getBytes()).add("a", null).add("b", new byte[0]);
            get(producer.send(record));
            get(producer.send(new ProducerRecord<>(topic, "k".getBytes(), null)));
            get(producer.send(new ProducerRecord<>(topic, new byte[0], new byte[0])));
        }
        List<ConsumerRecord<byte[], byte[]>> records = readAll(topic, 3);
        equal(records.get(0).key(), null, "key");
        equal(records.get(0).timestamp(), 1234L, "timestamp");
        List<String> headers = new ArrayList<>();
        records.get(0).headers().forEach(h -> headers.add(h.key() + "=" + show(h.value())));
        equal(headers, List.of("a=[49]", "a=null", "b=[]"), "headers");
        equal(records.get(1).value(), null, "value");
        equal(records.get(2).key(), new byte[0], "empty key");
        equal(records.get(2).value(), new byte[0], "empty value");
    }

    private void largeBatches() throws Exception {
        String topic = create("large", 1);
        Map<String, Object> settings =
            Map.of("batch.size", 900_000, "linger.ms", 50, "max.request.size", 4_000_000);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            for (int i = 0; i < 5000; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, new byte[2000])));
            }
            sent.add(producer.send(new ProducerRecord<>(topic, new byte[1_000_000])));
            for (Future<RecordMetadata> one : sent) {
                get(one);
            }
            try {
                get(producer.send(new ProducerRecord<>(topic, new byte[2_000_000])));
                throw new AssertionError("a record above the broker's limit was taken");
            } catch (RecordTooLargeException expected) {
                // As it should be.
            }
        }
        equal(readAll(topic, 5001).get(5000).value().length, 1_000_000, "the last one's size");
    }

    // Transactions. The client finds that the cluster has transaction version 2: each has another epoch.

    private KafkaProducer<byte[], byte[]> transactional(String name) {
        KafkaProducer<byte[], byte[]> producer =
            producer(Map.of("transactional.id", prefix + "-" + name, "transaction.timeout.ms", 20_000));
        producer.initTransactions();
        return producer;
    }

    /** The values that are there now, as a consumer of committed records reads them. */
    private List<String> readCommitted(String topic, int partition) {
        TopicPartition of = new TopicPartition(topic, partition);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(List.of(of));
            long end = consumer.endOffsets(List.of(of)).get(of);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (consumer.position(of) < end && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(r -> values.add(new String(r.value())));
            }
            equal(consumer.position(of) >= end, true, "read to the end");
        }
        return values;
    }

    /** Reads until what was committed is there: a commit is answered before its markers are written. */
    private void awaitCommitted(String topic, int partition, List<String> expected, String what) throws Exception {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        List<String> values = readCommitted(topic, partition);
        while (!values.equals(expected) && System.nanoTime() < deadline) {
            Thread.sleep(100);
            values = readCommitted(topic, partition);
        }
        equal(values, expected, what);
    }

    private void transactions() throws Exception {
        String topic = create("transactions", 2);
        List<String> expected = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = transactional("transactions")) {
            for (int number = 0; number < 20; number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 2; partition++) {
                    byte[] value = String.valueOf(number).getBytes();
                    producer.send(new ProducerRecord<>(topic, partition, null, null, value));
                }
                if (number % 3 == 1) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    expected.add(String.valueOf(number));
                }
            }
            producer.beginTransaction();
            get(producer.send(new ProducerRecord<>(topic, 0, null, null, "open".getBytes())));
            equal(readCommitted(topic, 0), expected, "while one is open");
            producer.commitTransaction();
        }
        equal(readCommitted(topic, 1), expected, "of partition 1");
        expected.add("open");
        awaitCommitted(topic, 0, expected, "of partition 0");
    }

    private void fencing() throws Exception {
        String topic = create("fenced", 1);
        try (KafkaProducer<byte[], byte[]> old = transactional("fenced")) {
            old.beginTransaction();
            get(old.send(new ProducerRecord<>(topic, "old".getBytes())));
            try (KafkaProducer<byte[], byte[]> next = transactional("fenced")) {
                try {
                    old.commitTransaction();
                    throw new AssertionError("the old one has committed");
                } catch (ProducerFencedException expected) {
                    // As it should be.
                }
                next.beginTransaction();
                next.send(new ProducerRecord<>(topic, "new".getBytes()));
                next.commitTransaction();
            }
        }
        awaitCommitted(topic, 0, List.of("new"), "read");
    }

    private void transactionalOffsets() throws Exception {
        String topic = create("in-transaction", 1);
        String group = prefix + "-in-transaction";
        TopicPartition zero = new TopicPartition(topic, 0);
        fill(topic, 0, 5);
        try (KafkaConsumer<byte[], byte[]> member = member(group, Map.of());
                KafkaProducer<byte[], byte[]> producer = transactional("in-transaction")) {
            member.subscribe(List.of(topic));
            read(member, 5);
            for (boolean commits : new boolean[] {false, true}) {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(
                    Map.of(zero, new OffsetAndMetadata(commits ? 3 : 2)), member.groupMetadata());
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            equal(member.committed(Set.of(zero)).get(zero).offset(), 3L, "committed");
        }
    }

    private void copyThroughRestarts() throws Exception {
        String source = create("source", 1);
        String target = create("target", 1);
        TopicPartition zero = new TopicPartition(source, 0);
        long sent = 0;
        long copied = 0;
        try (KafkaConsumer<byte[], byte[]> member = member(prefix + "-copy", Map.of("session.timeout.ms", 10_000));
                KafkaProducer<byte[], byte[]> feed = producer(Map.of())) {
            member.subscribe(List.of(source));
            KafkaProducer<byte[], byte[]> producer = transactional("copy");
            long deadline = System.nanoTime() + SEND.toNanos();
            while (copied < sent || System.nanoTime() < deadline) {
                equal(System.nanoTime() < deadline + 2 * PATIENCE.toNanos(), true, copied + " of " + sent + " in time");
                if (System.nanoTime() < deadline) {
                    feed.send(new ProducerRecord<>(source, String.valueOf(sent++).getBytes()));
                }
                List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
                member.poll(Duration.ofMillis(10)).forEach(records::add);
                if (records.isEmpty()) {
                    continue;
                }
                long next = records.get(records.size() - 1).offset() + 1;
                try {
                    producer.beginTransaction();
                    records.forEach(r -> producer.send(new ProducerRecord<>(target, r.value())));
                    producer.sendOffsetsToTransaction(
                        Map.of(zero, new OffsetAndMetadata(next)), member.groupMetadata());
                    commit(producer);
                    copied = next;
                } catch (ProducerFencedException e) {
                    throw e;
                } catch (KafkaException e) {
                    producer.abortTransaction();
                    member.seek(zero, records.get(0).offset());
                }
            }
            producer.close();
        }
        List<String> expected = new ArrayList<>();
        for (long i = 0; i < sent; i++) {
            expected.add(String.valueOf(i));
        }
        awaitCommitted(target, 0, expected, "copied");
    }

    /** A commit whose answer is late is asked for again, as the client's documentation says. */
    private static void commit(KafkaProducer<?, ?> producer) {
        for (int attempt = 0; ; attempt++) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException e) {
                if (attempt == 3) {
                    throw e;
                }
            }
        }
    }

    // Consumer.

    private void seekAndOffsets() throws Exception {
        String topic = create("seek", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (long atMs = 1000; atMs <= 10_000; atMs += 1000) {
                get(producer.send(new ProducerRecord<>(topic, 0, atMs, null, new byte[1])));
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(List.of(partition));
            equal(consumer.beginningOffsets(List.of(partition)), Map.of(partition, 0L), "beginning");
            equal(consumer.endOffsets(List.of(partition)), Map.of(partition, 10L), "end");
            for (long[] one : new long[][] {{0, 0}, {1000, 0}, {1001, 1}, {10_000, 9}}) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, one[0])).get(partition);
                equal(found.offset(), one[1], "offset at " + one[0]);
                equal(found.timestamp(), (one[1] + 1) * 1000, "time at " + one[0]);
            }
            equal(consumer.offsetsForTimes(Map.of(partition, 10_001L)).get(partition), null, "after the last");
            consumer.seek(partition, 7);
            equal(read(consumer, 3).get(0).offset(), 7L, "after a seek");
            consumer.seekToBeginning(List.of(partition));
            equal(read(consumer, 10).get(0).offset(), 0L, "after a seek to the beginning");
            consumer.seekToEnd(List.of(partition));
            equal(consumer.position(partition), 10L, "position at the end");
            consumer.seek(partition, 99);
            equal(read(consumer, 10).get(0).offset(), 0L, "after a seek too far, by auto.offset.reset");
            equal(consumer.currentLag(partition).orElse(-1), 0L, "lag");
            equal(consumer.partitionsFor(topic).size(), 1, "partitions");
        }
    }

    private static void until(Collection<KafkaConsumer<byte[], byte[]>> members, BooleanSupplier done, String what) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(what + ": not within " + PATIENCE);
            }
            members.forEach(member -> member.poll(Duration.ofMillis(50)));
        }
    }

    private void rebalance(Class<?> assignor) throws Exception {
        rebalance(assignor.getSimpleName(), Map.of(
            "partition.assignment.strategy", assignor.getName(), "heartbeat.interval.ms", 300));
    }

    private void rebalance(String name, Map<String, Object> settings) throws Exception {
        String topic = create(name, 4);
        String group = prefix + "-" + name;
        try (KafkaConsumer<byte[], byte[]> first = member(group, settings)) {
            first.subscribe(List.of(topic));
            until(List.of(first), () -> first.assignment().size() == 4, "the first has all");
            try (KafkaConsumer<byte[], byte[]> second = member(group, settings)) {
                second.subscribe(List.of(topic));
                BooleanSupplier share = () -> first.assignment().size() == 2 && second.assignment().size() == 2;
                until(List.of(first, second), share, "both share");
                Set<TopicPartition> all = new HashSet<>(first.assignment());
                all.addAll(second.assignment());
                equal(all.size(), 4, "partitions that somebody has");
            }
            until(List.of(first), () -> first.assignment().size() == 4, "the first has all again");
        }
    }

    /** A static member that closes goes away for a while: its next life is at the same epoch. */
    private void consumerStaticMember() throws Exception {
        String topic = create("consumer-static", 2);
        String group = prefix + "-consumer-static";
        Map<String, Object> settings = Map.of("group.protocol", "consumer", "group.instance.id", "instance");
        Set<Integer> epochs = new HashSet<>();
        for (int life = 0; life < 2; life++) {
            try (KafkaConsumer<byte[], byte[]> member = member(group, settings)) {
                member.subscribe(List.of(topic));
                until(List.of(member), () -> member.assignment().size() == 2, "it has all");
                epochs.add(member.groupMetadata().generationId());
            }
        }
        equal(epochs.size(), 1, "epochs " + epochs);
    }

    private void consumerPattern() throws Exception {
        create("pattern-a", 1);
        try (KafkaConsumer<byte[], byte[]> member = member(prefix + "-pattern", CONSUMER_PROTOCOL)) {
            member.subscribe(new SubscriptionPattern(prefix + "-pattern-[a-c]"));
            until(List.of(member), () -> member.assignment().size() == 1, "it has the first topic");
            create("pattern-b", 2);
            create("pattern-d", 1);
            until(List.of(member), () -> member.assignment().size() == 3, "it has the topic that came");
            get(admin.createPartitions(Map.of(prefix + "-pattern-a", NewPartitions.increaseTo(3))).all());
            until(List.of(member), () -> member.assignment().size() == 5, "it has the partitions that came");
            get(admin.deleteTopics(List.of(prefix + "-pattern-b")).all());
            until(List.of(member), () -> member.assignment().size() == 3, "it has lost the topic that went");
        }
    }

    private void consumerTransaction() throws Exception {
        String topic = create("consumer-txn", 1);
        String group = prefix + "-consumer-txn";
        TopicPartition partition = new TopicPartition(topic, 0);
        fill(topic, 0, 5);
        try (KafkaConsumer<byte[], byte[]> member = member(group, CONSUMER_PROTOCOL);
                KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", group))) {
            member.subscribe(List.of(topic));
            read(member, 5);
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(3)), member.groupMetadata());
            producer.commitTransaction();
            equal(member.committed(Set.of(partition)).get(partition).offset(), 3L, "committed in the transaction");
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(4)), member.groupMetadata());
            producer.abortTransaction();
            equal(member.committed(Set.of(partition)).get(partition).offset(), 3L, "aborted");
        }
    }

    private void consumerGroups() throws Exception {
        String topic = create("consumer-groups", 1);
        String group = prefix + "-consumer-groups";
        TopicPartition partition = new TopicPartition(topic, 0);
        fill(topic, 0, 5);
        try (KafkaConsumer<byte[], byte[]> member = member(group, CONSUMER_PROTOCOL)) {
            member.subscribe(List.of(topic));
            read(member, 5);
            member.commitSync(Map.of(partition, new OffsetAndMetadata(4)));
            ConsumerGroupDescription found = get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
            equal(found.type(), GroupType.CONSUMER, "type");
            equal(found.groupState(), GroupState.STABLE, "state");
            equal(found.partitionAssignor(), "uniform", "assignor");
            equal(found.members().size(), 1, "members");
            var described = found.members().iterator().next();
            equal(described.assignment().topicPartitions(), Set.of(partition), "assigned");
            equal(described.targetAssignment().get().topicPartitions(), Set.of(partition), "to be assigned");
            equal(described.memberEpoch(), Optional.of(member.groupMetadata().generationId()), "epoch");
            try (KafkaConsumer<byte[], byte[]> classic = member(group, Map.of())) {
                classic.subscribe(List.of(topic));
                until(List.of(classic), () -> false, "");
            } catch (InconsistentGroupProtocolException expected) {
                // As long as the group has members, all are of their protocol.
            }
        }
        var listed = get(admin.listGroups().all()).stream().filter(g -> g.groupId().equals(group)).toList();
        equal(listed.get(0).type(), Optional.of(GroupType.CONSUMER), "type in the list");
        equal(listed.get(0).groupState(), Optional.of(GroupState.EMPTY), "state in the list");
        // Empty, it takes members of the other protocol, which go on where it was.
        try (KafkaConsumer<byte[], byte[]> classic = member(group, Map.of())) {
            classic.subscribe(List.of(topic));
            equal(read(classic, 1).get(0).offset(), 4L, "where the group goes on");
            try {
                get(admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all());
                throw new AssertionError("deleted while it is consumed");
            } catch (GroupSubscribedToTopicException expected) {
                // As it should be.
            }
        }
        get(admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all());
        equal(get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()), Map.of(), "offsets");
        get(admin.deleteConsumerGroups(List.of(group)).all());
    }

    private void staticMember() throws Exception {
        String topic = create("static", 2);
        String group = prefix + "-static";
        Map<String, Object> settings = Map.of("group.instance.id", "instance", "session.timeout.ms", 30_000);
        Set<String> generations = new HashSet<>();
        for (int life = 0; life < 2; life++) {
            // A static member that closes does not leave: its next life finds the generation as it was.
            try (KafkaConsumer<byte[], byte[]> member = member(group, settings)) {
                member.subscribe(List.of(topic));
                until(List.of(member), () -> member.assignment().size() == 2, "it has all");
                generations.add(String.valueOf(member.groupMetadata().generationId()));
                equal(member.groupMetadata().groupInstanceId(), Optional.of("instance"), "instance");
            }
        }
        equal(generations.size(), 1, "generations " + generations);
    }

    private void commits() throws Exception {
        String topic = create("commits", 2);
        String group = prefix + "-commits";
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        fill(topic, 0, 10);
        try (KafkaConsumer<byte[], byte[]> member = member(group, Map.of())) {
            member.subscribe(List.of(topic));
            read(member, 10);
            equal(member.committed(Set.of(zero)).get(zero), null, "before");
            member.commitSync(Map.of(zero, new OffsetAndMetadata(4, Optional.of(0), "note")));
            member.commitAsync();
        }
        try (KafkaConsumer<byte[], byte[]> alone = member(group, Map.of())) {
            alone.assign(List.of(zero, one));
            equal(alone.committed(Set.of(zero)).get(zero).offset(), 10L, "by commitAsync, which close waits for");
            alone.commitSync(Map.of(zero, new OffsetAndMetadata(4, Optional.of(0), "note")));
            OffsetAndMetadata found = alone.committed(Set.of(zero)).get(zero);
            equal(found, new OffsetAndMetadata(4, Optional.of(0), "note"), "committed");
        }
        try (KafkaConsumer<byte[], byte[]> member = member(group, Map.of())) {
            member.subscribe(List.of(topic));
            equal(read(member, 6).get(0).offset(), 4L, "where the group goes on");
        }
    }

    // Both, while brokers are killed and started again.

    private void throughRestarts() throws Exception {
        String topic = create("restarts", 1);
        Set<Integer> seen = new HashSet<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        // The other clients' groups are of the classic protocol.
        Map<String, Object> settings = Map.of("group.protocol", "consumer", "enable.auto.commit", "true");
        try (KafkaConsumer<byte[], byte[]> member = member(prefix + "-restarts", settings)) {
            member.subscribe(List.of(topic));
            Duration pause = Duration.ofMillis(10);
            Runnable look = () -> member.poll(pause).forEach(r -> seen.add(Integer.parseInt(new String(r.value()))));
            try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
                long deadline = System.nanoTime() + SEND.toNanos();
                while (System.nanoTime() < deadline) {
                    sent.add(producer.send(new ProducerRecord<>(topic, String.valueOf(sent.size()).getBytes())));
                    look.run();
                }
                for (int i = 0; i < sent.size(); i++) {
                    equal(get(sent.get(i)).offset(), (long) i, "offset");
                }
            }
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (seen.size() < sent.size() && System.nanoTime() < deadline) {
                look.run();
            }
        }
        equal(seen.size(), sent.size(), "records that the group saw");
        List<ConsumerRecord<byte[], byte[]>> records = readAll(topic, sent.size());
        for (int i = 0; i < sent.size(); i++) {
            equal(new String(records.get(i).value()), String.valueOf(i), "record " + i);
        }
    }
}
