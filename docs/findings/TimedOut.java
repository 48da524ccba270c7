import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What Java's producer is told of a transaction that its coordinator has ended by its timeout; kafka-timeout-as-fence.md has what was
 * seen. Nobody else uses its transactional ids.
 *
 * java -cp JARS TimedOut.java BOOTSTRAP stall: stands still within a transaction, and then sends, commits or aborts.
 * java -cp JARS TimedOut.java BOOTSTRAP race SECONDS: twelve producers send without pause until each transaction is ended.
 */
class TimedOut {
    private static final int PRODUCERS = 12;
    private static final int IN_FLIGHT = 5;
    private static final Map<String, Integer> told = new ConcurrentSkipListMap<>();

    private static KafkaProducer<String, String> producer(String bootstrap, String id, Duration timeout) {
        var producer = new KafkaProducer<String, String>(Map.of("bootstrap.servers", bootstrap, "transactional.id", id,
            "transaction.timeout.ms", "" + timeout.toMillis(), "linger.ms", "0", "batch.size", "1",
            "key.serializer", StringSerializer.class.getName(), "value.serializer", StringSerializer.class.getName()));
        producer.initTransactions();
        return producer;
    }

    private static Future<RecordMetadata> send(KafkaProducer<String, String> producer, String value) {
        return producer.send(new ProducerRecord<>("timed-out", 0, null, value));
    }

    /** The errors, each with its cause. */
    private static String name(Throwable e) {
        if (e instanceof ExecutionException) return name(e.getCause());
        String cause = e.getCause() == null ? "" : " of " + name(e.getCause());
        return e.getClass().getSimpleName() + cause;
    }

    /** Whether an abort makes the producer usable again: begins, sends and commits one transaction. */
    private static String afterwards(KafkaProducer<String, String> producer) {
        try {
            producer.abortTransaction();
        } catch (Exception e) {
            return "an abort after it: " + name(e);
        }
        try {
            producer.beginTransaction();
            send(producer, "afterwards").get();
            producer.commitTransaction();
            return "an abort after it is done, and so is the next transaction";
        } catch (Exception e) {
            return "an abort after it is done, the next transaction: " + name(e);
        }
    }

    private static void stall(String bootstrap) throws Exception {
        for (String what : new String[] {"send", "commit", "abort"}) {
            var producer = producer(bootstrap, "stall-" + what, Duration.ofSeconds(2));
            producer.beginTransaction();
            send(producer, "before").get();
            Thread.sleep(5000);
            try {
                if (what.equals("send")) send(producer, "after").get();
                else if (what.equals("commit")) producer.commitTransaction();
                else producer.abortTransaction();
                System.out.println(what + ": done");
            } catch (Exception e) {
                System.out.println(what + ": " + name(e) + "; " + afterwards(producer));
            }
            producer.close(Duration.ZERO);
        }
    }

    private static void race(String bootstrap, String id, long until) {
        while (System.currentTimeMillis() < until) {
            try (var producer = producer(bootstrap, id, Duration.ofMillis(100))) {
                producer.beginTransaction();
                var inFlight = new ArrayDeque<Future<RecordMetadata>>();
                try {
                    while (true) {
                        inFlight.add(send(producer, "value"));
                        if (inFlight.size() >= IN_FLIGHT) inFlight.remove().get();
                    }
                } catch (Exception e) {
                    told.merge("send: " + name(e) + "; " + afterwards(producer), 1, Integer::sum);
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[1].equals("stall")) {
            stall(arguments[0]);
            return;
        }
        long until = System.currentTimeMillis() + 1000 * Long.parseLong(arguments[2]);
        var threads = new Thread[PRODUCERS];
        for (int i = 0; i < PRODUCERS; i++) {
            String id = "race-" + i;
            threads[i] = new Thread(() -> race(arguments[0], id, until));
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        told.forEach((what, times) -> System.out.println(times + " times " + what));
    }
}
