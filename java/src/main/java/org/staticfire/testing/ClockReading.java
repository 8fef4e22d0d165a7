package org.staticfire.testing;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Instant;
import java.util.Optional;

/** Message time at one moment, and what an advance has delivered on its way. */
public final class ClockReading {
    private final JsonObject fields;

    ClockReading(JsonObject fields) {
        this.fields = fields;
    }

    /** Message time: what RocketMQ's delays, retries and timers follow. */
    public Instant now() {
        return Instant.ofEpochMilli(fields.get("messageMs").getAsLong());
    }

    /** {@code real}, {@code frozen}, {@code skipping} or {@code scaled}. */
    public String mode() {
        return fields.get("mode").getAsString();
    }

    /** When the next message falls due; empty if none waits. */
    public Optional<Instant> nextDue() {
        JsonElement due = fields.get("nextDueMs");
        return due.isJsonNull() ? Optional.empty() : Optional.of(Instant.ofEpochMilli(due.getAsLong()));
    }

    /** How many delayed messages the advance delivered. */
    public long delivered() {
        return fields.get("delivered").getAsLong();
    }

    /** How many transactions the advance had checked. */
    public long checked() {
        return fields.get("checked").getAsLong();
    }

    @Override
    public String toString() {
        return "message time " + now() + ", " + mode() + nextDue().map(due -> ", next due " + due).orElse("");
    }
}
