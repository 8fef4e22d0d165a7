import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * RocketMQ's own client with access keys: arguments are nameserver, topic, group, and key=secret of a user who may do
 * it. It prints what happens with this key, a wrong secret, no key, and another topic; then what a consumer gets.
 */
public class Keys {
    public static void main(String[] given) throws Exception {
        String[] key = given[3].split("=");
        RPCHook right = hook(key[0], key[1]);
        System.out.println("right " + sent(given[0], given[1], right, 1));
        System.out.println("wrong " + sent(given[0], given[1], hook(key[0], "wrong"), 2));
        System.out.println("unknown " + sent(given[0], given[1], hook("nobody", "wrong"), 3));
        System.out.println("none " + sent(given[0], given[1], null, 4));
        System.out.println("other " + sent(given[0], given[1] + "X", right, 5));
        CountDownLatch got = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(given[2], right);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setNamesrvAddr(given[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(given[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("consumed " + got.await(30, TimeUnit.SECONDS));
        consumer.shutdown();
        System.exit(0);
    }

    static RPCHook hook(String key, String secret) {
        return new AclClientRPCHook(new SessionCredentials(key, secret));
    }

    static String sent(String namesrv, String topic, RPCHook hook, int number) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("shop" + number, hook);
        producer.setMqClientApiTimeout(20_000);
        producer.setSendMsgTimeout(20_000);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("keys-" + number);
        producer.start();
        try {
            return producer.send(new Message(topic, "x".getBytes())).getSendStatus().toString();
        } catch (MQClientException failed) {
            Throwable cause = failed.getCause();
            String words = cause instanceof MQBrokerException ? ((MQBrokerException) cause).getErrorMessage() : "" + cause;
            return failed.getResponseCode() + " " + words;
        } finally {
            producer.shutdown();
        }
    }
}
