package org.staticfire.testing;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Faults of a running cluster: some requests, one client, one group, a broker or a process fail as a test requests. */
public final class Faults {
    private final ControlClient control;

    Faults(ControlClient control) {
        this.control = control;
    }

    /** Add a fault. It stays until it is removed, or until the test ends. */
    public Fault add(FaultRule rule) {
        return new Fault(control, control.post("/faults", rule.words()));
    }

    /** Add a fault with the words of {@code staticfire fault add}: {@code Map.of("code", "SEND_MESSAGE", ...)}. */
    public Fault add(Map<String, ?> words) {
        FaultRule rule = FaultRule.onAny();
        words.forEach(rule::word);
        return add(rule);
    }

    /** All faults that exist now. */
    public List<Fault> all() {
        List<Fault> found = new ArrayList<>();
        for (JsonElement one : control.get("/faults").getAsJsonArray("faults")) {
            found.add(new Fault(control, one.getAsJsonObject()));
        }
        return found;
    }

    /** Remove all faults. Suspended processes continue, killed ones start again. */
    public void clear() {
        control.delete("/faults");
    }

    /** One fault. {@code close()} removes it, so that it can be used in try-with-resources. */
    public static final class Fault implements AutoCloseable {
        private final ControlClient control;
        private final JsonObject fields;

        private Fault(ControlClient control, JsonObject fields) {
            this.control = control;
            this.fields = fields;
        }

        public int number() {
            return fields.get("number").getAsInt();
        }

        /** How often it has applied until now, on all servers together; 0 if it no longer exists. */
        public long hits() {
            long sum = 0;
            for (JsonElement one : control.get("/faults").getAsJsonArray("faults")) {
                JsonObject fault = one.getAsJsonObject();
                if (fault.get("number").getAsInt() == number()) {
                    for (Map.Entry<String, JsonElement> hits : fault.getAsJsonObject("hits").entrySet()) {
                        sum += hits.getValue().getAsLong();
                    }
                }
            }
            return sum;
        }

        /** Remove the fault, if it still exists. */
        public void remove() {
            try {
                control.delete("/faults/" + number());
            } catch (StaticfireException error) {
                if (error.status() != 404) {
                    throw error;
                }
            }
        }

        @Override
        public void close() {
            remove();
        }

        @Override
        public String toString() {
            return "fault " + number() + ": " + fields.get("words").getAsString();
        }
    }
}
