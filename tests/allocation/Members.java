// Members of a group of RocketMQ's own client, which come and go as the standard input says:
//   join NAME STRATEGY                          NAME is the instance name; answers "id CLIENT_ID"
//   leave NAME                                  answers "left"
//   await NAME=BROKER ID,BROKER ID;NAME=...     answers "as expected" when they have these queues of the topic, or after
//                                               120 s "but NAME=..." with what they have
// Arguments: nameserver, topic, group.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

@SuppressWarnings("deprecation")
public class Members {
    static final long PATIENCE_MS = 120_000;
    static final Map<String, DefaultMQPushConsumer> members = new TreeMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            System.out.println(answer(words[0], words[1], arguments));
        }
        System.exit(0);
    }

    static String answer(String command, String rest, String[] arguments) throws Exception {
        switch (command) {
            case "join":
                String[] words = rest.split(" ");
                members.put(words[0], joined(words[0], words[1], arguments));
                return "id " + members.get(words[0]).buildMQClientId();
            case "leave":
                members.remove(rest).shutdown();
                return "left";
            default:
                for (long end = System.currentTimeMillis() + PATIENCE_MS; !rest.equals(owned(arguments[1]));) {
                    if (System.currentTimeMillis() > end) {
                        return "but " + owned(arguments[1]);
                    }
                    Thread.sleep(10);
                }
                return "as expected";
        }
    }

    static DefaultMQPushConsumer joined(String name, String strategy, String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setInstanceName(name);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.setAllocateMessageQueueStrategy(strategyOf(strategy));
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener(
            (MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        return consumer;
    }

    static AllocateMessageQueueStrategy strategyOf(String name) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash();
            default:
                throw new IllegalArgumentException(name);
        }
    }

    static String owned(String topic) {
        StringBuilder text = new StringBuilder();
        members.forEach((name, consumer) -> {
            TreeSet<MessageQueue> own = new TreeSet<>();
            for (MessageQueue queue
                : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
                if (queue.getTopic().equals(topic)) {
                    own.add(queue);
                }
            }
            text.append(text.length() == 0 ? "" : ";").append(name).append("=");
            String separator = "";
            for (MessageQueue queue : own) {
                text.append(separator).append(queue.getBrokerName()).append(" ").append(queue.getQueueId());
                separator = ",";
            }
        });
        return text.toString();
    }
}
