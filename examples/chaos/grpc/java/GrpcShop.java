import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Mistake, in a gRPC client: each delivery makes an invoice. With --fixed, it remembers the keys of finished orders.
 *
 *     mvn -q package
 *     staticfire chaos --topic orders --topic invoices --each 'orders -> invoices by key' -- java -jar target/grpc-shop.jar
 */
public class GrpcShop {
    static final int ORDERS = 20;
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final Set<String> begun = ConcurrentHashMap.newKeySet();
    static final Set<String> done = ConcurrentHashMap.newKeySet();

    public static void main(String[] arguments) throws Exception {
        boolean isFixed = arguments.length > 0 && arguments[0].equals("--fixed");
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(System.getenv("ROCKETMQ_ENDPOINT")).build();
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
            .setTopics("orders", "invoices").build();
        PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup("billing")
            .setSubscriptionExpressions(Map.of("orders", FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                String key = message.getKeys().iterator().next();
                if (!isFixed || begun.add(key)) {
                    sendSurely(producer, "invoices", key);
                    done.add(key);
                }
                return ConsumeResult.SUCCESS;
            }).build();
        for (int number = 0; number < ORDERS; number++) {
            sendSurely(producer, "orders", "order-" + number);
            Thread.sleep(20);
        }
        long until = System.currentTimeMillis() + 60_000;
        while (done.size() < ORDERS && System.currentTimeMillis() < until) {
            Thread.sleep(20);
        }
        Thread.sleep(500);
        System.exit(done.size() == ORDERS ? 0 : 1); // Threads of the client don't end.
    }

    /** Send the same message again until it is stored. */
    static void sendSurely(Producer producer, String topic, String key) {
        Message message = PROVIDER.newMessageBuilder().setTopic(topic).setKeys(key)
            .setBody("please pay".getBytes(StandardCharsets.UTF_8)).build();
        while (true) {
            try {
                producer.send(message);
                return;
            } catch (ClientException error) {
                System.out.println("sent again: " + error.getMessage());
            }
        }
    }
}
