package example;

import java.io.IOException;
import java.net.ServerSocket;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;

/** A RocketMQ cluster: nameserver, broker, message time. Brokers tell clients their ports, so they are the same inside. */
public class StaticfireContainer extends GenericContainer<StaticfireContainer> {
    private final int namesrv = freePort();
    private final int broker = freePort();

    public StaticfireContainer(String image) {
        super(image);
        addFixedExposedPort(namesrv, namesrv);
        addFixedExposedPort(broker, broker);
        withCommand("staticfire", "up", "--no-grpc", "--namesrv-port", "" + namesrv, "--broker-port", "" + broker);
        withEnv("NAMESRV_ADDR", "127.0.0.1:" + namesrv);
        waitingFor(Wait.forLogMessage("ready NAMESRV_ADDR=.*", 1));
    }

    public String namesrv() {
        return getHost() + ":" + namesrv;
    }

    /** Runs a command of staticfire in the container: {@code staticfire("clock", "advance", "2h")}. */
    public String staticfire(String... words) throws IOException, InterruptedException {
        String[] command = new String[words.length + 1];
        command[0] = "staticfire";
        System.arraycopy(words, 0, command, 1, words.length);
        ExecResult result = execInContainer(command);
        if (result.getStdout().isEmpty()) throw new IllegalStateException(result.getStderr());
        return result.getStdout();
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new IllegalStateException("no port is free", error);
        }
    }
}
