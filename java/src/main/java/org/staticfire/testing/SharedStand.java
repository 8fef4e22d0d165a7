package org.staticfire.testing;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.LockSupport;

/** A cluster that tests share, one test at a time: it is prepared before each. */
final class SharedStand {
    // Members that close on a thread of their own, such as those of gRPC clients, may need a moment.
    private static final long LEAVE_NANOS = 3_000_000_000L;
    private static final long LOOK_NANOS = 50_000_000L;

    private final RocketMQStand stand;
    private String test = "";

    SharedStand(RocketMQStand stand) {
        this.stand = stand;
    }

    RocketMQStand stand() {
        return stand;
    }

    /** Empty it for a test, and reserve it until {@link #release}. */
    void empty(String name) {
        reserve(name);
        refuseConnectedMembers();
        stand.reset();
    }

    /** Remove what the test before has left of faults and clock, unless a test is running. */
    void settle() {
        if (!isReserved()) {
            stand.resetFaultsAndClock();
        }
    }

    private synchronized boolean isReserved() {
        return !test.isEmpty();
    }

    private synchronized void reserve(String name) {
        if (!test.isEmpty()) {
            throw new IllegalStateException(name + " and " + test + " run at the same time on one cluster, and each of"
                + " them resets it: add @ResourceLock(RocketMQ.LOCK) to their classes, or @Execution(SAME_THREAD)");
        }
        test = name;
    }

    synchronized void release(String name) {
        if (test.equals(name)) {
            test = "";
        }
    }

    private void refuseConnectedMembers() {
        long end = System.nanoTime() + LEAVE_NANOS;
        List<String> groups = stand.groupsWithMembers();
        while (!groups.isEmpty() && System.nanoTime() < end) {
            LockSupport.parkNanos(LOOK_NANOS);
            groups = stand.groupsWithMembers();
        }
        if (!groups.isEmpty()) {
            throw new IllegalStateException("consumers from before this test are still connected: " + groups
                + ". A reset would remove their topics while they run. Close them in @AfterEach; or, if they live longer"
                + " than a test, as in a Spring context: @RocketMQ(scope = Scope.CLASS)");
        }
    }

    /** Create the topics that don't exist yet. */
    void createMissing(Set<String> topics) {
        if (topics.isEmpty()) {
            return;
        }
        Set<String> missing = new TreeSet<>(topics);
        missing.removeAll(stand.topics());
        missing.forEach(stand::createTopic);
    }
}
