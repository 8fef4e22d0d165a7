import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What a Java program does with the client of Apache RocketMQ, 4.9 and 5.3 alike; the protocol of a driver stands in
 * tests/clients/driving.py.
 *
 * Each behaviour has topics and groups of its own, so they run at the same time; only the restart of the broker is
 * left for the end.
 */
public final class Driver {
    private static final long PATIENCE_MS = 40_000;
    /** The client's 3 s are too short for a first connection on a busy machine, and time isn't tested here. */
    private static final int ANSWER_MS = 10_000;
    private static final long QUIET_MS = 1_500; // How long nothing more may arrive after everything did.

    private final String namesrv;
    private final String strictNamesrv;
    private final Answers answers = new Answers();
    private DefaultMQProducer producer;

    private Driver(String namesrv, String strictNamesrv) {
        this.namesrv = namesrv;
        this.strictNamesrv = strictNamesrv;
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("com.rocketmq.recall.default.trace.enable", "true");
        new Driver(arguments[0], arguments[1]).run();
        System.exit(0); // Some threads of the client never end.
    }

    private interface Behaviour {
        /** Do it; return what is worth telling. Anything thrown is a failure. */
        String run() throws Exception;
    }

    private void run() throws Exception {
        producer = newProducer(namesrv, "driver-producers");
        Map<String, Behaviour> behaviours = new LinkedHashMap<>();
        behaviours.put("send-sync", this::sendSync);
        behaviours.put("send-async", this::sendAsync);
        behaviours.put("send-oneway", this::sendOneway);
        behaviours.put("send-batch", this::sendBatch);
        behaviours.put("properties", this::properties);
        behaviours.put("tags", this::tags);
        behaviours.put("sql92", this::sql92);
        behaviours.put("once-each", this::onceEach);
        behaviours.put("retry", this::retry);
        behaviours.put("delay", this::delay);
        behaviours.put("timers", this::timers);
        behaviours.put("recall", this::recall);
        behaviours.put("ordered", this::ordered);
        behaviours.put("broadcast", this::broadcast);
        behaviours.put("share-queues", this::shareQueues);
        behaviours.put("consumer-restart", this::consumerRestart);
        behaviours.put("pull", this::pull);
        behaviours.put("lite-pull", this::litePull);
        behaviours.put("transactions", this::transactions);
        behaviours.put("request-reply", this::requestReply);
        behaviours.put("trace", this::trace);
        behaviours.put("queries", this::queries);
        behaviours.put("too-large", this::tooLarge);
        behaviours.put("auto-create", this::autoCreate);
        behaviours.put("no-auto-create", this::noAutoCreate);
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> running = new ArrayList<>();
        for (Map.Entry<String, Behaviour> each : behaviours.entrySet()) {
            running.add(threads.submit(() -> answers.tell(each.getKey(), each.getValue())));
        }
        for (Future<?> each : running) {
            each.get();
        }
        answers.tell("broker-restart", this::brokerRestart);
    }

    // -- sending ------------------------------------------------------------------------------------------------------

    private String sendSync() throws Exception {
        Map<Integer, Long> next = new HashMap<>();
        for (int number = 0; number < 8; number++) {
            SendResult result = producer.send(message("sync", number));
            check(result.getSendStatus() == SendStatus.SEND_OK, "status " + result.getSendStatus());
            check(result.getMessageQueue().getTopic().equals("sync"), "topic " + result.getMessageQueue());
            check(result.getMsgId() != null && result.getOffsetMsgId().length() == 32, "ids " + result);
            int queue = result.getMessageQueue().getQueueId();
            same(next.getOrDefault(queue, 0L), result.getQueueOffset(), "queue offset");
            next.put(queue, result.getQueueOffset() + 1);
        }
        return next.size() + " queues";
    }

