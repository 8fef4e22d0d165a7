package org.staticfire.testing;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A cluster that the installed {@code staticfire} command runs, on ports that are free.
 *
 * <p>{@code staticfire run} stops the cluster when its command ends, and that command ends when its standard input does:
 * when this program closes it or ends, even if it is killed. So no cluster outlives its tests.
 */
final class CommandCluster implements ClusterHost {
    private static final String MARK = "STATICFIRE_READY";
    private static final String SCRIPT =
        "echo \"" + MARK + "|$NAMESRV_ADDR|$ROCKETMQ_ENDPOINT|$STATICFIRE_CONTROL|$STATICFIRE_CONTROL_TOKEN"
        + "|$STATICFIRE_TLS_ENABLE\"; cat > /dev/null";
    private static final int START_TIMEOUT_S = 60;
    private static final int STOP_TIMEOUT_S = 15;
    private static final int LINES_MAX = 40;

    private final String program;
    private final Process process;
    private final Deque<String> lastLines = new ArrayDeque<>();
    private final String[] addresses;
    private final ControlClient control;
    private final Map<String, String> tls = new TreeMap<>();

    CommandCluster(String program, ClusterOptions options) {
        this.program = program;
        List<String> words = new ArrayList<>(List.of(program, "run", "--brokers", "" + options.brokers()));
        options.settings().forEach((name, value) -> words.addAll(List.of("--set", name + "=" + value)));
        words.addAll(List.of("--", "sh", "-c", SCRIPT));
        process = started(new ProcessBuilder(words).redirectErrorStream(true));
        addresses = awaitReady().split("\\|", -1);
        String trusted = TrustedCa.path(options.settings(), System.getenv());
        control = new ControlClient(addresses[3], addresses[4], trusted);
        if (!addresses[5].isEmpty()) {
            tls.put("STATICFIRE_TLS_ENABLE", addresses[5]);
            tls.put(TrustedCa.VARIABLE, trusted);
        }
    }

    /** The program that the property staticfire.command names, or the first {@code staticfire} of the PATH. */
    static Optional<String> find() {
        String named = Property.read("staticfire.command");
        if (!named.isEmpty()) {
            return Optional.of(named);
        }
        String path = Optional.ofNullable(System.getenv("PATH")).orElse("");
        return Arrays.stream(path.split(File.pathSeparator))
            .map(folder -> new File(folder, "staticfire"))
            .filter(file -> file.isFile() && file.canExecute())
            .map(File::getPath)
            .findFirst();
    }

    private static Process started(ProcessBuilder builder) {
        try {
            return builder.start();
        } catch (IOException error) {
            throw new StaticfireException("the command " + builder.command().get(0) + " can't be started: "
                + error.getMessage() + "; install staticfire, or set staticfire.command to its path", error);
        }
    }

    private String awaitReady() {
        CompletableFuture<String> ready = new CompletableFuture<>();
        Thread reader = new Thread(() -> readLines(ready), "staticfire-output");
        reader.setDaemon(true);
        reader.start();
        try {
            return ready.get(START_TIMEOUT_S, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            close();
            throw new StaticfireException("the cluster isn't ready after " + START_TIMEOUT_S + " s:\n" + output(), error);
        } catch (ExecutionException error) {
            throw new StaticfireException(program + " run didn't start the cluster:\n" + output(), error);
        } catch (InterruptedException error) {
            close();
            Thread.currentThread().interrupt();
            throw new StaticfireException("the start of the cluster was interrupted", error);
        }
    }

    /** Read until the process ends, so that it never waits for a reader. */
    private void readLines(CompletableFuture<String> ready) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith(MARK)) {
                    ready.complete(line);
                } else {
                    remember(line);
                }
            }
            ready.completeExceptionally(new IOException("its output ended"));
        } catch (IOException error) {
            ready.completeExceptionally(error);
        }
    }

    private void remember(String line) {
        synchronized (lastLines) {
            lastLines.addLast(line);
            if (lastLines.size() > LINES_MAX) {
                lastLines.removeFirst();
            }
        }
    }

    private String output() {
        synchronized (lastLines) {
            return String.join("\n", lastLines);
        }
    }

    @Override
    public String namesrv() {
        return addresses[1];
    }

    @Override
    public String endpoint() {
        return addresses[2];
    }

    @Override
    public ControlClient control() {
        return control;
    }

    @Override
    public String staticfire(String... words) {
        return run(program, namesrv(), tls, words);
    }

    /** Run a command of staticfire on this machine, with these variables in its environment. */
    static String run(String program, String namesrv, Map<String, String> variables, String... words) {
        List<String> command = new ArrayList<>(List.of(program));
        command.addAll(Arrays.asList(words));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().putAll(variables);
        builder.environment().put("NAMESRV_ADDR", namesrv);
        Process process = started(builder);
        try {
            process.getOutputStream().close();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (process.waitFor() != 0) {
                throw new StaticfireException(String.join(" ", command) + " failed: " + output.trim());
            }
            return output;
        } catch (IOException error) {
            throw new StaticfireException(String.join(" ", command) + " failed: " + error, error);
        } catch (InterruptedException error) {
            process.destroy();
            Thread.currentThread().interrupt();
            throw new StaticfireException(String.join(" ", command) + " was interrupted", error);
        }
    }

    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (process.waitFor(STOP_TIMEOUT_S, TimeUnit.SECONDS)) {
                return;
            }
        } catch (IOException error) {
            // It has ended.
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        process.destroy();
    }
}
