package org.staticfire.testing;

import java.util.Map;
import java.util.Optional;
import org.opentest4j.TestAbortedException;

/** Decides where a cluster runs. */
final class Launch {
    /** Set for programs under {@code staticfire chaos}. */
    static final String CHAOS = "STATICFIRE_CHAOS";

    private Launch() {}

    /**
     * The cluster for uses of the annotation: that of {@code staticfire run -- mvn test} if it has these options and
     * isn't for a class of its own, or a new one.
     *
     * <p>Under {@code staticfire chaos -- mvn test} it is always the surrounding one: a new cluster would have no faults.
     *
     * @throws TestAbortedException if the one under chaos hasn't these options
     */
    static ClusterHost forTests(ClusterOptions options, boolean isOfClass, Map<String, String> environment) {
        boolean isUnderChaos = environment.containsKey(CHAOS);
        boolean isDefault = options.equals(ClusterOptions.DEFAULT);
        if (isUnderChaos && !isDefault) {
            throw new TestAbortedException("@RocketMQ wants a cluster of " + options + ", and tests under `staticfire"
                + " chaos` use the one that it starts: leave brokers and settings out of the annotation, and give them to"
                + " the command (--brokers, --set)");
        }
        boolean mayShare = isDefault && (isUnderChaos || !isOfClass);
        Optional<ClusterHost> surrounding = mayShare ? SurroundingCluster.find(environment) : Optional.empty();
        return surrounding.orElseGet(() -> cluster(options));
    }

    /** Start a cluster. */
    static ClusterHost cluster(ClusterOptions options) {
        if (!Property.read("staticfire.image").isEmpty()) {
            return inDocker(options);
        }
        Optional<String> program = CommandCluster.find();
        return program.isPresent() ? new CommandCluster(program.get(), options) : inDocker(options);
    }

    private static ClusterHost inDocker(ClusterOptions options) {
        try {
            Class.forName("org.testcontainers.containers.GenericContainer");
        } catch (ClassNotFoundException error) {
            throw new StaticfireException("no cluster can be started. Install the command (pip install staticfire), so"
                + " that `staticfire` is on the PATH or the property staticfire.command names it; or add the dependency"
                + " org.testcontainers:testcontainers, to start it in Docker", error);
        }
        return Docker.start(options);
    }

    /** A class of its own, so that Testcontainers is loaded only if it is used. */
    private static final class Docker {
        static ClusterHost start(ClusterOptions options) {
            StaticfireContainer container = new StaticfireContainer().withOptions(options);
            container.start();
            return new ContainerHost(container);
        }
    }
}
