import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * One producer and one consumer of RocketMQ's own, which trace, for mqadmin to look at.
 *
 * Arguments: nameserver, topic, producer group, consumer group, number of messages. Each message is told on standard
 * output: unique id, offset id, broker, queue, queue offset. Then "consumed" when all came back and the
 * group's offsets are on their way, which a consumer stores every five seconds by itself; it stays until its standard
 * input ends.
 */
@SuppressWarnings("deprecation")
public class Member {
    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            System.exit(1);
        });
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[4]);
        CountDownLatch missing = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[3], true, null);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> missing.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = new DefaultMQProducer(arguments[2], true, null);
        producer.setMqClientApiTimeout(20_000);
        producer.setSendMsgTimeout(20_000);
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        for (int number = 0; number < count; number++) {
            byte[] body = ("body-" + number).getBytes(StandardCharsets.UTF_8);
            SendResult sent = producer.send(new Message(topic, "paid", "key-" + number, body));
            System.out.println("sent " + sent.getMsgId() + " " + sent.getOffsetMsgId() + " "
                + sent.getMessageQueue().getBrokerName() + " " + sent.getMessageQueue().getQueueId() + " "
                + sent.getQueueOffset());
        }
        consumer.start();
        missing.await();
        while (done(consumer, topic) < count) {
            Thread.sleep(20);
        }
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        System.out.println("consumed");
        while (System.in.read() >= 0) {
            continue;
        }
        consumer.shutdown();
        producer.shutdown();
    }

    /** Where the consumer stands, in all queues together. */
    private static long done(DefaultMQPushConsumer consumer, String topic) throws Exception {
        OffsetStore offsets = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
        long sum = 0;
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            sum += Math.max(0, offsets.readOffset(queue, ReadOffsetType.READ_FROM_MEMORY));
        }
        return sum;
    }
}
