package org.staticfire.testing;

/** Where a cluster runs: as a process, in a container, or around this program. */
interface ClusterHost extends AutoCloseable {
    /** The nameservers' addresses, for RocketMQ's clients. */
    String namesrv();

    /** The address for RocketMQ 5's gRPC clients; empty if there is none. */
    String endpoint();

    ControlClient control();

    /** Run a command of staticfire there, and return what it prints. */
    String staticfire(String... words);

    @Override
    void close();
}
