package org.staticfire.testing;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * A throwaway RocketMQ cluster: its addresses, its clock, its faults, and explanations of what its groups do.
 *
 * <p>In JUnit tests {@code @RocketMQ RocketMQStand stand} provides one. Elsewhere:
 *
 * <pre>{@code
 * try (RocketMQStand stand = RocketMQStand.start()) {
 *     producer.setNamesrvAddr(stand.namesrv());
 *     ...
 * }
 * }</pre>
 */
public final class RocketMQStand implements AutoCloseable {
    private static final int QUEUES = 4;
    private static final int METHOD_NOT_ALLOWED = 405;

    private final ClusterHost host;
    private final ControlClient control;
    private final MessageClock clock;
    private final Faults faults;

    RocketMQStand(ClusterHost host) {
        this.host = host;
        this.control = host.control();
        this.clock = new MessageClock(control);
        this.faults = new Faults(control);
    }

    /** Start a cluster with one broker. */
    public static RocketMQStand start() {
        return start(ClusterOptions.DEFAULT);
    }

    /**
     * Start a cluster: by the {@code staticfire} command if it is installed, else in Docker by Testcontainers. With the
     * property staticfire.image, or STATICFIRE_IMAGE: in Docker.
     */
    public static RocketMQStand start(ClusterOptions options) {
        return new RocketMQStand(Launch.cluster(options));
    }

    /** The nameserver's address, for RocketMQ's clients. */
    public String namesrv() {
        return host.namesrv();
    }

    /** The address for RocketMQ 5's gRPC clients. */
    public String endpoint() {
        if (host.endpoint().isEmpty()) {
            throw new StaticfireException("this cluster has no gRPC endpoint: pip install 'staticfire[grpc]'");
        }
        return host.endpoint();
    }

    /** The URL of the control endpoint: HTTP for everything that this class has no method for. */
    public String control() {
        return control.url();
    }

    public MessageClock clock() {
        return clock;
    }

    public Faults faults() {
        return faults;
    }

    /** Create a topic with four queues on each broker. */
    public void createTopic(String topic) {
        createTopic(topic, QUEUES);
    }

    /**
     * Create a topic with a number of queues on each broker, unless it exists with that number. Create topics before
     * consumers start: RocketMQ's clients look for a topic that didn't exist only every 30 seconds.
     */
    public void createTopic(String topic, int queues) {
        JsonObject wanted = new JsonObject();
        wanted.addProperty("topic", topic);
        wanted.addProperty("queues", queues);
        try {
            control.post("/topics", wanted);
        } catch (StaticfireException error) {
            if (error.status() != METHOD_NOT_ALLOWED) {
                throw error;
            }
            createTopicByCommand(topic, Integer.toString(queues));
        }
    }

    /** For staticfire 0.2, whose control endpoint creates no topics. */
    private void createTopicByCommand(String topic, String queues) {
        host.staticfire("mqadmin", "updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", queues, "-w", queues);
    }

    /** The topics that tests and clients have created. */
    public Set<String> topics() {
        Set<String> found = new TreeSet<>();
        for (JsonElement one : control.get("/topics").getAsJsonArray("topics")) {
            found.add(one.getAsJsonObject().get("topic").getAsString());
        }
        return found;
    }

    /** Why a group consumes nothing. */
    public Explanation explain(String group) {
        return new Explanation(control.get("/explain/" + ControlClient.encoded(group)));
    }

    /** The groups that have not consumed all of their messages. */
    public List<String> groupsWithBacklog() {
        List<String> found = new ArrayList<>();
        for (JsonObject group : groups()) {
            if (group.get("lag").getAsLong() > 0) {
                found.add(group.get("group").getAsString());
            }
        }
        return found;
    }

    /** The groups that have connected consumers now. */
    List<String> groupsWithMembers() {
        List<String> found = new ArrayList<>();
        for (JsonObject group : groups()) {
            if (group.get("members").getAsLong() > 0) {
                found.add(group.get("group").getAsString());
            }
        }
        return found;
    }

    private List<JsonObject> groups() {
        List<JsonObject> groups = new ArrayList<>();
        control.get("/groups").getAsJsonArray("groups").forEach(one -> groups.add(one.getAsJsonObject()));
        return groups;
    }

    /** What a failed test should show: the topics, and an explanation of each group that has a backlog. */
    public String report() {
        Set<String> topics = topics();
        StringBuilder text = new StringBuilder("topics: ").append(topics.isEmpty() ? "none" : String.join(", ", topics));
        text.append('\n').append(clock.now());
        faults.all().forEach(fault -> text.append('\n').append(fault));
        List<JsonObject> groups = groups();
        if (groups.isEmpty()) {
            text.append("\nno group has consumed anything");
        }
        for (JsonObject group : groups) {
            String name = group.get("group").getAsString();
            text.append('\n').append(group.get("lag").getAsLong() > 0 ? explain(name) : name + ": no backlog");
        }
        return text.toString();
    }

    /**
     * Remove faults, messages, topics, groups and offsets, and let message time run. Processes that a fault has
     * suspended or killed are back afterwards.
     */
    public void reset() {
        faults.clear();
        control.ask("POST", "/reset", null, Duration.ofMinutes(1));
    }

    /** Remove faults and let message time run, but keep topics, messages and groups. */
    public void resetFaultsAndClock() {
        faults.clear();
        if (!clock.now().mode().equals("real")) {
            clock.run();
        }
    }

    /** Stop the cluster. */
    @Override
    public void close() {
        host.close();
    }
}