    private String sendAsync() throws Exception {
        CountDownLatch left = new CountDownLatch(20);
        AtomicReference<Throwable> failed = new AtomicReference<>();
        Set<String> ids = Collections.synchronizedSet(new HashSet<>());
        for (int number = 0; number < 20; number++) {
            producer.send(message("async", number), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    ids.add(result.getMsgId() + result.getSendStatus());
                    left.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    failed.set(error);
                    left.countDown();
                }
            });
        }
        check(left.await(PATIENCE_MS, TimeUnit.MILLISECONDS), left.getCount() + " were never answered");
        check(failed.get() == null, "failed: " + failed.get());
        same(20, ids.size(), "ids");
        return "";
    }

    private String sendOneway() throws Exception {
        producer.send(message("oneway", 0));
        for (int number = 1; number < 10; number++) {
            producer.sendOneway(message("oneway", number));
        }
        try (Listening consumer = new Listening(namesrv, "oneway-readers", "oneway", "*", "a")) {
            consumer.start();
            consumer.await(10);
            consumer.sameNumbers(10);
        }
        return "";
    }

    private String sendBatch() throws Exception {
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < 30; number++) {
            batch.add(message("batch", number));
        }
        SendResult result = producer.send(batch);
        check(result.getSendStatus() == SendStatus.SEND_OK, "status " + result.getSendStatus());
        same(30, result.getMsgId().split(",").length, "unique ids");
        same(30, result.getOffsetMsgId().split(",").length, "offset ids");
        try (Listening consumer = new Listening(namesrv, "batch-readers", "batch", "*", "a")) {
            consumer.start();
            consumer.await(30);
            consumer.sameNumbers(30);
            Set<Integer> queues = new HashSet<>();
            for (MessageExt each : consumer.received()) {
                queues.add(each.getQueueId());
            }
            same(1, queues.size(), "queues of a batch");
        }
        return "";
    }

    private String properties() throws Exception {
        long before = System.currentTimeMillis();
        Message sent = new Message("properties", "paid", "key-1 key-2", bytes("body é"));
        sent.putUserProperty("spaced", " a  b ");
        sent.putUserProperty("umlaut", "größe");
        sent.setFlag(7);
        SendResult result = producer.send(sent);
        try (Listening consumer = new Listening(namesrv, "properties-readers", "properties", "*", "a")) {
            consumer.start();
            consumer.await(1);
            MessageExt got = consumer.received().get(0);
            same("body é", new String(got.getBody(), StandardCharsets.UTF_8), "body");
            same("paid", got.getTags(), "tags");
            same("key-1 key-2", got.getKeys(), "keys");
            same(" a  b ", got.getUserProperty("spaced"), "property");
            same("größe", got.getUserProperty("umlaut"), "property");
            same(7, got.getFlag(), "flag");
            same(result.getMsgId(), got.getMsgId(), "unique id");
            same(result.getQueueOffset(), got.getQueueOffset(), "queue offset");
            same(result.getMessageQueue().getQueueId(), got.getQueueId(), "queue");
            same("127.0.0.1", got.getBornHostString(), "born host");
            check(got.getBornTimestamp() >= before, "born at " + got.getBornTimestamp());
            check(Math.abs(got.getStoreTimestamp() - before) < PATIENCE_MS, "stored at " + got.getStoreTimestamp());
            check(String.valueOf(got.getStoreHost()).contains("127.0.0.1:"), "store host " + got.getStoreHost());
            same(0, got.getReconsumeTimes(), "reconsume times");
        }
        return "";
    }

    // -- messages with a time of their own, and traces ----------------------------------------------------------------

    private String timers() throws Exception {
        producer.send(message("timers", 0));
        try (Listening consumer = new Listening(namesrv, "timers-readers", "timers", "*", "a")) {
            consumer.start();
            consumer.await(1);
            // Far enough from each other that a send of a busy machine doesn't change their order.
            long sent = System.currentTimeMillis();
            producer.send(timed("timers", 3, "TIMER_DELIVER_MS", sent + 13_500));
            producer.send(timed("timers", 2, "TIMER_DELAY_MS", 7_750));
            producer.send(timed("timers", 1, "TIMER_DELAY_SEC", 2));
            consumer.await(4);
            consumer.sameNumbers(4);
            List<Integer> order = consumer.received().stream().map(Driver::number).collect(Collectors.toList());
            same(Arrays.asList(0, 1, 2, 3), order, "order");
            check(consumer.received().get(1).getTopic().equals("timers"), "topic");
            window("TIMER_DELAY_MS", consumer.times.get(2) - sent, 7_750, 15_000);
            window("TIMER_DELIVER_MS", consumer.times.get(3) - sent, 13_500, 20_000);
            return window("TIMER_DELAY_SEC", consumer.times.get(1) - sent, 2_000, 10_000);
        }
    }

    private String recall() throws Exception {
        Method recall = recalling();
        producer.send(message("recalls", 0));
        try (Listening consumer = new Listening(namesrv, "recalls-readers", "recalls", "*", "a")) {
            consumer.start();
            SendResult regretted = producer.send(timed("recalls", 100, "TIMER_DELAY_MS", 3_000));
            SendResult kept = producer.send(timed("recalls", 1, "TIMER_DELAY_MS", 3_000));
            same(regretted.getMsgId(), recall.invoke(producer, "recalls", handle(regretted)), "id");
            consumer.await(2);
            consumer.quiet();
            consumer.sameNumbers(2);
            try {
                recall.invoke(producer, "recalls", handle(kept));
                throw new IllegalStateException("what was delivered has been called back");
            } catch (InvocationTargetException refused) {
                same(604, ((MQBrokerException) refused.getCause()).getResponseCode(), "code");
            }
            return "";
        }
    }

    private String trace() throws Exception {
        DefaultMQProducer traced = new DefaultMQProducer("traced-producers", true, null);
        named(traced, namesrv, "traced-producers");
        traced.start();
        DefaultMQPushConsumer reading = new DefaultMQPushConsumer("traced-readers", true, null);
        named(reading, namesrv, "traced-readers");
        reading.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        reading.subscribe("traced", "*");
        reading.registerMessageListener(
            (MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        try {
            SendResult sent = traced.send(message("traced", 0));
            reading.start();
            awaitLife(sent.getMsgId(), "sent/trace", "stored/store", "delivered/journal", "consumed/trace");
            try {
                SendResult regretted = traced.send(timed("traced", 1, "TIMER_DELAY_MS", 60_000));
                recalling().invoke(traced, "traced", handle(regretted));
                awaitLife(regretted.getMsgId(), "sent/trace", "waits/store", "recalled/store", "recalled/trace");
                return "recalls too";
            } catch (Cannot none) {
                return "";
            }
        } finally {
            traced.shutdown();
            reading.shutdown();
        }
    }

    private void awaitLife(String id, String... wanted) throws Exception {
        AtomicReference<String> life = new AtomicReference<>("");
        await(() -> Arrays.asList(wanted) + " in the life of a message (" + life.get() + ")", () -> {
            life.set(answers.ask("life", id));
            return Arrays.asList(life.get().split(" ")).containsAll(Arrays.asList(wanted));
        });
    }

    /** Old clients know no such property: what they let nobody set, everybody can. */
    private static Message timed(String topic, int number, String property, long value) {
        Message made = message(topic, number);
        MessageAccessor.putProperty(made, property, String.valueOf(value));
        return made;
    }

    private static Method recalling() throws Cannot {
        try {
            return DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class);
        } catch (NoSuchMethodException old) {
            throw new Cannot("the client has no recall");
        }
    }

    private static String handle(SendResult result) throws Exception {
        return (String) SendResult.class.getMethod("getRecallHandle").invoke(result);
    }

    private String transactions() throws Exception {
        Set<String> asked = Collections.synchronizedSet(new TreeSet<>());
        TransactionMQProducer transacting = new TransactionMQProducer("transacting-producers");
        named(transacting, namesrv, "transacting");
        transacting.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.add(message.getTopic() + " " + new String(message.getBody(), StandardCharsets.UTF_8));
                return message.getTags().equals("paid")
                    ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        transacting.start();
        producer.send(message("transactions", 0)); // A consumer of a topic that isn't there looks for it every 30 s.
        try (Listening consumer = new Listening(namesrv, "transactions-readers", "transactions", "*", "a")) {
            consumer.start();
            for (int number = 1; number < 3; number++) {
                sendHalf(transacting, number, "paid", LocalTransactionState.COMMIT_MESSAGE);
            }
            sendHalf(transacting, 100, "refused", LocalTransactionState.ROLLBACK_MESSAGE);
            sendHalf(transacting, 3, "paid", LocalTransactionState.UNKNOW);
            sendHalf(transacting, 101, "refused", LocalTransactionState.UNKNOW);
            consumer.await(4); // The last one after about six seconds.
            consumer.sameNumbers(4);
            await("both are asked about", () -> asked.size() == 2);
            for (MessageExt each : consumer.received()) {
                same(number(each) == 0 ? 0 : 8, each.getSysFlag() & 12, "transaction bits"); // Committed.
            }
            long until = System.currentTimeMillis() + PATIENCE_MS;
            while (asked.size() < 2 && System.currentTimeMillis() < until) {
                Thread.sleep(20); // The message that counts may be consumed before the other one is asked about.
            }
            same("[transactions body 101, transactions body 3]", asked.toString(), "asked about");
            return "asked about " + asked.size();
        } finally {
            transacting.shutdown();
        }
    }

    private static void sendHalf(TransactionMQProducer through, int number, String tags, LocalTransactionState state)
        throws Exception {
        Message half = message("transactions", number);
        half.setTags(tags);
        TransactionSendResult result = through.sendMessageInTransaction(half, state);
        same(SendStatus.SEND_OK, result.getSendStatus(), "status");
        same(state, result.getLocalTransactionState(), "state");
    }

    /** By callback: in 5.3 a request that waits gives up as soon as its send is answered. */
    private String requestReply() throws Exception {
        DefaultMQPushConsumer answering = new DefaultMQPushConsumer("rpc-servers");
        named(answering, namesrv, "rpc");
        answering.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        answering.subscribe("rpc", "*");
        answering.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (MessageExt each : messages) {
                    String body = new String(each.getBody(), StandardCharsets.UTF_8);
                    producer.send(MessageUtil.createReplyMessage(each, bytes("answer to " + body)), 3_000);
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            } catch (Exception error) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
        });
        producer.send(message("rpc", 1_000)); // Its topic is there before anybody asks.
        answering.start();
        try {
            askAll("rpc", "answer to ");
            same("answer to our question", answers.ask("request", "rpc"), "reply to our client");
            answers.ask("answer", "rpc-ours");
            askAll("rpc-ours", "our answer to ");
            return "";
        } finally {
            answering.shutdown();
        }
    }

    private void askAll(String topic, String begin) throws Exception {
        int asked = 10;
        CountDownLatch left = new CountDownLatch(asked);
        AtomicReference<Throwable> failed = new AtomicReference<>();
        Map<String, String> replies = Collections.synchronizedMap(new TreeMap<>());
        for (int number = 0; number < asked; number++) {
            String body = "question " + number;
            producer.request(new Message(topic, bytes(body)), new RequestCallback() {
                @Override
                public void onSuccess(Message reply) {
                    if (reply != null) { // Null: sent, and no reply yet.
                        replies.put(body, new String(reply.getBody(), StandardCharsets.UTF_8));
                        left.countDown();
                    }
                }

                @Override
                public void onException(Throwable error) {
                    failed.set(error);
                }
            }, PATIENCE_MS);
        }
        check(left.await(PATIENCE_MS, TimeUnit.MILLISECONDS), left.getCount() + " got no reply: " + failed.get());
        for (Map.Entry<String, String> each : replies.entrySet()) {
            same(begin + each.getKey(), each.getValue(), "reply");
        }
    }

    private String tooLarge() throws Exception {
        DefaultMQProducer large = newUnstarted(namesrv, "large-producers");
        large.setMaxMessageSize(8 << 20);
        large.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        large.start();
        try {
            byte[] body = new byte[(4 << 20) + 1];
            new Random(1).nextBytes(body);
            large.send(new Message("large", body), 20_000);
            throw new IllegalStateException("a message of 4 MiB and one byte was stored");
        } catch (MQBrokerException refused) {
            same(13, refused.getResponseCode(), "code");
            same(SendStatus.SEND_OK, large.send(message("large", 1)).getSendStatus(), "the next message");
            return "";
        } finally {
            large.shutdown();
        }
    }

    private String autoCreate() throws Exception {
        String topic = "created-unasked";
        same(SendStatus.SEND_OK, producer.send(message(topic, 1)).getSendStatus(), "status");
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("auto-create-readers");
        named(consumer, namesrv, "auto-create");
        consumer.start();
        try {
            int queues = consumer.fetchSubscribeMessageQueues(topic).size();
            same(4, queues, "queues"); // Of the producer's defaultTopicQueueNums.
            return "";
        } finally {
            consumer.shutdown();
        }
    }

    private String noAutoCreate() throws Exception {
        DefaultMQProducer strict = newProducer(strictNamesrv, "strict-producers");
        try {
            strict.send(message("nobody-made-this", 1));
            throw new IllegalStateException("a message for an unknown topic was stored");
        } catch (MQClientException refused) {
            same(10005, refused.getResponseCode(), "code"); // ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION
            return "";
        } finally {
            strict.shutdown();
        }
    }

    // -- consuming ----------------------------------------------------------------------------------------------------

    private String tags() throws Exception {
        String[] tags = {"TagA", "TagB", "TagC"};
        for (int number = 0; number < 30; number++) {
            Message each = message("tags", number);
            each.setTags(tags[number % 3]);
            producer.send(each);
        }
        // A broker compares hashes, and these two have the same: only the client itself can tell them apart. The broker
        // relies on that (broker/pulls/checks.py, FILTER_THEMSELVES).
        same("Aa".hashCode(), "BB".hashCode(), "hash");
        Message alike = message("tags", 30);
        alike.setTags("BB");
        producer.send(alike);
        try (Listening consumer = new Listening(namesrv, "tags-readers", "tags", "TagA || TagB || Aa", "a")) {
            consumer.start();
            consumer.await(20);
            consumer.quiet();
            same(20, consumer.received().size(), "messages");
            for (MessageExt each : consumer.received()) {
                check(number(each) != 30 && number(each) % 3 != 2, "message " + number(each) + " has " + each.getTags());
            }
        }
        return "";
    }

    private String sql92() throws Exception {
        for (int number = 0; number < 30; number++) {
            Message each = message("chosen", number);
            each.putUserProperty("parity", number % 2 == 0 ? "even" : "odd");
            producer.send(each);
        }
        try (Listening consumer = new Listening(namesrv, "chosen-readers", "chosen", "*", "a")) {
            consumer.consumer.subscribe("chosen", MessageSelector.bySql("number >= 10 AND parity IN ('even')"));
            consumer.start();
            consumer.await(10);
            consumer.quiet();
            same(10, consumer.received().size(), "messages");
            for (MessageExt each : consumer.received()) {
                check(number(each) >= 10 && number(each) % 2 == 0, "message " + number(each));
            }
        }
        try (Listening wrong = new Listening(namesrv, "wrong-readers", "chosen", "*", "a")) {
            wrong.consumer.subscribe("chosen", MessageSelector.bySql("number >="));
            wrong.start();
            throw new IllegalStateException("a condition that is none was taken");
        } catch (MQClientException refused) {
            same(23, refused.getResponseCode(), "code"); // SUBSCRIPTION_PARSE_FAILED
            return "";
        }
    }

    private String onceEach() throws Exception {
        producer.send(message("once", 0));
        try (Listening consumer = new Listening(namesrv, "once-readers", "once", "*", "a")) {
            consumer.start();
            for (int number = 1; number < 200; number++) {
                producer.send(message("once", number));
            }
            consumer.await(200);
            consumer.quiet();
            consumer.sameNumbers(200);
        }
        return "";
    }

    private String retry() throws Exception {
        producer.send(message("retried", 1));
        try (Listening consumer = new Listening(namesrv, "retried-readers", "retried", "*", "a")) {
            consumer.failOnce = true;
            consumer.start();
            consumer.await(2);
            MessageExt first = consumer.received().get(0);
            MessageExt second = consumer.received().get(1);
            same(0, first.getReconsumeTimes(), "reconsume times of the first");
            same(1, second.getReconsumeTimes(), "reconsume times of the second");
            same(first.getMsgId(), second.getMsgId(), "unique id");
            same("retried", second.getTopic(), "topic");
            same(number(first), number(second), "number");
            return window("first retry", consumer.times.get(1) - consumer.times.get(0), 9_900, 25_000);
        }
    }

    private String delay() throws Exception {
        producer.send(message("delayed", 0));
        try (Listening consumer = new Listening(namesrv, "delayed-readers", "delayed", "*", "a")) {
            consumer.start();
            consumer.await(1);
            Message delayed = message("delayed", 1);
            delayed.setDelayTimeLevel(2);
            long sent = System.currentTimeMillis();
            same(SendStatus.SEND_OK, producer.send(delayed).getSendStatus(), "status");
            consumer.await(2);
            same("delayed", consumer.received().get(1).getTopic(), "topic");
            return window("level 2", consumer.times.get(1) - sent, 4_900, 12_000);
        }
    }

    private String ordered() throws Exception {
        for (int number = 0; number < 100; number++) {
            producer.send(message("ordered", number), Driver::inTurn, number);
        }
        try (Listening consumer = new Listening(namesrv, "ordered-readers", "ordered", "*", "a")) {
            consumer.orderly = true;
            consumer.start();
            consumer.await(100);
            consumer.quiet();
            consumer.sameNumbers(100);
            Map<Integer, Integer> last = new HashMap<>();
            for (MessageExt each : consumer.received()) {
                int before = last.getOrDefault(each.getQueueId(), -1);
                check(number(each) > before, "queue " + each.getQueueId() + ": " + number(each) + " after " + before);
                last.put(each.getQueueId(), number(each));
            }
            same(4, last.size(), "queues");
        }
        return "";
    }

    private String broadcast() throws Exception {
        for (int number = 0; number < 10; number++) {
            producer.send(message("broadcast", number));
        }
        try (Listening one = new Listening(namesrv, "broadcast-readers", "broadcast", "*", "a");
             Listening other = new Listening(namesrv, "broadcast-readers", "broadcast", "*", "b")) {
            for (Listening each : Arrays.asList(one, other)) {
                setMessageModel(each.consumer, "BROADCASTING");
                each.start();
            }
            for (Listening each : Arrays.asList(one, other)) {
                each.await(10);
                each.sameNumbers(10);
            }
        }
        return "";
    }

    private String shareQueues() throws Exception {
        for (int number = 0; number < 8; number++) {
            producer.send(message("shared", number));
        }
        Listening one = new Listening(namesrv, "shared-readers", "shared", "*", "a");
        Listening other = new Listening(namesrv, "shared-readers", "shared", "*", "b");
        try {
            one.start();
            one.await(8);
            await("one consumer has all four queues", () -> one.queues() == 4);
            long joined = System.currentTimeMillis();
            other.start();
            await("both have two queues", () -> one.queues() == 2 && other.queues() == 2);
            joined = System.currentTimeMillis() - joined;
            for (int number = 8; number < 48; number++) {
                producer.send(message("shared", number));
            }
            await("all are consumed", () -> numbers(one, other).size() == 48);
            check(other.received().size() >= 10, "the second consumer got " + other.received().size());
            long left = System.currentTimeMillis();
            other.close();
            await("the other queues are taken over", () -> one.queues() == 4);
            left = System.currentTimeMillis() - left;
            for (int number = 48; number < 60; number++) {
                producer.send(message("shared", number));
            }
            await("the rest is consumed", () -> numbers(one, other).size() == 60);
            window("join", joined, 0, 12_000);
            window("leave", left, 0, 12_000);
            return "join " + joined + " ms, leave " + left + " ms";
        } finally {
            one.close();
            other.close();
        }
    }

    private String consumerRestart() throws Exception {
        consumeAndLeave("resumed", "resumed-readers");
        resume("resumed", "resumed-readers");
        return "";
    }

    private String brokerRestart() throws Exception {
        consumeAndLeave("survivors", "survivors-readers");
        answers.ask("restart", "broker");
        long since = System.currentTimeMillis();
        while (true) {
            try {
                producer.send(message("survivors", 20));
                break;
            } catch (Exception error) {
                check(System.currentTimeMillis() - since < PATIENCE_MS, "the producer doesn't recover: " + error);
                Thread.sleep(200);
            }
        }
        long back = System.currentTimeMillis() - since;
        resume("survivors", "survivors-readers");
        return "sent again after " + back + " ms";
    }

    /** Consume 20 messages and end: 0 to 19. */
    private void consumeAndLeave(String topic, String group) throws Exception {
        for (int number = 0; number < 20; number++) {
            producer.send(message(topic, number));
        }
        try (Listening consumer = new Listening(namesrv, group, topic, "*", "a")) {
            consumer.start();
            consumer.await(20);
            Driver.await("the client has noted that all are consumed", () -> consumer.noted() == 20);
        }
    }

    /** Consume what is sent from now on, nothing twice. */
    private void resume(String topic, String group) throws Exception {
        for (int number = 21; number < 25; number++) {
            producer.send(message(topic, number));
        }
        int first = topic.equals("survivors") ? 20 : 21;
        try (Listening consumer = new Listening(namesrv, group, topic, "*", "b")) {
            consumer.start();
            consumer.await(25 - first);
            consumer.quiet();
            for (MessageExt each : consumer.received()) {
                check(number(each) >= first, "message " + number(each) + " came again");
            }
            same(25 - first, consumer.received().size(), "messages");
        }
    }

    private String pull() throws Exception {
        long before = System.currentTimeMillis();
        for (int number = 0; number < 40; number++) {
            producer.send(message("pulled", number), Driver::inTurn, number);
        }
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("pulled-readers");
        named(consumer, namesrv, "pull");
        consumer.start();
        try {
            Set<Integer> numbers = new HashSet<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues("pulled")) {
                long max = consumer.maxOffset(queue);
                same(0L, consumer.minOffset(queue), "min offset");
                same(10L, max, "max offset");
                same(0L, consumer.searchOffset(queue, before - 1_000), "offset at the beginning");
                check(consumer.fetchConsumeOffset(queue, true) <= 0, "an offset was committed before");
                PullResult first = consumer.pull(queue, "*", 0, 4);
                same(PullStatus.FOUND, first.getPullStatus(), "status");
                same(4, first.getMsgFoundList().size(), "first pull");
                same(4L, first.getNextBeginOffset(), "next offset");
                PullResult rest = consumer.pull(queue, "*", 4, 32);
                same(6, rest.getMsgFoundList().size(), "second pull");
                same(PullStatus.NO_NEW_MSG, consumer.pull(queue, "*", max, 32).getPullStatus(), "at the end");
                PullResult beyond = consumer.pull(queue, "*", max + 100, 32);
                same(PullStatus.OFFSET_ILLEGAL, beyond.getPullStatus(), "behind the end");
                for (MessageExt each : first.getMsgFoundList()) {
                    numbers.add(number(each));
                }
                for (MessageExt each : rest.getMsgFoundList()) {
                    numbers.add(number(each));
                }
                consumer.updateConsumeOffset(queue, max);
                consumer.getOffsetStore().persist(queue);
                await("the offset is committed", () -> consumer.fetchConsumeOffset(queue, true) == max);
            }
            same(40, numbers.size(), "messages");
        } finally {
            consumer.shutdown();
        }
        return "";
    }

    private String queries() throws Exception {
        long before = System.currentTimeMillis();
        SendResult result = null;
        for (int number = 0; number < 5; number++) {
            Message each = message("queried", number);
            each.setKeys("order-" + number + " all");
            result = producer.send(each);
        }
        long end = System.currentTimeMillis() + 60_000;
        // The index is written behind the log.
        await("five messages with a key", () -> found("all", before, end) == 5);
        same(1, found("order-3", before, end), "messages with a key of their own");
        check(found("nobodys", before, end) == 0, "messages with nobody's key");
        for (String id : Arrays.asList(result.getMsgId(), result.getOffsetMsgId())) {
            MessageExt found = producer.viewMessage("queried", id);
            same(4, number(found), "message " + id);
            same("order-4 all", found.getKeys(), "keys of " + id);
        }
        return "";
    }

    private int found(String key, long beginMs, long endMs) throws Exception {
        try {
            return producer.queryMessage("queried", key, 32, beginMs - 60_000, endMs).getMessageList().size();
        } catch (MQClientException none) {
            check(String.valueOf(none.getMessage()).contains("query message by key finished, but no message"),
                "query: " + none.getMessage());
            return 0;
        }
    }

    private String litePull() throws Exception {
        for (int number = 0; number < 40; number++) {
            producer.send(message("lite", number), Driver::inTurn, number);
        }
        Collection<MessageQueue> queues;
        DefaultLitePullConsumer subscribed = new DefaultLitePullConsumer("lite-readers");
        named(subscribed, namesrv, "lite");
        subscribed.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        subscribed.subscribe("lite", "*");
        subscribed.start();
        try {
            queues = subscribed.fetchMessageQueues("lite");
            same(4, queues.size(), "queues");
            same(offsets(0, 10), pollAll(subscribed, 40), "offsets polled");
            subscribed.commitSync();
        } finally {
            subscribed.shutdown();
        }
        DefaultLitePullConsumer assigned = new DefaultLitePullConsumer("lite-assigned-readers");
        named(assigned, namesrv, "lite-assigned");
        assigned.setAutoCommit(false);
        // A seek is only safe while its queue has never been pulled: the client itself (4.9 and 5.3) races with a pull
        // under way. Its answer may still be kept after the seek, and the queue's messages come twice; a pull about to
        // begin may use up the new offset, and the seek is lost; or it is interrupted in sending, and the connection of
        // all queues is closed. With a RocketMQ broker it's the same. So the queues are paused before anything starts.
        assigned.assign(queues);
        assigned.pause(queues);
        assigned.start();
        try {
            for (MessageQueue queue : queues) {
                assigned.seek(queue, 5);
            }
            assigned.resume(queues);
            same(offsets(5, 10), pollAll(assigned, 20), "offsets polled after the seek");
        } finally {
            assigned.shutdown();
        }
        return "";
    }

    /** Poll until that many messages came, and some time more; return the offsets of each queue as they came. */
    private static Map<Integer, List<Long>> pollAll(DefaultLitePullConsumer consumer, int count) {
        Map<Integer, List<Long>> offsets = new TreeMap<>();
        int polled = 0;
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (System.currentTimeMillis() < end) {
            for (MessageExt each : consumer.poll(500)) {
                offsets.computeIfAbsent(each.getQueueId(), queue -> new ArrayList<>()).add(each.getQueueOffset());
                polled++;
                if (polled == count) {
                    end = System.currentTimeMillis() + QUIET_MS;
                }
            }
        }
        return offsets;
    }

    /** The offsets from first to end, without end, in each of four queues. */
    private static Map<Integer, List<Long>> offsets(long first, long end) {
        Map<Integer, List<Long>> offsets = new TreeMap<>();
        for (int queue = 0; queue < 4; queue++) {
            offsets.put(queue, LongStream.range(first, end).boxed().collect(Collectors.toList()));
        }
        return offsets;
    }

    // -- parts --------------------------------------------------------------------------------------------------------

    /** A push consumer that keeps what it got. */
    private static final class Listening implements AutoCloseable {
        final DefaultMQPushConsumer consumer;
        final List<Long> times = Collections.synchronizedList(new ArrayList<>());
        boolean failOnce;
        boolean orderly;
        private final List<MessageExt> received = Collections.synchronizedList(new ArrayList<>());
        private final String topic;
        private boolean open = true;

        Listening(String namesrv, String group, String topic, String expression, String instance) throws Exception {
            this.topic = topic;
            consumer = new DefaultMQPushConsumer(group);
            named(consumer, namesrv, group + "-" + instance);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setConsumeThreadMin(4);
            consumer.setConsumeThreadMax(4);
            consumer.subscribe(topic, expression);
        }

        void start() throws Exception {
            if (orderly) {
                consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                    keep(messages);
                    return ConsumeOrderlyStatus.SUCCESS;
                });
            } else {
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                    keep(messages);
                    boolean fails = failOnce && messages.get(0).getReconsumeTimes() == 0;
                    return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
            }
            consumer.start();
        }

        private synchronized void keep(List<MessageExt> messages) {
            times.add(System.currentTimeMillis()); // First: who has seen the messages looks for their times.
            received.addAll(messages);
        }

        List<MessageExt> received() {
            synchronized (received) {
                return new ArrayList<>(received);
            }
        }

        void await(int count) throws Exception {
            Driver.await(() -> count + " messages (got " + received.size() + ")", () -> received.size() >= count);
        }

        void quiet() throws InterruptedException {
            Thread.sleep(QUIET_MS);
        }

        void sameNumbers(int count) {
            List<Integer> numbers = new ArrayList<>();
            for (MessageExt each : received()) {
                numbers.add(number(each));
            }
            Collections.sort(numbers);
            List<Integer> expected = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                expected.add(number);
            }
            same(expected, numbers, "messages");
        }

        /** How many messages the client itself counts as consumed: it does so after the listener, in another thread. */
        long noted() {
            OffsetStore offsets = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
            return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                .filter(queue -> queue.getTopic().equals(topic))
                .mapToLong(queue -> Math.max(0, offsets.readOffset(queue, ReadOffsetType.READ_FROM_MEMORY))).sum();
        }

        long queues() {
            return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                .filter(queue -> queue.getTopic().equals(topic)).count();
        }

        @Override
        public void close() {
            if (open) {
                open = false;
                consumer.shutdown();
            }
        }
    }

    private static Set<Integer> numbers(Listening... consumers) {
        Set<Integer> numbers = new HashSet<>();
        for (Listening each : consumers) {
            for (MessageExt message : each.received()) {
                numbers.add(number(message));
            }
        }
        return numbers;
    }

    private static void named(ClientConfig client, String namesrv, String instance) {
        client.setNamesrvAddr(namesrv);
        client.setInstanceName(instance);
        client.setMqClientApiTimeout(ANSWER_MS);
    }

    private static DefaultMQProducer newUnstarted(String namesrv, String group) {
        DefaultMQProducer made = new DefaultMQProducer(group);
        named(made, namesrv, group);
        made.setSendMsgTimeout(ANSWER_MS);
        return made;
    }

    private static DefaultMQProducer newProducer(String namesrv, String group) throws MQClientException {
        DefaultMQProducer made = newUnstarted(namesrv, group);
        made.start();
        return made;
    }

    private static Message message(String topic, int number) {
        Message made = new Message(topic, bytes("body " + number));
        made.putUserProperty("number", String.valueOf(number));
        return made;
    }

    /** Choose queues in turn. The producer's own turn begins anew when it learns of a topic that was just created. */
    private static MessageQueue inTurn(List<MessageQueue> queues, Message message, Object number) {
        return queues.get((Integer) number % queues.size());
    }

    private static int number(MessageExt message) {
        return Integer.parseInt(message.getUserProperty("number"));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** MessageModel has moved from one package to another between 4.9 and 5.3. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void setMessageModel(DefaultMQPushConsumer consumer, String model) throws Exception {
        for (Method method : consumer.getClass().getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class) method.getParameterTypes()[0], model));
                return;
            }
        }
        throw new NoSuchMethodException("setMessageModel");
    }

    private static void await(String what, Callable<Boolean> done) throws Exception {
        await(() -> what, done);
    }

    private static void await(Callable<String> what, Callable<Boolean> done) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!done.call()) {
            check(System.currentTimeMillis() < end, "waited " + PATIENCE_MS + " ms in vain for: " + what.call());
            Thread.sleep(10);
        }
    }

    private static void check(boolean fact, String otherwise) {
        if (!fact) {
            throw new IllegalStateException(otherwise);
        }
    }

    private static void same(Object expected, Object found, String what) {
        check(expected.equals(found), what + ": " + found + ", not " + expected);
    }

    private static String window(String what, long tookMs, long minMs, long maxMs) {
        check(minMs <= tookMs && tookMs <= maxMs, what + " after " + tookMs + " ms, not " + minMs + " to " + maxMs);
        return what + " after " + tookMs + " ms";
    }

    /** The client doesn't have what a behaviour needs. */
    private static final class Cannot extends Exception {
        Cannot(String why) {
            super(why);
        }
    }

    /** The lines that the driver writes, and the answers to what it asks for. */
    private static final class Answers {
        private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));

        void tell(String name, Behaviour behaviour) {
            long began = System.currentTimeMillis();
            String detail;
            boolean ok = false;
            try {
                detail = behaviour.run();
                ok = true;
            } catch (Cannot none) {
                print("{\"behaviour\":" + quoted(name) + ",\"cannot\":" + quoted(none.getMessage()) + "}");
                return;
            } catch (Throwable error) {
                detail = (error instanceof IllegalStateException ? "" : error.getClass().getSimpleName() + ": ")
                    + error.getMessage();
            }
            long tookMs = System.currentTimeMillis() - began;
            print("{\"behaviour\":" + quoted(name) + ",\"ok\":" + ok + ",\"ms\":" + tookMs + ",\"detail\":"
                + quoted(detail) + "}");
        }

        synchronized String ask(String what, String about) throws Exception {
            print("{" + quoted(what) + ":" + quoted(about) + "}");
            String answer = input.readLine();
            check(answer != null, "nobody answers: " + what + " " + about);
            return answer;
        }

        private static synchronized void print(String line) {
            System.out.println(line);
        }

        private static String quoted(String text) {
            StringBuilder quoted = new StringBuilder("\"");
            for (char each : text.toCharArray()) {
                if (each == '"' || each == '\\' || each < ' ') {
                    quoted.append(String.format("\\u%04x", (int) each));
                } else {
                    quoted.append(each);
                }
            }
            return quoted.append('"').toString();
        }
    }
}
