import java.time.Duration;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Sends one message and receives it, with the keys and TLS of the environment; access.py says how it reports. */
public final class Access {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1], group = arguments[2], key = System.getenv("ROCKETMQ_ACCESS_KEY");
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        var builder = ClientConfiguration.newBuilder().setEndpoints(arguments[0])
            .enableSsl("true".equals(System.getenv("DRIVER_TLS")));
        if (key != null) {
            builder.setCredentialProvider(
                new StaticSessionCredentialsProvider(key, System.getenv("ROCKETMQ_SECRET_KEY")));
        }
        ClientConfiguration configuration = builder.build();
        try {
            Producer producer =
                provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
            producer.send(provider.newMessageBuilder().setTopic(topic).setBody("body".getBytes()).build());
            Said.say("sent", true, "");
        } catch (Exception error) {
            Said.say("sent", false, Said.words(error));
        }
        try {
            SimpleConsumer consumer = provider.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build();
            long deadline = System.nanoTime() + Duration.ofSeconds(Integer.parseInt(arguments[3])).toNanos();
            boolean received = false;
            while (!received && System.nanoTime() < deadline) {
                for (MessageView each : consumer.receive(1, Duration.ofSeconds(20))) {
                    consumer.ack(each);
                    received = true;
                }
            }
            Said.say("received", received, received ? "" : "it starts, and gets nothing");
        } catch (Exception error) {
            Said.say("received", false, Said.words(error));
        }
        Runtime.getRuntime().halt(0);
    }
}
