package org.staticfire.testing;

import java.util.Optional;

/** Decides where a cluster runs. */
final class Launch {
    private Launch() {}

    /** The cluster of {@code staticfire run -- mvn test} if it has these options, or a new one. */
    static ClusterHost surroundingOrNew(ClusterOptions options) {
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
