package example;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

import org.staticfire.testing.RocketMQ;
import org.staticfire.testing.RocketMQStand;
import org.staticfire.testing.Scope;

@SpringBootTest
class OrderServiceTest {
    // The consumers of a Spring context live longer than a test, so topics and messages remain: each test has an order of its own.
    @RocketMQ(topics = "orders", scope = Scope.CLASS) static RocketMQStand stand;

    @DynamicPropertySource
    static void rocketmq(DynamicPropertyRegistry registry) {
        registry.add("rocketmq.name-server", stand::namesrv);
    }

    @Autowired Orders orders;
    @Autowired Payments payments;
    @Autowired Billing billing;

    @Test
    void aPaidOrderIsBilled() {
        payments.set("order-1", Payments.State.PAID);
        orders.place("order-1");
        awaitBill("order-1");
    }

    @Test
    void anOrderIsBilledWhenItsPaymentArrives() {
        orders.place("order-2");
        stand.clock().advance(Duration.ofMinutes(1)); // The broker checks the transaction: the payment is pending.
        assertThat(billing.hasBilled("order-2")).isFalse();
        payments.set("order-2", Payments.State.PAID);
        stand.clock().advance(Duration.ofMinutes(1));
        awaitBill("order-2");
    }

    @Test
    void aRefusedOrderIsNotBilled() {
        payments.set("order-3", Payments.State.REFUSED);
        orders.place("order-3");
        payments.set("order-4", Payments.State.PAID);
        orders.place("order-4");
        awaitBill("order-4");
        stand.clock().advance(Duration.ofHours(1));
        assertThat(billing.hasBilled("order-3")).isFalse();
    }

    @Test
    void anOrderAtNightIsBilledLater() {
        stand.clock().skip(); // to whatever falls due next: here the retry, after 10 s
        payments.set("at night: order-5", Payments.State.PAID);
        orders.place("at night: order-5");
        awaitBill("at night: order-5");
    }

    private void awaitBill(String order) {
        await().atMost(Duration.ofSeconds(20)).until(() -> billing.hasBilled(order));
    }
}
