package org.staticfire.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.exception.MQClientException;
import org.junit.jupiter.api.Test;

/** A cluster of two brokers, with a setting. */
class BrokersTest {
    private static final int MESSAGES = 8;

    @RocketMQ(brokers = 2, settings = "autoCreateTopicEnable=false", topics = "orders") RocketMQStand stand;

    @Test
    void messagesGoToBothBrokers() throws Exception {
        assertEquals(Set.of("broker-a", "broker-b"), brokersOf(MESSAGES));
    }

    @Test
    void aKilledBrokerIsBackWhenTheFaultIsRemoved() throws Exception {
        try (Faults.Fault killed = stand.faults().add(FaultRule.onBroker("broker-b").kill())) {
            assertEquals(Set.of("broker-a"), brokersOf(2 * MESSAGES));
        }
        assertEquals(Set.of("broker-a", "broker-b"), brokersOf(MESSAGES));
    }

    @Test
    void settingsApply() throws Exception {
        try (Clients clients = new Clients(stand)) {
            assertThrows(MQClientException.class, () -> clients.send("refunds", "12.50"));
        }
    }

    private Set<String> brokersOf(int messages) throws Exception {
        Set<String> brokers = new TreeSet<>();
        try (Clients clients = new Clients(stand)) {
            for (int number = 0; number < messages; number++) {
                brokers.add(clients.send("orders", "order " + number).getMessageQueue().getBrokerName());
            }
        }
        return brokers;
    }
}
