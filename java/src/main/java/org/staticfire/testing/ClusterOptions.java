package org.staticfire.testing;

import java.util.Collections;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/** What a cluster consists of: brokers, and settings under RocketMQ's names. Immutable. */
public final class ClusterOptions {
    /** One broker, with default settings. */
    public static final ClusterOptions DEFAULT = new ClusterOptions(1, new TreeMap<>());

    private final int brokers;
    private final Map<String, String> settings;

    private ClusterOptions(int brokers, TreeMap<String, String> settings) {
        if (brokers < 1) {
            throw new IllegalArgumentException("brokers=" + brokers + ": a cluster needs one or more");
        }
        this.brokers = brokers;
        this.settings = Collections.unmodifiableMap(settings);
    }

    /** The same, with another number of brokers: broker-a, broker-b ... */
    public ClusterOptions withBrokers(int number) {
        return new ClusterOptions(number, new TreeMap<>(settings));
    }

    /** The same, with one more setting, such as {@code withSetting("autoCreateTopicEnable", "false")}. */
    public ClusterOptions withSetting(String name, String value) {
        TreeMap<String, String> more = new TreeMap<>(settings);
        more.put(name, value);
        return new ClusterOptions(brokers, more);
    }

    /** The same, with settings in the form of the command line: {@code "autoCreateTopicEnable=false"}. */
    ClusterOptions withSettings(String... lines) {
        ClusterOptions options = this;
        for (String line : lines) {
            int end = line.indexOf('=');
            if (end < 1) {
                throw new IllegalArgumentException("settings = \"" + line + "\": write name=value");
            }
            options = options.withSetting(line.substring(0, end).trim(), line.substring(end + 1).trim());
        }
        return options;
    }

    public int brokers() {
        return brokers;
    }

    public Map<String, String> settings() {
        return settings;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof ClusterOptions
            && brokers == ((ClusterOptions) other).brokers
            && settings.equals(((ClusterOptions) other).settings);
    }

    @Override
    public int hashCode() {
        return Objects.hash(brokers, settings);
    }

    @Override
    public String toString() {
        return brokers + (brokers == 1 ? " broker" : " brokers") + (settings.isEmpty() ? "" : " with " + settings);
    }
}
