package org.staticfire.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A cluster by the command: what is reported when it can't start, and that it ends. */
class CommandClusterTest {
    private String program;

    @BeforeEach
    void find() {
        program = CommandCluster.find().orElse("");
        assumeTrue(!program.isEmpty(), "the staticfire command isn't installed");
    }

    @Test
    void aCommandThatIsNotThereIsNamed() {
        StaticfireException error = assertThrows(
            StaticfireException.class, () -> new CommandCluster("/nowhere/staticfire", ClusterOptions.DEFAULT));
        assertTrue(error.getMessage().contains("/nowhere/staticfire can't be started"), error.getMessage());
    }

    @Test
    void aWrongSettingIsReportedInTheWordsOfTheCommand() {
        ClusterOptions options = ClusterOptions.DEFAULT.withSetting("autoCreateTopicEnabled", "false");
        StaticfireException error = assertThrows(StaticfireException.class, () -> new CommandCluster(program, options));
        assertTrue(error.getMessage().contains("autoCreateTopicEnable"), error.getMessage());
    }

    @Test
    void itStopsWhenItIsClosed() {
        CommandCluster cluster = new CommandCluster(program, ClusterOptions.DEFAULT);
        ControlClient control = cluster.control();
        assertTrue(control.get("/health").get("healthy").getAsBoolean());
        cluster.close();
        StaticfireException error = assertThrows(StaticfireException.class, () -> control.get("/health"));
        assertEquals(0, error.status());
    }

    @Test
    void theClusterAroundTheTestsIsUsedAndNotStopped() {
        CommandCluster cluster = new CommandCluster(program, ClusterOptions.DEFAULT);
        try {
            Map<String, String> environment =
                Map.of("NAMESRV_ADDR", cluster.namesrv(), "STATICFIRE_CONTROL", cluster.control().url());
            ClusterHost surrounding = SurroundingCluster.find(environment).orElseThrow();
            try (RocketMQStand stand = new RocketMQStand(surrounding)) {
                assertEquals(cluster.namesrv(), stand.namesrv());
                stand.createTopic("orders");
            }
            assertTrue(cluster.control().get("/topics").toString().contains("orders"));
        } finally {
            cluster.close();
        }
        assertTrue(SurroundingCluster.find(Map.of("NAMESRV_ADDR", "127.0.0.1:9876")).isEmpty());
    }
}
