"""Real RocketMQ clients, each from its registry, against a cluster: `make test-clients`."""
