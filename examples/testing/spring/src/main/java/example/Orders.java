package example;

import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.stereotype.Service;

/** Sends an order as a transaction: consumers see it when its payment is known. */
@Service
public class Orders {
    private final RocketMQTemplate rocketmq;

    Orders(RocketMQTemplate rocketmq) {
        this.rocketmq = rocketmq;
    }

    public void place(String order) {
        rocketmq.sendMessageInTransaction("orders", MessageBuilder.withPayload(order).build(), order);
    }
}
