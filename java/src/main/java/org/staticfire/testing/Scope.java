package org.staticfire.testing;

/** How long what tests make in a cluster remains. */
public enum Scope {
    /**
     * Each test finds an empty cluster, which it shares with the tests of other classes, one at a time. Tests close
     * their consumers in {@code @AfterEach}.
     */
    TEST,

    /**
     * The class that declares the field has a cluster of its own, and topics, messages and consumers remain from test to
     * test. Only faults and the clock are reset. For consumers that live longer than a test, as in a Spring context.
     */
    CLASS
}
