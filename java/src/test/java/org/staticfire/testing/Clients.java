package org.staticfire.testing;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A producer and a consumer of RocketMQ's Java client. Two bodies mean something to its listener. */
final class Clients implements AutoCloseable {
    static final String REFUSED_ONCE = "refused once";
    static final String BLOCKING = "blocks the listener until the consumer is closed";
    private static final int WAIT_S = 20;
    /** Of a request. A machine that is busy with other tests isn't a fault of the cluster. */
    private static final int TIMEOUT_MS = 1_000 * WAIT_S;

    private final BlockingQueue<MessageExt> consumed = new LinkedBlockingQueue<>();
    private final CountDownLatch closed = new CountDownLatch(1);
    private final DefaultMQProducer producer = new DefaultMQProducer("shop");
    private DefaultMQPushConsumer consumer;

    Clients(RocketMQStand stand) throws Exception {
        producer.setNamesrvAddr(stand.namesrv());
        producer.setMqClientApiTimeout(TIMEOUT_MS);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.start();
    }

    Clients consume(RocketMQStand stand, String topic, String group) throws Exception {
        consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(stand.namesrv());
        consumer.setMqClientApiTimeout(TIMEOUT_MS);
        consumer.subscribe(topic, "*");
        consumer.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
            consumed.addAll(messages);
            MessageExt first = messages.get(0);
            if (body(first).equals(BLOCKING)) {
                awaitClose();
            }
            boolean isRefused = body(first).equals(REFUSED_ONCE) && first.getReconsumeTimes() == 0;
            return isRefused ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return this;
    }

    SendResult send(String topic, String body) throws Exception {
        return producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
    }

    SendResult sendLater(String topic, String body, long delayMs) throws Exception {
        Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
        message.setDelayTimeMs(delayMs);
        return producer.send(message);
    }

    /** The body of the next message, or null if none arrives. */
    String next() throws InterruptedException {
        MessageExt message = consumed.poll(WAIT_S, TimeUnit.SECONDS);
        return message == null ? null : body(message);
    }

    private void awaitClose() {
        try {
            closed.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    boolean hasConsumedMore() {
        return !consumed.isEmpty();
    }

    @Override
    public void close() {
        closed.countDown();
        if (consumer != null) {
            consumer.shutdown();
        }
        producer.shutdown();
    }
}
