import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.protocol.admin.*;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Static topics as RocketMQ's own tool and client know them: created over brokers, used, mapped to other brokers while
 * a group consumes, while it is away, and over a stretch that was never used. Arguments: nameserver, cluster, brokers.
 * Says what doesn't hold and exits with 1.
 */
public class StaticTopics {
    static final String LOGICAL_BROKER = "__syslo__global__";
    static final int QUEUES = 4, EACH = 5, BLOCK = 10_000, PATIENCE_S = 60;
    static String namesrv;
    static DefaultMQAdminExt admin;
    static int failures = 0;

    public static void main(String[] arguments) throws Exception {
        namesrv = arguments[0];
        List<String> brokers = Arrays.asList(arguments[2].split(","));
        admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(namesrv);
        admin.setPollNameServerInterval(500);
        admin.start();
        whileAGroupConsumes("static-used", arguments[1], brokers);
        whileAGroupIsAway("static-away", brokers);
        inOrderAndInTransactions("static-ordered", brokers);
        System.out.println(failures == 0 ? "static topics: as expected" : "static topics: " + failures + " failed");
        System.exit(failures == 0 ? 0 : 1);
    }

    // -- what is played ---------------------------------------------------------------------------------------------

    static void whileAGroupConsumes(String topic, String cluster, List<String> brokers) throws Exception {
        command("updateStaticTopic", "-c", cluster, "-t", topic, "-qn", "" + QUEUES);
        TransactionMQProducer producer = producer(topic);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = consumer(topic, seen, false);
        Set<String> expected = new TreeSet<>(send(producer, topic, 0));
        checkEnds(topic, EACH);
        seen.await(topic + " consumed", expected);
        for (String broker : brokers) {
            command("remappingStaticTopic", "-b", broker, "-t", topic);
            awaitRoute(producer, topic, broker);
            expected.addAll(send(producer, topic, starts(topic)));
        }
        seen.await(topic + " consumed after it was mapped to " + brokers, expected);
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            check(topic + " min", 0L, admin.minOffset(queue));
        }
        producer.shutdown();
        consumer.shutdown();
        command("deleteTopic", "-c", cluster, "-t", topic);
    }

    static void whileAGroupIsAway(String topic, List<String> brokers) throws Exception {
        command("updateStaticTopic", "-b", brokers.get(0), "-t", topic, "-qn", "" + QUEUES);
        TransactionMQProducer producer = producer(topic);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = consumer(topic, seen, false);
        seen.await(topic + " consumed", new TreeSet<>(send(producer, topic, 0)));
        consumer.shutdown();
        Set<String> expected = new TreeSet<>();
        for (String broker : List.of(brokers.get(1), brokers.get(2), brokers.get(0))) {
            command("remappingStaticTopic", "-b", broker, "-t", topic);
            awaitRoute(producer, topic, broker);
            expected.addAll(send(producer, topic, starts(topic)));
        }
        ConsumeStats stats = admin.examineConsumeStats("group-" + topic);
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            OffsetWrapper offset = stats.getOffsetTable().get(queue);
            check(topic + " has figures of " + queue, true, offset != null);
            check(topic + " broker offset", 3L * BLOCK + EACH, offset == null ? -1 : offset.getBrokerOffset());
            check(topic + " consumer offset", (long) EACH, offset == null ? -1 : offset.getConsumerOffset());
        }
        Seen later = new Seen();
        consumer = consumer(topic, later, false);
        later.await(topic + " consumed after three brokers", expected);
        consumer.shutdown();
        producer.shutdown();
    }

    static void inOrderAndInTransactions(String topic, List<String> brokers) throws Exception {
        command("updateStaticTopic", "-b", brokers.get(0), "-t", topic, "-qn", "" + QUEUES);
        TransactionMQProducer producer = producer(topic);
        command("remappingStaticTopic", "-b", brokers.get(1), "-t", topic);
        awaitRoute(producer, topic, brokers.get(1));
        Set<String> expected = new TreeSet<>(send(producer, topic, starts(topic)));
        for (int n = 0; n < QUEUES; n++) {
            String body = "transaction-" + n;
            SendResult sent = producer.sendMessageInTransaction(message(topic, body), null);
            check(topic + " " + body, SendStatus.SEND_OK, sent.getSendStatus());
            expected.add(body);
        }
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = consumer(topic, seen, true);
        List<String> bodies = seen.bodies(expected);
        check(topic + " consumed in order", expected, new TreeSet<>(bodies));
        check(topic + " offsets rise", true, seen.offsetsRise);
        consumer.shutdown();
        producer.shutdown();
    }

    // -- clients ----------------------------------------------------------------------------------------------------

    static TransactionMQProducer producer(String topic) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("producer-" + topic);
        producer.setMqClientApiTimeout(20_000);
        producer.setSendMsgTimeout(20_000);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("producer-" + topic);
        producer.setPollNameServerInterval(500);
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        return producer;
    }

    static DefaultMQPushConsumer consumer(String topic, Seen seen, boolean inOrder) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("group-" + topic);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("consumer-" + topic + System.nanoTime());
        consumer.setPollNameServerInterval(500);
        consumer.setPersistConsumerOffsetInterval(500);
        // Without it, the offset of a message whose listener is about to return is not committed at the end.
        consumer.setAwaitTerminationMillisWhenShutdown(TimeUnit.SECONDS.toMillis(PATIENCE_S));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        if (inOrder) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(seen::add);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(seen::add);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        return consumer;
    }

    static Message message(String topic, String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    static Set<String> send(MQProducer producer, String topic, long start) throws Exception {
        long[] starts = new long[QUEUES];
        Arrays.fill(starts, start);
        return send(producer, topic, starts);
    }

    /** Sends to each logical queue; returns what consumers have to see of it: queue, logical offset. */
    static Set<String> send(MQProducer producer, String topic, long[] starts) throws Exception {
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        check(topic + " queues", QUEUES, queues.size());
        Set<String> expected = new TreeSet<>();
        for (MessageQueue queue : queues) {
            check(topic + " broker name", LOGICAL_BROKER, queue.getBrokerName());
            for (int n = 0; n < EACH; n++) {
                long offset = starts[queue.getQueueId()] + n;
                String body = queue.getQueueId() + "@" + offset;
                SendResult sent = producer.send(message(topic, body), queue);
                check(topic + " queue of " + body, queue.getQueueId(), sent.getMessageQueue().getQueueId());
                check(topic + " offset of " + body, offset, sent.getQueueOffset());
                expected.add(body);
            }
        }
        return expected;
    }

    /** The logical offsets at which the queues begin on the brokers that lead them now: none has a message there. */
    static long[] starts(String topic) throws Exception {
        long[] starts = new long[QUEUES];
        for (MessageQueue queue : admin.examineTopicStats(topic).getOffsetTable().keySet()) {
            if (queue.getBrokerName().equals(LOGICAL_BROKER)) {
                starts[queue.getQueueId()] = admin.maxOffset(queue);
            }
        }
        return starts;
    }

    static void checkEnds(String topic, long end) throws Exception {
        TopicStatsTable stats = admin.examineTopicStats(topic);
        for (int n = 0; n < QUEUES; n++) {
            MessageQueue queue = new MessageQueue(topic, LOGICAL_BROKER, n);
            check(topic + " max", end, admin.maxOffset(queue));
            check(topic + " min", 0L, admin.minOffset(queue));
            check(topic + " max of figures", end, stats.getOffsetTable().get(queue).getMaxOffset());
        }
    }

    static void awaitRoute(TransactionMQProducer producer, String topic, String broker) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        while (System.nanoTime() < end) {
            boolean asExpected = true;
            for (var factory : List.of(
                    producer.getDefaultMQProducerImpl().getmQClientFactory(),
                    admin.getDefaultMQAdminExtImpl().getMqClientInstance())) {
                factory.updateTopicRouteInfoFromNameServer(topic);
                for (int n = 0; n < QUEUES; n++) {
                    MessageQueue queue = new MessageQueue(topic, LOGICAL_BROKER, n);
                    asExpected &= broker.equals(factory.getBrokerNameFromMessageQueue(queue));
                }
            }
            if (asExpected) {
                return;
            }
            Thread.sleep(100);
        }
        check(topic + " is led by " + broker, true, false);
    }

    static void command(String... arguments) {
        List<String> all = new ArrayList<>(List.of(arguments));
        all.addAll(List.of("-n", namesrv));
        MQAdminStartup.main0(all.toArray(new String[0]), null);
    }

    static void check(String what, Object expected, Object found) {
        if (!expected.equals(found)) {
            failures++;
            System.out.println("FAILED " + what + ": expected " + expected + ", found " + found);
        }
    }

    /** What a consumer saw. */
    static class Seen {
        private final List<String> bodies = new ArrayList<>();
        private final List<String> places = new ArrayList<>();
        private final Map<Integer, Long> lastOffsets = new HashMap<>();
        volatile boolean offsetsRise = true;

        synchronized void add(MessageExt message) {
            bodies.add(new String(message.getBody(), StandardCharsets.UTF_8));
            places.add(message.getQueueId() + "@" + message.getQueueOffset());
            check("broker name of a message", LOGICAL_BROKER, message.getBrokerName());
            Long last = lastOffsets.put(message.getQueueId(), message.getQueueOffset());
            offsetsRise &= last == null || last < message.getQueueOffset();
            notifyAll();
        }

        synchronized List<String> bodies(Set<String> expected) throws InterruptedException {
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (bodies.size() < expected.size() && System.nanoTime() < end) {
                wait(100);
            }
            return new ArrayList<>(bodies);
        }

        /** Each body says where its message should be. */
        void await(String what, Set<String> expected) throws InterruptedException {
            List<String> found = bodies(expected);
            check(what, expected.stream().sorted().collect(Collectors.toList()),
                found.stream().sorted().collect(Collectors.toList()));
            synchronized (this) {
                check(what + ", places", bodies, places);
            }
        }
    }
}
