// Reads questions, one a line, and writes what RocketMQ's strategies answer: for each member the places of its queues.
//   in:  strategy TAB option TAB topic TAB "broker id,broker id,..." TAB "member,member,..."
//   out: "0 1 2,3 4,5" (members separated by commas), or "! words of the exception"

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

public class Allocate {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            List<MessageQueue> queues = new ArrayList<>();
            for (String queue : parts[3].split(",")) {
                String[] place = queue.split(" ");
                queues.add(new MessageQueue(parts[2], place[0], Integer.parseInt(place[1])));
            }
            out.println(answer(strategy(parts[0], parts[1], queues), queues, Arrays.asList(parts[4].split(","))));
        }
    }

    static String answer(AllocateMessageQueueStrategy strategy, List<MessageQueue> queues, List<String> members) {
        List<String> shares = new ArrayList<>();
        for (String member : members) {
            try {
                List<String> places = new ArrayList<>();
                for (MessageQueue queue : strategy.allocate("billing", member, queues, members)) {
                    places.add(String.valueOf(queues.indexOf(queue)));
                }
                shares.add(String.join(" ", places));
            } catch (RuntimeException exception) {
                return "! " + exception;
            }
        }
        return String.join(",", shares);
    }

    static AllocateMessageQueueStrategy strategy(String name, String option, List<MessageQueue> queues) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash(Integer.parseInt(option));
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(new HashSet<>(Arrays.asList(option.split(","))));
                return byRoom;
            case "CONFIG":
                AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
                List<MessageQueue> configured = new ArrayList<>();
                for (String place : option.split(",")) {
                    configured.add(queues.get(Integer.parseInt(place)));
                }
                byConfig.setMessageQueueList(configured);
                return byConfig;
            case "MACHINE_ROOM_NEARBY":
                return new AllocateMachineRoomNearby(strategy(option, "10", queues), new Prefix());
            default:
                throw new IllegalArgumentException(name);
        }
    }

    /** The room stands before the first "-", as in RocketMQ's own test. */
    static class Prefix implements AllocateMachineRoomNearby.MachineRoomResolver {
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("-")[0];
        }

        public String consumerDeployIn(String clientId) {
            return clientId.split("-")[0];
        }
    }
}
