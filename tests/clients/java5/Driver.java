import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.function.IntPredicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * What a Java program does with rocketmq-client-java, TLS as it comes; driving.py says how a driver is talked to.
 *
 * <p>Each behaviour has topics and groups of its own, so they run at the same time; only the restart of the broker is
 * left for the end.
 */
public final class Driver {
    static final Duration PATIENCE = Duration.ofSeconds(40);
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    static ClientConfiguration configuration;
    static Producer producer;

    interface Behaviour {
        String run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        // By default 3 s, in which a proxy on a busy machine doesn't take 4 MB.
        var builder = ClientConfiguration.newBuilder().setEndpoints(arguments[0]).setRequestTimeout(Duration.ofSeconds(10));
        String key = System.getenv("ROCKETMQ_ACCESS_KEY");
        if (key != null) {
            builder.setCredentialProvider(
                new StaticSessionCredentialsProvider(key, System.getenv("ROCKETMQ_SECRET_KEY")));
        }
        configuration = builder.build();
        String[] normal = {"send", "properties", "receive", "change", "tags", "sql92", "push", "retry", "share",
            "dead-letter", "large", "types", "restart"};
        create("NORMAL", normal);
        create("FIFO", "fifo");
        create("DELAY", "delay", "recall");
        create("TRANSACTION", "transaction", "orphan");
        ask("{\"groups\": {\"g-fifo\": {\"consume_message_orderly\": true}, \"g-dead-letter\": {\"retry_max_times\": 1}}}");
        producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(normal)
            .setTopics("fifo", "delay", "recall", "transaction", "orphan")
            .setTransactionChecker(view -> TransactionResolution.COMMIT).build();
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<?>> running = new ArrayList<>();
        Map<String, Behaviour> behaviours = Map.ofEntries(
            Map.entry("send", Driver::send), Map.entry("properties", Driver::properties),
            Map.entry("receive", Driver::receive), Map.entry("change", Driver::change),
            Map.entry("tags", () -> filtered("tags", new FilterExpression("TagA || TagB"), number -> number % 3 != 2)),
            Map.entry("sql92", () -> filtered("sql92",
                new FilterExpression("number >= 10 AND parity IN ('even')", FilterExpressionType.SQL92),
                number -> number >= 10 && number % 2 == 0)),
            Map.entry("push", Driver::push), Map.entry("retry", Driver::retry), Map.entry("share", Driver::share),
            Map.entry("fifo", Driver::fifo), Map.entry("delay", Driver::delay), Map.entry("recall", Driver::recall),
            Map.entry("transaction", Driver::transaction), Map.entry("orphan", Driver::orphan),
            Map.entry("dead-letter", Driver::deadLetter), Map.entry("types", Driver::types),
            Map.entry("large", Driver::large));
        behaviours.forEach((name, behaviour) -> running.add(pool.submit(() -> tell(name, behaviour))));
        for (Future<?> each : running) {
            each.get();
        }
        tell("restart", Driver::restart);
        Runtime.getRuntime().halt(0);
    }

    static String send() throws Exception {
        Set<String> ids = new HashSet<>();
        for (int number = 0; number < 8; number++) {
            ids.add(producer.send(message("send", number).build()).getMessageId().toString());
        }
        same(ids.size(), 8, "ids");
        producer.sendAsync(message("send", 8).build()).get();
        return "";
    }

    static String properties() throws Exception {
        Message sent = message("properties", 1).setTag("paid").setKeys("key-1", "key-2").addProperty("umlaut", "größe")
            .setBody("body é".getBytes(StandardCharsets.UTF_8)).build();
        SendReceipt receipt = producer.send(sent);
        MessageView got = new Simple("properties").take(1).get(0);
        same(text(got), "body é", "body");
        same(got.getTag().orElse(""), "paid", "tag");
        same(new HashSet<>(got.getKeys()), Set.of("key-1", "key-2"), "keys");
        same(got.getProperties().get("umlaut"), "größe", "property");
        same(got.getMessageId().toString(), receipt.getMessageId().toString(), "id");
        same(got.getDeliveryAttempt(), 1, "attempt");
        return "";
    }

    static String receive() throws Exception {
        sendNumbers("receive", 20);
        Simple consumer = new Simple("receive");
        same(numbers(consumer.take(20)), range(20), "messages");
        same(consumer.takeFor(12).size(), 0, "messages after all were acknowledged");
        return "";
    }

    static String change() throws Exception {
        sendNumbers("change", 1);
        Simple consumer = new Simple("change");
        MessageView first = consumer.take(1, false).get(0);
        long began = System.nanoTime();
        consumer.consumer.changeInvisibleDuration(first, Duration.ofSeconds(2));
        MessageView second = consumer.take(1).get(0);
        same(first.getDeliveryAttempt() + " " + second.getDeliveryAttempt(), "1 2", "attempts");
        same(second.getMessageId().toString(), first.getMessageId().toString(), "id");
        return window("again", secondsSince(began), 1.5, 12);
    }

