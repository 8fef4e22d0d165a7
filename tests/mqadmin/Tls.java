import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * What Apache's TlsIT, TlsMixIT and TlsMix2IT do: 16 messages from a producer to a consumer, each of them with TLS or
 * without.
 *
 * Arguments: nameserver, topic, and "tls" or "plain" for the producer and for the consumer. All other settings of TLS
 * are system properties. Prints "consumed 16", or the exception of the send that failed.
 */
public class Tls {
    private static final int MESSAGES = 16;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        DefaultMQProducer producer = new DefaultMQProducer("producers-of-" + topic);
        producer.setMqClientApiTimeout(20_000);
        producer.setSendMsgTimeout(20_000);
        producer.setNamesrvAddr(arguments[0]);
        producer.setUseTLS(arguments[2].equals("tls"));
        producer.start();
        CountDownLatch missing = new CountDownLatch(MESSAGES);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("consumers-of-" + topic);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setUseTLS(arguments[3].equals("tls"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> {
                if (seen.add(new String(message.getBody(), StandardCharsets.UTF_8))) {
                    missing.countDown();
                }
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            for (int number = 0; number < MESSAGES; number++) {
                producer.send(new Message(topic, ("body-" + number).getBytes(StandardCharsets.UTF_8)));
            }
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.out.println("failed " + cause.getClass().getSimpleName() + " " + cause.getMessage());
            System.exit(0);
        }
        consumer.start();
        System.out.println(missing.await(30, TimeUnit.SECONDS) ? "consumed " + seen.size() : "missing some");
        consumer.shutdown();
        producer.shutdown();
        System.exit(0);
    }
}
