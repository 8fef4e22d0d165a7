package org.staticfire.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
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
        void isNotBilled() throws Exception {
            clients.send("orders", Clients.BLOCKING);
            assertEquals(Clients.BLOCKING, clients.next());
            stand.faults().add(FaultRule.onCode("PULL_MESSAGE").group("nobody").delay(Duration.ofMillis(1)));
            fail("not billed");
        }
    }

    @Test
    void aFailureTellsWhyAGroupHasABacklogBeforeItsConsumerIsClosed() {
        Throwable failure = failures(run(Failing.class)).get(0);
        String printed = printed(failure);
        assertTrue(printed.contains("Suppressed: RocketMQ when the test failed:\n"), printed);
        assertTrue(printed.contains("topics: orders\n"), printed);
        assertTrue(printed.contains("\nbilling: 1 member, 1 message behind in orders\n1. "), printed);
        assertTrue(printed.contains("\nfault 1: PULL_MESSAGE"), printed);
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
        assertTrue(words.contains("still connected: [billing]") && words.contains("Scope.CLASS"), words);
    }

    @TestMethodOrder(MethodOrderer.OrderAnnotation.class)
    static class Kept {
        static Clients clients;
        @RocketMQ(topics = "orders", scope = Scope.CLASS) static RocketMQStand stand;

        @BeforeAll
        static void topicsExistBeforeTheFirstTest() {
            assertEquals(Set.of("orders"), stand.topics());
        }

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
    void consumersMayStayConnectedInAClusterOfTheirClass() {
        run(Kept.class).testEvents().assertStatistics(events -> events.succeeded(2).failed(0));
    }

    static class OtherKept {
        @RocketMQ(scope = Scope.CLASS) RocketMQStand stand;
        @RocketMQ RocketMQStand ofTests;

        @Test
        void hasAClusterOfItsOwn() {
            assertFalse(stand.namesrv().equals(ofTests.namesrv()));
            assertEquals(Set.of(), stand.topics());
        }
    }

    @Test
    void classesDoNotShareAClusterOfAClass() {
        run(Kept.class, OtherKept.class).testEvents().assertStatistics(events -> events.succeeded(3).failed(0));
    }

    @Test
    void twoTestsAtOnceOnOneClusterAreRefused() {
        SharedStand shared = new SharedStand(RocketMQStand.start());
        try {
            shared.empty("one");
            IllegalStateException refused =
                assertThrows(IllegalStateException.class, () -> shared.empty("two"));
            assertTrue(refused.getMessage().contains("@ResourceLock(RocketMQ.LOCK)"), refused.getMessage());
            shared.release("one");
            shared.empty("two");
        } finally {
            shared.stand().close();
        }
    }

    static class WithoutCluster {
        @RocketMQ(settings = "autoCreateTopicEnabled=false") RocketMQStand stand;

        @Test
        void one() {}

        @Test
        void two() {}
    }

    @Test
    void aClusterThatDoesNotStartIsTriedOnce() {
        List<Throwable> failures = failures(run(WithoutCluster.class));
        String first = failures.get(0).getMessage();
        assertTrue(failures.get(1).getMessage().endsWith("for an earlier test: " + first), failures.get(1).getMessage());
        assertSame(failures.get(0), failures.get(1).getCause());
    }

    private static EngineExecutionResults run(Class<?>... tests) {
        DiscoverySelector[] selectors = Stream.of(tests).map(DiscoverySelectors::selectClass).toArray(DiscoverySelector[]::new);
        return EngineTestKit.engine("junit-jupiter").selectors(selectors).execute();
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
