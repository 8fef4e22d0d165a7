package org.staticfire.testing;

import com.google.gson.JsonObject;
import java.time.Duration;
import java.time.Instant;

/**
 * Message time of a cluster. Delay levels, delivery times, retries, transaction checks and invisible times follow it.
 * Heartbeats and timeouts follow real time, so that no client is declared dead.
 */
public final class MessageClock {
    // An advance waits up to 30 seconds for consumers after each step, and may have many steps.
    private static final Duration ADVANCE_TIMEOUT = Duration.ofMinutes(10);

    private final ControlClient control;

    MessageClock(ControlClient control) {
        this.control = control;
    }

    public ClockReading now() {
        return new ClockReading(control.get("/clock"));
    }

    /**
     * Move message time forward. Each message that falls due on the way is delivered at its time; returns when
     * consumers are at rest. Throws a StaticfireException with the code NOT_AT_REST if they don't come to rest.
     */
    public ClockReading advance(Duration by) {
        if (by.isNegative()) {
            throw new IllegalArgumentException("message time can't go back: " + by);
        }
        return advance("by=" + millis(by));
    }

    /** Move message time forward to a time. */
    public ClockReading advanceTo(Instant time) {
        return advance("to=" + time.toEpochMilli());
    }

    /** Stop message time: nothing falls due. */
    public ClockReading freeze() {
        return mode("frozen");
    }

    /** Let message time run at its usual rate, from where it is. */
    public ClockReading run() {
        return mode("real");
    }

    /** Jump to the next due time whenever consumers are at rest. */
    public ClockReading skip() {
        return mode("skipping");
    }

    /** Let message time run {@code rate} times as fast as real time. */
    public ClockReading scale(double rate) {
        JsonObject body = new JsonObject();
        body.addProperty("mode", "scaled");
        body.addProperty("rate", rate);
        return new ClockReading(control.post("/clock", body));
    }

    private ClockReading advance(String target) {
        return new ClockReading(control.ask("POST", "/clock/advance?" + target, null, ADVANCE_TIMEOUT));
    }

    private ClockReading mode(String mode) {
        JsonObject body = new JsonObject();
        body.addProperty("mode", mode);
        return new ClockReading(control.post("/clock", body));
    }

    /** Write a duration as the control endpoint reads it. */
    static String millis(Duration duration) {
        return duration.toMillis() + "ms";
    }
}
