"""RocketMQ's words that tools and people look for in refusals, where more than one handler says them."""

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


def no_property_filter(expression_type: str) -> str:
    """What brokers say that filter by tags alone."""
    return f"The broker does not support consumer to filter message by {expression_type}"
