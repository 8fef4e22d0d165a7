package org.staticfire.testing;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Why a group consumes nothing, the most likely cause first. {@code toString()} is what {@code staticfire explain} prints. */
public final class Explanation {
    private final String headline;
    private final List<Finding> findings;

    Explanation(JsonObject fields) {
        List<Finding> found = new ArrayList<>();
        for (JsonElement one : fields.getAsJsonArray("findings")) {
            found.add(new Finding(one.getAsJsonObject()));
        }
        headline = fields.get("headline").getAsString();
        findings = Collections.unmodifiableList(found);
    }

    /** The state of the group in one line. */
    public String headline() {
        return headline;
    }

    /** Causes first, then notes. */
    public List<Finding> findings() {
        return findings;
    }

    /** Whether there is a cause of this kind, or a note, such as NO_MEMBER. */
    public boolean has(String kind) {
        return findings.stream().anyMatch(one -> one.kind().equals(kind));
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(headline);
        int number = 1;
        for (Finding one : findings) {
            text.append('\n').append(number++).append(one.isCause() ? ". " : ". (note) ").append(one.words());
            one.evidence().forEach(line -> text.append("\n   - ").append(line));
            if (!one.fix().isEmpty()) {
                text.append("\n   > ").append(one.fix());
            }
        }
        return text.toString();
    }

    /** One cause or note. */
    public static final class Finding {
        private final JsonObject fields;

        private Finding(JsonObject fields) {
            this.fields = fields;
        }

        /** The kind, as docs/explain.md lists them. */
        public String kind() {
            return fields.get("kind").getAsString();
        }

        public String words() {
            return fields.get("words").getAsString();
        }

        public List<String> evidence() {
            List<String> lines = new ArrayList<>();
            fields.getAsJsonArray("evidence").forEach(line -> lines.add(line.getAsString()));
            return lines;
        }

        /** How to fix it; may be empty. */
        public String fix() {
            return fields.get("wayOut").getAsString();
        }

        /** Whether it is a cause, not only a note. */
        public boolean isCause() {
            return fields.get("isCause").getAsBoolean();
        }
    }
}
