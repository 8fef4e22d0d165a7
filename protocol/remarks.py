"""RocketMQ's texts in refusals that tools and users search for, if several handlers use them."""

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


def no_property_filter(expression_type: str) -> str:
    """Return the remark of a broker that filters by tags only."""
    return f"The broker does not support consumer to filter message by {expression_type}"
