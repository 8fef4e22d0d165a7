import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.remoting.common.RemotingHelper;

/**
 * Sends to a topic, looks each message up where its id says that it is, consumes them all, and prints which addresses it
 * met on the way: `Reach NAMESRV TOPIC COUNT VIP`.
 */
public final class Reach {
    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        Set<String> inIds = new TreeSet<>();
        Set<String> inRecords = new TreeSet<>();
        DefaultMQProducer producer = new DefaultMQProducer("reach-producers-" + topic);
        producer.setMqClientApiTimeout(20_000);
        producer.setSendMsgTimeout(20_000);
        producer.setNamesrvAddr(namesrv);
        producer.setVipChannelEnabled(Boolean.parseBoolean(arguments[3]));
        producer.start();
        for (int number = 0; number < count; number++) {
            SendResult result = producer.send(new Message(topic, ("message " + number).getBytes("UTF-8")), 10_000);
            MessageId id = MessageDecoder.decodeMessageId(result.getOffsetMsgId());
            inIds.add(RemotingHelper.parseSocketAddressAddr(id.getAddress()));
            MessageExt found = producer.viewMessage(topic, result.getOffsetMsgId());
            if (found == null || !result.getMsgId().equals(found.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX))) {
                throw new IllegalStateException("looked up " + result + ", found " + found);
            }
        }
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("reach-consumers-" + topic);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            synchronized (inRecords) {
                messages.forEach(message -> inRecords.add(RemotingHelper.parseSocketAddressAddr(message.getStoreHost())));
            }
            messages.forEach(message -> left.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = left.await(60, TimeUnit.SECONDS);
        System.out.println("missing " + left.getCount());
        System.out.println("ids " + String.join(" ", inIds));
        System.out.println("records " + String.join(" ", inRecords));
        consumer.shutdown();
        producer.shutdown();
        System.exit(all ? 0 : 1);
    }
}
