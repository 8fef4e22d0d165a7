package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;

@Testcontainers
class OrdersTest {
    @Container
    static final StaticfireContainer ROCKETMQ =
        new StaticfireContainer(System.getProperty("staticfire.image", "staticfire:latest"));

    private final BlockingQueue<MessageExt> billed = new LinkedBlockingQueue<>();
    private DefaultMQProducer producer;
    private DefaultMQPushConsumer consumer;

    @BeforeEach
    void connect() throws Exception {
        ROCKETMQ.staticfire("reset");
        ROCKETMQ.staticfire("mqadmin", "updateTopic", "-c", "DefaultCluster", "-t", "orders");
        producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(ROCKETMQ.namesrv());
        producer.start();
        consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(ROCKETMQ.namesrv());
        consumer.subscribe("orders", "*");
        consumer.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            boolean hasCredit = !new String(message.getBody()).equals("no credit") || message.getReconsumeTimes() > 0;
            if (hasCredit) billed.add(message);
            return hasCredit ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
    }

    @AfterEach
    void close() {
        consumer.shutdown();
        producer.shutdown();
    }

    @Test
    void anOrderIsBilled() throws Exception {
        producer.send(new Message("orders", "12.50".getBytes()));
        MessageExt message = billed.poll(20, TimeUnit.SECONDS);
        assertNotNull(message, () -> explain());
        assertEquals("12.50", new String(message.getBody()));
    }

    @Test
    void anOrderThatIsDueTomorrowIsBilledTomorrow() throws Exception {
        Message message = new Message("orders", "12.50".getBytes());
        message.setDelayTimeMs(TimeUnit.DAYS.toMillis(1));
        producer.send(message);
        ROCKETMQ.staticfire("clock", "advance", "23h");
        assertNull(billed.poll());
        ROCKETMQ.staticfire("clock", "advance", "1h");
        assertNotNull(billed.poll(20, TimeUnit.SECONDS), () -> explain());
    }

    @Test
    void anOrderWithoutCreditIsTriedAgainLater() throws Exception {
        producer.send(new Message("orders", "no credit".getBytes()));
        MessageExt message = null;
        for (int tries = 0; message == null && tries < 20; tries++) {
            ROCKETMQ.staticfire("clock", "advance", "10s"); // the first retry's interval
            message = billed.poll(500, TimeUnit.MILLISECONDS);
        }
        assertNotNull(message, () -> explain());
        assertEquals(1, message.getReconsumeTimes());
    }

    /** What a failed test says: why nothing is consumed. */
    private static String explain() {
        try {
            return ROCKETMQ.staticfire("explain", "billing");
        } catch (Exception error) {
            return error.toString();
        }
    }
}
