package org.staticfire.testing;

import java.util.Locale;
import java.util.Optional;

/** What a user sets for a whole test run: a system property, or the environment variable of the same name. */
final class Property {
    private Property() {}

    /** Read {@code staticfire.image} or STATICFIRE_IMAGE; empty if neither is set. */
    static String read(String name) {
        String variable = name.toUpperCase(Locale.ROOT).replace('.', '_');
        return System.getProperty(name, Optional.ofNullable(System.getenv(variable)).orElse("")).trim();
    }
}
