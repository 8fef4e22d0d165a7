import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Three mistakes of the catalogue in Java, and the same programs without them.
 *
 *     mvn -q package && staticfire chaos --each 'orders -> invoices by key' -- java -jar target/shop.jar not_idempotent
 *
 * Also swallowed and status_ignored, with --weather rough. --fixed: without the mistake.
 */
public class Shop {
    static final int ORDERS = 30;
    static final Set<String> seen = ConcurrentHashMap.newKeySet();
    static String mistake;
    static boolean isFixed;

    public static void main(String[] arguments) throws Exception {
        mistake = arguments[0];
        isFixed = arguments.length > 1 && arguments[1].equals("--fixed");
        DefaultMQProducer shop = new DefaultMQProducer("shop");
        shop.setNamesrvAddr(System.getenv("NAMESRV_ADDR"));
        shop.start();
        for (int number = 0; number < ORDERS; number++) {
            Message order = named("orders", "order-" + number);
            if (mistake.equals("status_ignored") && !isFixed) {
                try {
                    shop.send(order);
                } catch (Exception ignored) {
                    // That is the mistake.
                }
            } else {
                sendSurely(shop, order);
            }
            Thread.sleep(20);
        }
        if (!mistake.equals("status_ignored")) {
            consume(shop);
        }
        shop.shutdown();
        System.exit(mistake.equals("status_ignored") || seen.size() == ORDERS ? 0 : 1);
    }

    static void consume(DefaultMQProducer shop) throws Exception {
        DefaultMQPushConsumer billing = new DefaultMQPushConsumer("billing");
        billing.setNamesrvAddr(System.getenv("NAMESRV_ADDR"));
        billing.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        billing.subscribe("orders", "*");
        billing.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            return bill(shop, messages.get(0).getKeys());
        });
        billing.start();
        long until = System.currentTimeMillis() + 60_000;
        while (seen.size() < ORDERS && System.currentTimeMillis() < until) {
            Thread.sleep(20);
        }
        Thread.sleep(300);
        billing.shutdown();
    }

    /** Make the invoice of an order. */
    static synchronized ConsumeConcurrentlyStatus bill(DefaultMQProducer shop, String key) {
        if (seen.contains(key) && (isFixed || mistake.equals("swallowed"))) {
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }
        if (mistake.equals("swallowed")) {
            try {
                shop.send(named("invoices", key));
            } catch (Exception error) {
                System.out.println(key + " has no invoice: " + error.getMessage());
                if (isFixed) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
        } else {
            sendSurely(shop, named("invoices", key));
        }
        seen.add(key);
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    static Message named(String topic, String key) {
        Message message = new Message(topic, "1 book".getBytes(StandardCharsets.UTF_8));
        message.setKeys(key);
        return message;
    }

    /** Send until a broker has confirmed it. */
    static void sendSurely(DefaultMQProducer shop, Message message) {
        while (true) {
            try {
                if (shop.send(message).getSendStatus() == SendStatus.SEND_OK) {
                    return;
                }
                Thread.sleep(100);
            } catch (Exception error) {
                System.out.println("sent again: " + error.getMessage());
            }
        }
    }
}
