package org.staticfire.testing;

/** The cluster, or what starts it, refuses or can't do what a test requests. The message says how to fix it. */
public class StaticfireException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final int status;
    private final String code;

    public StaticfireException(String message) {
        this(message, 0, "", null);
    }

    public StaticfireException(String message, Throwable cause) {
        this(message, 0, "", cause);
    }

    StaticfireException(String message, int status, String code, Throwable cause) {
        super(message, cause);
        this.status = status;
        this.code = code;
    }

    /** The HTTP status of the control endpoint; 0 if it didn't respond. */
    public int status() {
        return status;
    }

    /** RocketMQ's name of the response code, such as NOT_AT_REST; empty if there is none. */
    public String code() {
        return code;
    }
}
