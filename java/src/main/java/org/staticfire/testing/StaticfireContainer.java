package org.staticfire.testing;

import com.github.dockerjava.api.command.InspectContainerResponse;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A RocketMQ cluster in one container: nameserver, brokers, gRPC endpoint, control endpoint, on ports that are free.
 *
 * <p>A broker has to know the port under which clients reach it, and Docker chooses that port when the container starts.
 * So the container waits for a script that is written when the port is known.
 */
public class StaticfireContainer extends GenericContainer<StaticfireContainer> {
    private static final int NAMESRV_PORT = 9876;
    private static final int GRPC_PORT = 8081;
    private static final int CONTROL_PORT = 8082;
    private static final int BROKER_PORT = 10911;
    private static final int PORTS_BETWEEN_BROKERS = 20;
    private static final int BROKERS_TRIES = 100;
    private static final String SCRIPT = "/tmp/staticfire-start.sh";
    private static final String[] WAIT_FOR_SCRIPT =
        {"sh", "-c", "until [ -f " + SCRIPT + ".ready ]; do sleep 0.02; done; exec sh " + SCRIPT};

    private final String image;
    private final String token = UUID.randomUUID().toString();
    private ClusterOptions options = ClusterOptions.DEFAULT;
    private int brokerPort = BROKER_PORT;

    /** The image that the property staticfire.image names, or staticfire:latest. */
    public StaticfireContainer() {
        this(defaultImage());
    }

    public StaticfireContainer(String image) {
        this(DockerImageName.parse(image));
    }

    public StaticfireContainer(DockerImageName image) {
        super(image);
        this.image = image.asCanonicalNameString();
        waitingFor(Wait.forLogMessage(".*ready NAMESRV_ADDR=.*", 1));
    }

    static String defaultImage() {
        String named = Property.read("staticfire.image");
        return named.isEmpty() ? "staticfire:latest" : named;
    }

    /** Brokers and settings. */
    public StaticfireContainer withOptions(ClusterOptions wanted) {
        options = wanted;
        return self();
    }

    @Override
    protected void configure() {
        addExposedPorts(NAMESRV_PORT, GRPC_PORT, CONTROL_PORT);
        if (options.brokers() == 1) {
            addExposedPorts(BROKER_PORT);
        } else {
            publishBrokersUnderTheirOwnPorts();
        }
        withCommand(WAIT_FOR_SCRIPT);
    }

    /** The broker's setting for its outer port is one for all brokers. So several have the same port inside and outside. */
    private void publishBrokersUnderTheirOwnPorts() {
        brokerPort = freePorts(options.brokers());
        for (int number = 0; number < options.brokers(); number++) {
            int port = brokerPort + number * PORTS_BETWEEN_BROKERS;
            addFixedExposedPort(port, port);
        }
    }

    @Override
    protected void containerIsStarting(InspectContainerResponse container) {
        copyFileToContainer(Transferable.of(script()), SCRIPT);
        copyFileToContainer(Transferable.of(""), SCRIPT + ".ready");
    }

    private String script() {
        List<String> words = new ArrayList<>(List.of("exec", "staticfire", "up", "--brokers", "" + options.brokers()));
        words.addAll(List.of("--broker-port", "" + brokerPort, "--control-port", "" + CONTROL_PORT));
        words.addAll(List.of("--control-address", "0.0.0.0", "--control-token", token));
        options.settings().forEach((name, value) -> words.addAll(List.of("--set", name + "=" + value)));
        String outerPort = options.brokers() == 1 ? "export STATICFIRE_EXTERNAL_PORT=" + getMappedPort(BROKER_PORT) + "\n" : "";
        String command = words.stream().map(StaticfireContainer::quoted).collect(Collectors.joining(" "));
        return "export STATICFIRE_EXTERNAL_HOST=" + hostAddress() + "\n" + outerPort + command + "\n";
    }

    private static String quoted(String word) {
        return "'" + word.replace("'", "'\\''") + "'";
    }

    /** The engine's IP address: message ids hold addresses, not names. */
    private String hostAddress() {
        try {
            return InetAddress.getByName(getHost()).getHostAddress();
        } catch (UnknownHostException error) {
            return getHost();
        }
    }

    @Override
    public void start() {
        try {
            super.start();
        } catch (RuntimeException error) {
            throw DockerProblems.explained(error, image);
        }
    }

    /** The nameserver's address, for RocketMQ's clients. */
    public String namesrv() {
        return getHost() + ":" + getMappedPort(NAMESRV_PORT);
    }

    /** The address for RocketMQ 5's gRPC clients. */
    public String endpoint() {
        return getHost() + ":" + getMappedPort(GRPC_PORT);
    }

    ControlClient controlClient() {
        return new ControlClient("http://" + getHost() + ":" + getMappedPort(CONTROL_PORT), token);
    }

    /** Clock, faults, explanations and topics of the cluster in this container. */
    public RocketMQStand stand() {
        return new RocketMQStand(new ContainerHost(this));
    }

    /** Run a command of staticfire in the container, and return what it prints. */
    public String staticfire(String... words) {
        List<String> command = new ArrayList<>(List.of("staticfire"));
        command.addAll(Arrays.asList(words));
        try {
            ExecResult result = execInContainer(command.toArray(new String[0]));
            if (result.getExitCode() != 0) {
                String output = result.getStdout() + result.getStderr();
                throw new StaticfireException(String.join(" ", command) + " failed: " + output.trim());
            }
            return result.getStdout();
        } catch (IOException error) {
            throw new StaticfireException(String.join(" ", command) + " failed: " + error, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new StaticfireException(String.join(" ", command) + " was interrupted", error);
        }
    }

    /** The first of several ports that are free on this machine, as far apart as brokers listen. */
    private static int freePorts(int count) {
        for (int tries = 0; tries < BROKERS_TRIES; tries++) {
            int first = free(0);
            boolean allFree = first > 0;
            for (int number = 1; allFree && number < count; number++) {
                allFree = free(first + number * PORTS_BETWEEN_BROKERS) > 0;
            }
            if (allFree) {
                return first;
            }
        }
        throw new StaticfireException("no ports are free for " + count + " brokers");
    }

    private static int free(int port) {
        try (ServerSocket socket = new ServerSocket(port)) {
            return socket.getLocalPort();
        } catch (IOException | IllegalArgumentException error) {
            return -1;
        }
    }
}
