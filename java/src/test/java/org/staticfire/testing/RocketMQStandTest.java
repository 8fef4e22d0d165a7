package org.staticfire.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Clock, faults and explanations, with RocketMQ's Java client. */
class RocketMQStandTest {
    @RocketMQ(topics = "orders") RocketMQStand stand;

    @Test
    void aDelayedMessageIsConsumedWhenTheClockIsMoved() throws Exception {
        stand.clock().freeze();
        try (Clients clients = new Clients(stand).consume(stand, "orders", "billing")) {
            clients.send("orders", "now");
            assertEquals("now", clients.next());
            clients.sendLater("orders", "tomorrow", Duration.ofDays(1).toMillis());
            assertEquals(0, stand.clock().advance(Duration.ofHours(23)).delivered());
            assertFalse(clients.hasConsumedMore());
            ClockReading reading = stand.clock().advance(Duration.ofHours(1));
            assertEquals(1, reading.delivered());
            assertEquals("tomorrow", clients.next());
        }
    }

    @Test
    void aMessageThatFailsIsRetriedWhenTheClockSkips() throws Exception {
        Instant before = stand.clock().skip().now();
        try (Clients clients = new Clients(stand).consume(stand, "orders", "billing")) {
            clients.send("orders", Clients.REFUSED_ONCE);
            assertEquals(Clients.REFUSED_ONCE, clients.next());
            assertEquals(Clients.REFUSED_ONCE, clients.next());
        }
        Duration retryDelay = Duration.ofSeconds(10);
        assertTrue(stand.clock().now().now().isAfter(before.plus(retryDelay)));
    }

    @Test
    void theClockHasModes() {
        assertEquals("real", stand.clock().now().mode());
        assertEquals("frozen", stand.clock().freeze().mode());
        Instant frozen = stand.clock().now().now();
        Instant later = frozen.plus(Duration.ofDays(3));
        assertEquals(later, stand.clock().advanceTo(later).now());
        assertEquals("skipping", stand.clock().skip().mode());
        assertEquals("scaled", stand.clock().scale(60).mode());
        assertEquals("real", stand.clock().run().mode());
        assertTrue(stand.clock().now().nextDue().isEmpty());
    }

    @Test
    void messageTimeCannotGoBack() {
        assertThrows(IllegalArgumentException.class, () -> stand.clock().advance(Duration.ofSeconds(-1)));
        Instant past = stand.clock().now().now().minus(Duration.ofDays(1));
        StaticfireException refused = assertThrows(StaticfireException.class, () -> stand.clock().advanceTo(past));
        assertEquals(400, refused.status());
    }

    @Test
    void aFaultIsAddedAndCountedAndRemoved() throws Exception {
        FaultRule rule = FaultRule.onCode("SEND_MESSAGE").topic("orders").answer("SYSTEM_BUSY").times(2);
        try (Clients clients = new Clients(stand); Faults.Fault busy = stand.faults().add(rule)) {
            clients.send("orders", "12.50"); // The client's third try is stored.
            assertEquals(2, busy.hits());
            assertEquals(1, stand.faults().all().size());
        }
        assertEquals(List.of(), stand.faults().all());
    }

    @Test
    void aFaultCanBeGivenInWords() {
        Faults.Fault slow = stand.faults().add(Map.of("code", "PULL_MESSAGE", "delay", Duration.ofMillis(200), "times", 3));
        assertTrue(slow.toString().contains("PULL_MESSAGE"), slow.toString());
        stand.faults().add(FaultRule.onBroker("broker-a").diskFull());
        stand.faults().clear();
        slow.remove(); // It no longer exists, and that is no error.
        assertEquals(0, slow.hits());
        assertEquals(List.of(), stand.faults().all());
    }

    @Test
    void aWrongFaultIsRefusedWithTheWordsOfTheEndpoint() {
        FaultRule wrong = FaultRule.onCode("SEND_MESAGE").answer("SYSTEM_BUSY");
        StaticfireException refused = assertThrows(StaticfireException.class, () -> stand.faults().add(wrong));
        assertEquals(400, refused.status());
        assertTrue(refused.getMessage().contains("did you mean SEND_MESSAGE?"), refused.getMessage());
    }

    @Test
    void aGroupIsExplained() throws Exception {
        try (Clients clients = new Clients(stand).consume(stand, "orders", "billing")) {
            clients.send("orders", "12.50");
            assertEquals("12.50", clients.next());
        }
        try (Clients clients = new Clients(stand)) {
            clients.send("orders", "13.00");
        }
        Explanation explanation = stand.explain("billing");
        assertTrue(explanation.has("NO_MEMBER"), explanation.toString());
        assertFalse(explanation.has("UNKNOWN_GROUP"));
        assertTrue(explanation.headline().startsWith("billing: "), explanation.headline());
        Explanation.Finding cause = explanation.findings().get(0);
        assertTrue(cause.isCause());
        String lines = explanation.toString();
        assertTrue(lines.contains("\n1. " + cause.words()) && lines.contains("\n   > " + cause.fix()), lines);
        assertEquals(List.of("billing"), stand.groupsWithBacklog());
    }

    @Test
    void topicsAreCreatedWithQueues() {
        stand.createTopic("refunds", 2);
        assertEquals(Set.of("orders", "refunds"), stand.topics());
    }

    @Test
    void aResetRemovesAllThatATestHasMade() throws Exception {
        try (Clients clients = new Clients(stand)) {
            clients.send("orders", "12.50");
        }
        stand.faults().add(FaultRule.onAny().delay(Duration.ofMillis(1)));
        stand.clock().freeze();
        stand.reset();
        assertEquals(Set.of(), stand.topics());
        assertEquals(List.of(), stand.faults().all());
        assertEquals("real", stand.clock().now().mode());
    }

    @Test
    void theAddressesAreDifferentOnes() {
        assertTrue(stand.namesrv().matches("[^:]+:\\d+"), stand.namesrv());
        assertTrue(stand.endpoint().matches("[^:]+:\\d+"), stand.endpoint());
        assertTrue(stand.control().matches("http://[^:]+:\\d+"), stand.control());
    }
}
