package org.staticfire.testing;

/** What is reset before each test. */
public enum Reset {
    /** Topics, groups, messages, faults and the clock. Consumers of the test before must be closed. */
    EVERYTHING,

    /**
     * Faults and the clock. For consumers that stay connected from test to test, such as those of a Spring context:
     * topics and messages remain.
     */
    FAULTS_AND_CLOCK
}
