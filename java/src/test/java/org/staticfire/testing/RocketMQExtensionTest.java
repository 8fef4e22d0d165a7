package org.staticfire.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.testkit.engine.EngineExecutionResults;
import org.junit.platform.testkit.engine.EngineTestKit;

/** What the annotation does, with test classes that JUnit runs inside of these tests. */
class RocketMQExtensionTest {
    static class Places {
        @RocketMQ static RocketMQStand ofClass;
        @RocketMQ RocketMQStand field;
        private final RocketMQStand ofConstructor;

        Places(@RocketMQ RocketMQStand stand) {
            ofConstructor = stand;
        }

        @BeforeAll
        static void beforeAll(@RocketMQ RocketMQStand stand) {
            assertSame(ofClass, stand);
        }

        @BeforeEach
        void beforeEach(@RocketMQ(topics = "refunds") RocketMQStand stand) {
            assertSame(field, stand);
        }

        @Test
        void parameter(@RocketMQ(topics = "orders") RocketMQStand stand) {
            assertSame(ofClass, stand);
            assertSame(field, stand);
            assertSame(ofConstructor, stand);
            assertEquals(Set.of("orders", "refunds"), stand.topics());
        }

        @Nested
        class Inner {
            @Test
            void fieldOfTheOuterClass() {
                assertNotNull(field);
                assertEquals(Set.of("refunds"), field.topics());
            }
        }
    }

    @Test
    void theClusterIsInjectedWhereverItIsAnnotated() {
        run(Places.class).testEvents().assertStatistics(events -> events.succeeded(2).failed(0));
    }

    @TestMethodOrder(MethodOrderer.OrderAnnotation.class)
    static class Leftovers {
        @RocketMQ(topics = "orders") RocketMQStand stand;

        @Test
        @Order(1)
        void leaves() throws Exception {
            try (Clients clients = new Clients(stand)) {
                clients.send("orders", "12.50");
                clients.send("refunds", "12.50");
            }
            stand.faults().add(FaultRule.onBroker("broker-a").diskFull());
            stand.clock().freeze();
        }

        @Test
        @Order(2)
        void findsNothing() {
            assertEquals(Set.of("orders"), stand.topics());
            assertEquals(List.of(), stand.faults().all());
            assertEquals("real", stand.clock().now().mode());
        }
    }

    @Test
    void eachTestFindsAnEmptyCluster() {
        run(Leftovers.class).testEvents().assertStatistics(events -> events.succeeded(2).failed(0));
    }

    static class Failing {
        @RocketMQ(topics = "orders") RocketMQStand stand;
        private Clients clients;

        @BeforeEach
        void connect() throws Exception {
            clients = new Clients(stand).consume(stand, "orders", "billing");
        }

        @AfterEach
        void close() {
            clients.close();
        }

        @Test
        void expectsAnotherBody() throws Exception {
            clients.send("orders", "12.50");
            assertEquals("12.50", clients.next());
            stand.faults().add(FaultRule.onCode("PULL_MESSAGE").group("billing").drop("request"));
            clients.send("orders", "13.00");
            fail("not billed");
        }
    }

    @Test
    void aFailureTellsWhyAGroupHasABacklogBeforeItsConsumerIsClosed() {
        Throwable failure = failures(run(Failing.class)).get(0);
        String printed = printed(failure);
        assertTrue(printed.contains("Suppressed: RocketMQ when the test failed:\n"), printed);
        assertTrue(printed.contains("topics: orders\n"), printed);
        assertTrue(printed.contains("\nbilling: 1 member"), printed);
        assertTrue(printed.contains("PULL_MESSAGE"), printed);
        assertFalse(printed.contains("has no member"), printed);
    }

    @TestMethodOrder(MethodOrderer.OrderAnnotation.class)
    static class Unclosed {
        static Clients clients;
        @RocketMQ(topics = "orders") RocketMQStand stand;

        @Test
        @Order(1)
        void leavesAConsumer() throws Exception {
            clients = new Clients(stand).consume(stand, "orders", "billing");
        }

        @Test
        @Order(2)
        void isNotReset() {}
    }

    @Test
    void aConsumerThatIsStillConnectedIsNamed() {
        List<Throwable> failures = failures(run(Unclosed.class));
        Unclosed.clients.close();
        assertEquals(1, failures.size());
        String words = failures.get(0).getMessage();
        assertTrue(words.contains("still connected: [billing]") && words.contains("Reset.FAULTS_AND_CLOCK"), words);
    }

    @TestMethodOrder(MethodOrderer.OrderAnnotation.class)
    static class Kept {
        static Clients clients;
        @RocketMQ(topics = "orders", reset = Reset.FAULTS_AND_CLOCK) static RocketMQStand stand;

        @Test
        @Order(1)
        void connects() throws Exception {
            clients = new Clients(stand).consume(stand, "orders", "billing");
            stand.faults().add(FaultRule.onCode("SEND_MESSAGE").answer("SYSTEM_BUSY"));
            stand.clock().freeze();
        }

        @Test
        @Order(2)
        void consumes() throws Exception {
            clients.send("orders", "12.50");
            assertEquals("12.50", clients.next());
            assertEquals("real", stand.clock().now().mode());
            clients.close();
        }
    }

    @Test
    void consumersMayStayConnectedIfOnlyFaultsAndClockAreReset() {
        run(Kept.class).testEvents().assertStatistics(events -> events.succeeded(2).failed(0));
    }

    @Test
    void twoTestsAtOnceOnOneClusterAreRefused() {
        SharedStand shared = new SharedStand(RocketMQStand.start());
        try {
            shared.prepare("one", Reset.EVERYTHING);
            IllegalStateException refused =
                assertThrows(IllegalStateException.class, () -> shared.prepare("two", Reset.EVERYTHING));
            assertTrue(refused.getMessage().contains("@ResourceLock(RocketMQ.LOCK)"), refused.getMessage());
            shared.release("one");
            shared.prepare("two", Reset.EVERYTHING);
        } finally {
            shared.stand().close();
        }
    }

    private static EngineExecutionResults run(Class<?> tests) {
        return EngineTestKit.engine("junit-jupiter").selectors(selectClass(tests)).execute();
    }

    private static List<Throwable> failures(EngineExecutionResults results) {
        return results.testEvents().failed().stream()
            .map(event -> event.getRequiredPayload(TestExecutionResult.class).getThrowable().orElseThrow())
            .collect(Collectors.toList());
    }

    private static String printed(Throwable failure) {
        StringWriter text = new StringWriter();
        failure.printStackTrace(new PrintWriter(text, true));
        return text.toString();
    }
}
