package example;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.springframework.messaging.Message;

/** Decides transactions by the state of payments. Brokers check again while a payment is pending. */
@RocketMQTransactionListener
public class Payments implements RocketMQLocalTransactionListener {
    public enum State { PAID, REFUSED, PENDING }

    private final Map<String, State> states = new ConcurrentHashMap<>();

    public void set(String order, State state) {
        states.put(order, state);
    }

    @Override
    public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object order) {
        return decision((String) order);
    }

    @Override
    public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
        return decision(new String((byte[]) message.getPayload(), StandardCharsets.UTF_8));
    }

    private RocketMQLocalTransactionState decision(String order) {
        return switch (states.getOrDefault(order, State.PENDING)) {
            case PAID -> RocketMQLocalTransactionState.COMMIT;
            case REFUSED -> RocketMQLocalTransactionState.ROLLBACK;
            case PENDING -> RocketMQLocalTransactionState.UNKNOWN;
        };
    }
}
