package org.staticfire.testing;

/** The state of a cluster when a test failed. It is a suppressed exception of the failure, so that all tools print it. */
public final class FailureReport extends Exception {
    private static final long serialVersionUID = 1L;

    FailureReport(String report) {
        super(report, null, false, false);
    }

    @Override
    public String toString() {
        return "RocketMQ when the test failed:\n" + getMessage();
    }
}
