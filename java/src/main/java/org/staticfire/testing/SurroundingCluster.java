package org.staticfire.testing;

import java.util.Map;
import java.util.Optional;

/** The cluster of {@code staticfire run -- mvn test}, which the environment names. It ends with that command. */
final class SurroundingCluster implements ClusterHost {
    private final String namesrv;
    private final String endpoint;
    private final ControlClient control;

    private SurroundingCluster(Map<String, String> environment) {
        namesrv = environment.get("NAMESRV_ADDR");
        endpoint = environment.getOrDefault("ROCKETMQ_ENDPOINT", "");
        String token = environment.getOrDefault("STATICFIRE_CONTROL_TOKEN", "");
        control = new ControlClient(
            environment.get("STATICFIRE_CONTROL"), token, TrustedCa.path(Map.of(), environment));
    }

    /** The cluster that the environment names, if there is one. */
    static Optional<ClusterHost> find(Map<String, String> environment) {
        boolean named = environment.containsKey("STATICFIRE_CONTROL") && environment.containsKey("NAMESRV_ADDR");
        return named ? Optional.of(new SurroundingCluster(environment)) : Optional.empty();
    }

    @Override
    public String namesrv() {
        return namesrv;
    }

    @Override
    public String endpoint() {
        return endpoint;
    }

    @Override
    public ControlClient control() {
        return control;
    }

    @Override
    public String staticfire(String... words) {
        return CommandCluster.run(CommandCluster.find().orElse("staticfire"), namesrv, Map.of(), words);
    }

    @Override
    public void close() {
        // Whoever started it stops it.
    }
}
