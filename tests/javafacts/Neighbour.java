// A producer and a push consumer of RocketMQ's client in a namespace.
//   arguments: nameserver, namespace, topic, group, how many messages to consume
//   out:       "sent KIND topic-of-the-result" for a body of each kind of compression, "got topic length letter retries",
//              "done" when that many were consumed; a body that begins with r is consumed at the second attempt

import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

public class Neighbour {
    @SuppressWarnings("deprecation")
    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0], namespace = arguments[1], topic = arguments[2];
        CountDownLatch left = new CountDownLatch(Integer.parseInt(arguments[4]));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[3]);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setNamespace(namespace);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                byte[] body = message.getBody();
                if (body[0] == 'r' && message.getReconsumeTimes() == 0) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                System.out.println("got " + message.getTopic() + " " + body.length + " " + (char) body[0] + " "
                    + message.getReconsumeTimes());
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (CompressionType kind : CompressionType.values()) {
            DefaultMQProducer producer = new DefaultMQProducer("shop-" + kind);
            producer.setMqClientApiTimeout(20_000);
            producer.setSendMsgTimeout(20_000);
            producer.setNamespace(namespace);
            producer.setNamesrvAddr(namesrv);
            producer.setCompressType(kind);
            producer.start();
            byte[] body = new byte[10_000];
            Arrays.fill(body, (byte) 'j');
            SendResult result = producer.send(new Message(topic, body));
            System.out.println("sent " + kind + " " + result.getMessageQueue().getTopic());
            producer.shutdown();
        }
        System.out.println(left.await(60, TimeUnit.SECONDS) ? "done" : "late");
        consumer.shutdown();
        System.exit(0);
    }
}
