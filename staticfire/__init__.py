"""A RocketMQ cluster on the test stand."""
