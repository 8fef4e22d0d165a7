import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/** Sends one message and consumes it, with the keys and TLS of the environment; access.py says how it reports. */
public final class Access {
    /** The client's 3 s are too short for a first connection on a busy machine, and time isn't tested here. */
    private static final int ANSWER_MS = 10_000;

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0], topic = arguments[1], group = arguments[2];
        String key = System.getenv("ROCKETMQ_ACCESS_KEY");
        boolean tls = "true".equals(System.getenv("DRIVER_TLS"));
        RPCHook hook = key == null ? null
            : new AclClientRPCHook(new SessionCredentials(key, System.getenv("ROCKETMQ_SECRET_KEY")));
        DefaultMQProducer producer = new DefaultMQProducer(group + "-producers", hook);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(group + "-p");
        producer.setUseTLS(tls);
        producer.setSendMsgTimeout(ANSWER_MS);
        producer.setMqClientApiTimeout(ANSWER_MS);
        try {
            producer.start();
            Said.say("sent", true, send(producer, new Message(topic, "body".getBytes())).getSendStatus().toString());
        } catch (Exception error) {
            Said.say("sent", false, Said.words(error));
        }
        CountDownLatch got = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + "-c");
        consumer.setUseTLS(tls);
        consumer.setMqClientApiTimeout(ANSWER_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            consumer.start();
            boolean received = got.await(Integer.parseInt(arguments[3]), TimeUnit.SECONDS);
            Said.say("received", received, received ? "" : "it starts, and gets nothing");
        } catch (Exception error) {
            Said.say("received", false, Said.words(error));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Send a message; 4.9.8 waits 3 s for its first routes, whatever its timeouts are, and then says that there is none. */
    private static SendResult send(DefaultMQProducer producer, Message message) throws Exception {
        long untilMs = System.currentTimeMillis() + ANSWER_MS;
        while (true) {
            try {
                return producer.send(message);
            } catch (MQClientException error) {
                boolean hasNoRoute = String.valueOf(error.getErrorMessage()).contains("No route info");
                if (!hasNoRoute || System.currentTimeMillis() > untilMs) {
                    throw error;
                }
            }
        }
    }
}
