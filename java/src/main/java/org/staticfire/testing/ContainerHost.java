package org.staticfire.testing;

/** A cluster in a container. */
final class ContainerHost implements ClusterHost {
    private final StaticfireContainer container;

    ContainerHost(StaticfireContainer container) {
        this.container = container;
    }

    @Override
    public String namesrv() {
        return container.namesrv();
    }

    @Override
    public String endpoint() {
        return container.endpoint();
    }

    @Override
    public ControlClient control() {
        return container.controlClient();
    }

    @Override
    public String staticfire(String... words) {
        return container.staticfire(words);
    }

    @Override
    public void close() {
        container.stop();
    }
}
