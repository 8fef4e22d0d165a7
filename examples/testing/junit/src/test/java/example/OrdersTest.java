package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.staticfire.testing.FaultRule;
import org.staticfire.testing.RocketMQ;
import org.staticfire.testing.RocketMQStand;

class OrdersTest {
    @RocketMQ(topics = "orders") RocketMQStand stand;

    private final BlockingQueue<MessageExt> billed = new LinkedBlockingQueue<>();
    private DefaultMQProducer producer;
    private DefaultMQPushConsumer consumer;

    @BeforeEach
    void connect() throws Exception {
        producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(stand.namesrv());
        producer.start();
        consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(stand.namesrv());
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
        assertNotNull(message);
        assertEquals("12.50", new String(message.getBody()));
    }

    @Test
    void anOrderThatIsDueTomorrowIsBilledTomorrow() throws Exception {
        Message message = new Message("orders", "12.50".getBytes());
        message.setDelayTimeMs(TimeUnit.DAYS.toMillis(1));
        producer.send(message);
        stand.clock().advance(Duration.ofHours(23));
        assertNull(billed.poll());
        stand.clock().advance(Duration.ofHours(1));
        assertNotNull(billed.poll(20, TimeUnit.SECONDS));
    }

    @Test
    void anOrderWithoutCreditIsTriedAgainLater() throws Exception {
        stand.clock().skip(); // to whatever falls due next, as soon as consumers are at rest: here the retry, after 10 s
        producer.send(new Message("orders", "no credit".getBytes()));
        MessageExt message = billed.poll(20, TimeUnit.SECONDS);
        assertNotNull(message);
        assertEquals(1, message.getReconsumeTimes());
    }

    @Test
    void anOrderIsSentAgainWhileTheBrokerIsBusy() throws Exception {
        stand.faults().add(FaultRule.onCode("SEND_MESSAGE").topic("orders").answer("SYSTEM_BUSY").times(2));
        assertEquals(SendStatus.SEND_OK, producer.send(new Message("orders", "12.50".getBytes())).getSendStatus());
        assertNotNull(billed.poll(20, TimeUnit.SECONDS));
    }
}