    static String filtered(String topic, FilterExpression expression, IntPredicate wanted) throws Exception {
        for (int number = 0; number < 30; number++) {
            producer.send(message(topic, number).setTag(new String[] {"TagA", "TagB", "TagC"}[number % 3])
                .addProperty("parity", number % 2 == 0 ? "even" : "odd").build());
        }
        List<Integer> expected = range(30).stream().filter(wanted::test).collect(Collectors.toList());
        Simple consumer = new Simple(topic, "g-" + topic, expression);
        List<MessageView> got = new ArrayList<>(consumer.take(expected.size()));
        got.addAll(consumer.takeFor(6));
        same(numbers(got), expected, "messages");
        return "";
    }

    static String push() throws Exception {
        Push listener = new Push("push", 0);
        sendNumbers("push", 200);
        listener.await(200);
        Thread.sleep(2000);
        same(numbers(listener.got), range(200), "messages");
        return "";
    }

    static String retry() throws Exception {
        sendNumbers("retry", 1);
        Push listener = new Push("retry", 1);
        listener.await(2);
        same(listener.got.get(0).getDeliveryAttempt() + " " + listener.got.get(1).getDeliveryAttempt(), "1 2", "attempts");
        same(listener.got.get(1).getTopic(), "retry", "topic");
        return window("first retry", (listener.at.get(1) - listener.at.get(0)) / 1e9, 0.9, 12);
    }

    static String share() throws Exception {
        Push one = new Push("share", 0);
        Push other = new Push("share", 0);
        Thread.sleep(3000);
        sendNumbers("share", 300);
        until("300 messages", () -> one.got.size() + other.got.size() >= 300);
        Thread.sleep(2000);
        List<MessageView> all = new ArrayList<>(one.got);
        all.addAll(other.got);
        same(numbers(all), range(300), "messages");
        check(!one.got.isEmpty() && !other.got.isEmpty(), one.got.size() + " and " + other.got.size());
        return one.got.size() + " and " + other.got.size();
    }

    static String fifo() throws Exception {
        for (int number = 0; number < 30; number++) {
            producer.send(message("fifo", number).setMessageGroup("group-" + number % 2).build());
        }
        Push listener = new Push("fifo", 0);
        listener.await(30);
        Thread.sleep(2000);
        for (int group = 0; group < 2; group++) {
            String name = "group-" + group;
            int rest = group;
            List<Integer> got = listener.got.stream().filter(each -> each.getMessageGroup().orElse("").equals(name))
                .map(Driver::number).collect(Collectors.toList());
            same(got, range(30).stream().filter(number -> number % 2 == rest).collect(Collectors.toList()), name);
        }
        return "";
    }

    static String delay() throws Exception {
        long due = System.currentTimeMillis() + 4000;
        producer.send(message("delay", 1).setDeliveryTimestamp(due).build());
        new Simple("delay").take(1);
        return window("delivered", (System.currentTimeMillis() - due) / 1e3, -0.1, 10);
    }

