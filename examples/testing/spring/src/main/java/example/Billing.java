package example;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.springframework.stereotype.Service;

/** Bills each order. While the bank is closed, RocketMQ delivers the order again later. */
@Service
@RocketMQMessageListener(topic = "orders", consumerGroup = "billing")
public class Billing implements RocketMQListener<String> {
    private final Set<String> billed = ConcurrentHashMap.newKeySet();
    private final Set<String> refusedOnce = ConcurrentHashMap.newKeySet();

    @Override
    public void onMessage(String order) {
        if (order.startsWith("at night") && refusedOnce.add(order)) {
            throw new IllegalStateException("the bank is closed");
        }
        billed.add(order);
    }

    public boolean hasBilled(String order) {
        return billed.contains(order);
    }
}
