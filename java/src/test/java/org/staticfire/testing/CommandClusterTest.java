package org.staticfire.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.opentest4j.TestAbortedException;

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
    void anEndpointWithTlsIsVerifiedByTheCaOfTheCluster(@TempDir Path folder) {
        CommandCluster.run(program, "", Map.of(), "certificates", "--to", folder.toString());
        String ca = folder.resolve("ca.pem").toString();
        ClusterOptions options = ClusterOptions.DEFAULT
            .withSetting("tls.server.mode", "enforcing")
            .withSetting("tls.server.certPath", folder.resolve("server.pem").toString())
            .withSetting("tls.server.keyPath", folder.resolve("server.key.pem").toString())
            .withSetting(TrustedCa.SETTING, ca);
        CommandCluster cluster = new CommandCluster(program, options);
        try {
            String url = cluster.control().url();
            assertTrue(url.startsWith("https:"), url);
            assertTrue(cluster.control().get("/health").get("healthy").getAsBoolean());
            cluster.staticfire("topics");
            Map<String, String> environment = Map.of(
                "NAMESRV_ADDR", cluster.namesrv(), "STATICFIRE_CONTROL", url, TrustedCa.VARIABLE, ca);
            assertTrue(SurroundingCluster.find(environment).orElseThrow().control().get("/health").has("healthy"));
            StaticfireException error =
                assertThrows(StaticfireException.class, () -> new ControlClient(url, "").get("/health"));
            assertTrue(error.getMessage().contains(TrustedCa.VARIABLE), error.getMessage());
        } finally {
            cluster.close();
        }
    }

    @Test
    void aFileThatIsNoCaIsNamed(@TempDir Path folder) {
        String path = folder.resolve("ca.pem").toString();
        StaticfireException error =
            assertThrows(StaticfireException.class, () -> new ControlClient("https://127.0.0.1:1", "", path));
        assertTrue(error.getMessage().contains(path + " (tls.client.trustCertPath) can't be read"), error.getMessage());
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

    @Test
    void underChaosAClassHasTheClusterAroundTheTestsToo() {
        try (CommandCluster cluster = new CommandCluster(program, ClusterOptions.DEFAULT)) {
            Map<String, String> around = new HashMap<>(
                Map.of("NAMESRV_ADDR", cluster.namesrv(), "STATICFIRE_CONTROL", cluster.control().url()));
            assertEquals(cluster.namesrv(), Launch.forTests(ClusterOptions.DEFAULT, false, around).namesrv());
            try (ClusterHost own = Launch.forTests(ClusterOptions.DEFAULT, true, around)) {
                assertNotEquals(cluster.namesrv(), own.namesrv());
            }
            around.put(Launch.CHAOS, "true");
            assertEquals(cluster.namesrv(), Launch.forTests(ClusterOptions.DEFAULT, true, around).namesrv());
        }
    }

    @Test
    void underChaosATestThatNeedsAnotherClusterIsSkippedWithTheReason() {
        ClusterOptions options = ClusterOptions.DEFAULT.withBrokers(2);
        TestAbortedException skipped = assertThrows(
            TestAbortedException.class, () -> Launch.forTests(options, false, Map.of(Launch.CHAOS, "true")));
        assertTrue(skipped.getMessage().contains("wants a cluster of 2 brokers"), skipped.getMessage());
    }
}
