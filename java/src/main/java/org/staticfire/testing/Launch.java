package org.staticfire.testing;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** Decides where a cluster runs, and keeps the clusters that tests share. */
final class Launch {
    private static final Map<ClusterOptions, RocketMQStand> SHARED = new ConcurrentHashMap<>();

    private Launch() {}

    /**
     * The cluster that all tests of this program share if they need the same options. It runs until the program ends:
     * consumers of a Spring context, which end last, never lose it.
     */
    static RocketMQStand shared(ClusterOptions options) {
        return SHARED.computeIfAbsent(options, wanted -> new RocketMQStand(surroundingOrNew(wanted)));
    }

    private static ClusterHost surroundingOrNew(ClusterOptions options) {
        Optional<ClusterHost> surrounding =
            options.equals(ClusterOptions.DEFAULT) ? SurroundingCluster.find(System.getenv()) : Optional.empty();
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