    static String recall() throws Exception {
        List<String> handles = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            Message delayed = message("recall", number).setDeliveryTimestamp(System.currentTimeMillis() + 15_000).build();
            handles.add(producer.send(delayed).getRecallHandle());
        }
        producer.recallMessage("recall", handles.get(0));
        Simple consumer = new Simple("recall");
        same(numbers(consumer.take(1)), List.of(1), "messages");
        same(consumer.takeFor(6).size(), 0, "further messages");
        return "";
    }

    static String transaction() throws Exception {
        for (int number = 0; number < 4; number++) {
            Transaction transaction = producer.beginTransaction();
            producer.send(message("transaction", number).build(), transaction);
            if (number % 2 == 1) {
                transaction.commit();
            } else {
                transaction.rollback();
            }
        }
        Simple consumer = new Simple("transaction");
        List<MessageView> got = new ArrayList<>(consumer.take(2));
        got.addAll(consumer.takeFor(6));
        same(numbers(got), List.of(1, 3), "messages");
        return "";
    }

    static String orphan() throws Exception {
        long began = System.nanoTime();
        producer.send(message("orphan", 1).build(), producer.beginTransaction());
        same(numbers(new Simple("orphan").take(1)), List.of(1), "messages");
        return window("asked and committed", secondsSince(began), 5, 45);
    }

    static String deadLetter() throws Exception {
        sendNumbers("dead-letter", 1);
        Push listener = new Push("dead-letter", 9);
        listener.await(2);
        Thread.sleep(7000); // The third receive finds that it was given too often.
        same(listener.got.size(), 2, "attempts");
        same(numbers(new Simple("%DLQ%g-dead-letter", "g-buried", FilterExpression.SUB_ALL).take(1)), List.of(0), "dead letters");
        return "";
    }

    static String types() throws Exception {
        try {
            producer.send(message("types", 1).setMessageGroup("g").build());
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        }
        throw new AssertionError("a topic of type NORMAL took an ordered message");
    }

    static String large() throws Exception {
        byte[] body = new byte[4_096_000];
        new java.util.Random(1).nextBytes(body);
        producer.send(message("large", 1).setBody(body).build());
        same(new Simple("large").take(1).get(0).getBody().remaining(), body.length, "bytes");
        return "";
    }

    static String restart() throws Exception {
        sendNumbers("restart", 10);
        Simple consumer = new Simple("restart");
        same(numbers(consumer.take(10)), range(10), "messages before");
        ask("{\"restart\": \"broker\"}");
        until("a send after the restart", () -> {
            try {
                producer.send(message("restart", 10).build());
                return true;
            } catch (Exception error) {
                return false;
            }
        });
        same(numbers(consumer.take(1)), List.of(10), "messages after");
        return "";
    }

    // -- clients ------------------------------------------------------------------------------------------------------

    static final class Simple {
        final SimpleConsumer consumer;

        Simple(String topic) throws Exception {
            this(topic, "g-" + topic, FilterExpression.SUB_ALL);
        }

        Simple(String topic, String group, FilterExpression expression) throws Exception {
            consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
                .setAwaitDuration(Duration.ofSeconds(5)).setSubscriptionExpressions(Map.of(topic, expression)).build();
        }

        List<MessageView> take(int count) throws Exception {
            return take(count, true);
        }

        List<MessageView> take(int count, boolean ack) throws Exception {
            List<MessageView> got = receive(count, PATIENCE, ack);
            check(got.size() >= count, got.size() + " of " + count + " messages");
            return got;
        }

        List<MessageView> takeFor(int seconds) throws Exception {
            return receive(Integer.MAX_VALUE, Duration.ofSeconds(seconds), true);
        }

        private List<MessageView> receive(int count, Duration within, boolean ack) throws Exception {
            List<MessageView> got = new ArrayList<>();
            long deadline = System.nanoTime() + within.toNanos();
            while (got.size() < count && System.nanoTime() < deadline) {
                try {
                    for (MessageView each : consumer.receive(32, Duration.ofSeconds(20))) {
                        if (ack) {
                            consumer.ack(each);
                        }
                        got.add(each);
                    }
                } catch (org.apache.rocketmq.client.apis.ClientException error) {
                    Thread.sleep(500); // The broker is being restarted.
                }
            }
            return got;
        }
    }

    static final class Push {
        final List<MessageView> got = Collections.synchronizedList(new ArrayList<>());
        final List<Long> at = Collections.synchronizedList(new ArrayList<>());
        final PushConsumer consumer;

        Push(String topic, int fails) throws Exception {
            consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup("g-" + topic).setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .setMessageListener(view -> {
                    synchronized (got) {
                        at.add(System.nanoTime());
                        got.add(view);
                        return got.size() <= fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                    }
                }).build();
        }

        void await(int count) throws Exception {
            until(count + " messages", () -> got.size() >= count);
        }
    }

    static MessageBuilder message(String topic, int number) {
        return PROVIDER.newMessageBuilder().setTopic(topic).addProperty("number", "" + number)
            .setBody(("" + number).getBytes(StandardCharsets.UTF_8));
    }

    static void sendNumbers(String topic, int count) throws Exception {
        for (int number = 0; number < count; number++) {
            producer.send(message(topic, number).build());
        }
    }

    static int number(MessageView view) {
        return Integer.parseInt(view.getProperties().get("number"));
    }

    static List<Integer> numbers(List<MessageView> views) {
        return new ArrayList<>(views).stream().map(Driver::number).sorted().collect(Collectors.toList());
    }

    static List<Integer> range(int end) {
        return IntStream.range(0, end).boxed().collect(Collectors.toList());
    }

    static String text(MessageView view) {
        ByteBuffer body = view.getBody();
        return StandardCharsets.UTF_8.decode(body).toString();
    }

    // -- telling ------------------------------------------------------------------------------------------------------

    static void tell(String name, Behaviour behaviour) {
        long began = System.nanoTime();
        boolean ok = true;
        String detail;
        try {
            detail = behaviour.run();
        } catch (Throwable error) {
            ok = false;
            detail = error.toString();
        }
        say(String.format("{\"behaviour\": \"%s\", \"ok\": %s, \"ms\": %d, \"detail\": \"%s\"}", name, ok,
            (System.nanoTime() - began) / 1_000_000, detail.replaceAll("[\\\\\"\\p{Cntrl}]", " ")));
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void ask(String line) throws Exception {
        say(line);
        INPUT.readLine();
    }

    static void create(String kind, String... topics) throws Exception {
        ask("{\"create\": [\"" + String.join("\", \"", topics) + "\"], \"kind\": \"" + kind + "\"}");
    }

    static void until(String what, BooleanSupplier condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.getAsBoolean()) {
            check(System.nanoTime() < deadline, what + " didn't come");
            Thread.sleep(50);
        }
    }

    static double secondsSince(long began) {
        return (System.nanoTime() - began) / 1e9;
    }

    static String window(String what, double seconds, double least, double most) {
        String words = String.format("%s after %.2f s", what, seconds);
        check(seconds >= least && seconds <= most, words);
        return words;
    }

    static void same(Object got, Object wanted, String what) {
        check(got.equals(wanted), what + ": " + got + ", not " + wanted);
    }

    static void check(boolean holds, String words) {
        if (!holds) {
            throw new AssertionError(words);
        }
    }
}
