package org.staticfire.testing;

import com.google.gson.JsonObject;
import java.time.Duration;
import java.time.Instant;

/**
 * The description of a fault: which requests it affects, what happens to them, and how often. Without a condition it
 * affects every request. Each method adds one word of {@code staticfire fault add}; docs/faults.md explains them.
 *
 * <pre>{@code
 * FaultRule.onCode("SEND_MESSAGE").topic("orders").answer("SYSTEM_BUSY").times(2)
 * }</pre>
 */
public final class FaultRule {
    private final JsonObject words = new JsonObject();

    private FaultRule() {}

    /** A rule for every request, until a condition is added. */
    public static FaultRule onAny() {
        return new FaultRule();
    }

    /** A rule for requests by RocketMQ's name or number, such as SEND_MESSAGE; several separated by commas. */
    public static FaultRule onCode(String code) {
        return onAny().word("code", code);
    }

    /** A rule for one broker, such as broker-b, or for the nameserver. */
    public static FaultRule onBroker(String broker) {
        return onAny().word("broker", broker);
    }

    /** Add any word of {@code staticfire fault add}. */
    public FaultRule word(String name, Object value) {
        if (value instanceof Boolean) {
            words.addProperty(name, (Boolean) value);
        } else if (value instanceof Number) {
            words.addProperty(name, (Number) value);
        } else if (value instanceof Duration) {
            words.addProperty(name, MessageClock.millis((Duration) value));
        } else {
            words.addProperty(name, value.toString());
        }
        return this;
    }

    // -- which requests

    public FaultRule code(String code) {
        return word("code", code);
    }

    public FaultRule broker(String broker) {
        return word("broker", broker);
    }

    /** A client id, or one part of it between {@code @}. */
    public FaultRule client(String client) {
        return word("client", client);
    }

    public FaultRule group(String group) {
        return word("group", group);
    }

    public FaultRule topic(String topic) {
        return word("topic", topic);
    }

    public FaultRule queue(int queueId) {
        return word("queue", queueId);
    }

    /** An IP address of clients, or an address with a port. */
    public FaultRule address(String address) {
        return word("address", address);
    }

    /** What the client is written in: JAVA, GO, CPP, PYTHON ... */
    public FaultRule language(String language) {
        return word("language", language);
    }

    /** {@code request}, {@code answer}, or {@code server} for requests of brokers to clients. */
    public FaultRule direction(String direction) {
        return word("direction", direction);
    }

    // -- what happens: one of these

    public FaultRule delay(Duration delay) {
        return word("delay", delay);
    }

    /** The most by which each delay differs from {@code delay}. */
    public FaultRule jitter(Duration jitter) {
        return word("jitter", jitter);
    }

    /** Lose the {@code request}, the {@code answer}, or a request of the {@code server}. */
    public FaultRule drop(String what) {
        return word("drop", what);
    }

    /** Refuse with a response code, by name or number, such as SYSTEM_BUSY. */
    public FaultRule answer(String code) {
        return word("answer", code);
    }

    /** The remark of the response. */
    public FaultRule remark(String remark) {
        return word("remark", remark);
    }

    /** Close the connection. */
    public FaultRule close() {
        return word("close", true);
    }

    /** Change one bit of the body. */
    public FaultRule corrupt() {
        return word("corrupt", true);
    }

    /** Bytes per second, such as 10k. */
    public FaultRule bandwidth(String bytesPerSecond) {
        return word("bandwidth", bytesPerSecond);
    }

    /** Process a request twice, or send an answer twice. */
    public FaultRule duplicate() {
        return word("duplicate", true);
    }

    /** Move the client's times, such as those at which its messages were born. */
    public FaultRule skew(Duration skew) {
        return word("skew", skew);
    }

    /** Refuse messages, as a broker without write permission. */
    public FaultRule readOnly() {
        return word("read_only", true);
    }

    /** Refuse messages, as a broker with a full disk. */
    public FaultRule diskFull() {
        return word("disk_full", true);
    }

    /** Lose all requests and answers between two sides, such as {@code "broker-a/nameserver,broker-b"}. */
    public FaultRule partition(String sides) {
        return word("partition", sides);
    }

    /** Suspend the process of a broker. */
    public FaultRule freeze(Duration time) {
        return word("freeze", time);
    }

    /** Kill the process of a broker; it starts again when the rule is removed. */
    public FaultRule kill() {
        return word("kill", true);
    }

    /** Kill the process of a broker; it starts again after this time. */
    public FaultRule kill(Duration time) {
        return word("kill", time);
    }

    // -- how often

    /** How many matching requests pass first, on each server. */
    public FaultRule after(int requests) {
        return word("after", requests);
    }

    /** How many times the rule applies, on each server. */
    public FaultRule times(int times) {
        return word("times", times);
    }

    /** The probability for each request, such as 0.1. */
    public FaultRule probability(double probability) {
        return word("probability", probability);
    }

    /** Which series of random numbers decides. The same seed repeats it. */
    public FaultRule seed(int seed) {
        return word("seed", seed);
    }

    /** Remove the rule after this real time. */
    public FaultRule lifetime(Duration lifetime) {
        return word("lifetime", lifetime);
    }

    /** Keep the rule when all rules are removed, as a reset of the cluster does: only its number removes it. */
    public FaultRule stays() {
        return word("stays", true);
    }

    /** Apply the rule only from this message time on. */
    public FaultRule from(Instant messageTime) {
        return word("from", messageTime);
    }

    /** Apply the rule only until this message time. */
    public FaultRule until(Instant messageTime) {
        return word("until", messageTime);
    }

    JsonObject words() {
        return words;
    }

    @Override
    public String toString() {
        return words.toString();
    }
}
