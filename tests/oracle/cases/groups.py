"""Consumer groups: 200, 352."""

from collections.abc import Iterator

from tests.oracle.step import Ask, Step


def steps() -> Iterator[Step]:
    """The steps of this family."""
    yield Ask("config of an unknown group", 352, {"group": "{run}created-by-asking"})
    yield Ask("config of a bad group", 352, {"group": "{run}a$b"})
    yield Ask("config of no group", 352, {})
    yield Ask("config of a system group", 352, {"group": "TOOLS_CONSUMER"})
    yield Ask("create a group", 200, {}, {"groupName": "{run}made", "retryMaxTimes": 3, "consumeEnable": False})
    yield Ask("config of a group", 352, {"group": "{run}made"})
    yield Ask("create a group of a bad name", 200, {}, {"groupName": "{run}a$b"})
    yield Ask("config of a group of a bad name", 352, {"group": "{run}a$b"})
    yield Ask("create a group without name", 200, {}, {"retryMaxTimes": 3})
    yield Ask("create a group from nothing", 200, {})
    yield Ask("create a group from garbage", 200, {}, b"garbage")
    yield Ask("create a group from a list", 200, {}, b"[]")
    yield Ask(
        "create a group of text numbers",
        200,
        {},
        {"groupName": "{run}texts", "retryMaxTimes": "5", "consumeEnable": "false"},
    )
    yield Ask("config of a group of text numbers", 352, {"group": "{run}texts"})
    yield Ask(
        "create a group with a policy",
        200,
        {},
        {
            "groupName": "{run}policy",
            "groupRetryPolicy": {
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 1000, "max": 5000, "multiplier": 2},
            },
        },
    )
    yield Ask("config of a group with a policy", 352, {"group": "{run}policy"})
    subscriptions = [{"group": "{run}subs", "topic": "{run}orders"}]
    yield Ask(
        "create a group with subscriptions",
        200,
        {},
        {"groupName": "{run}subs", "subscriptionDataSet": subscriptions, "attributes": {}},
    )
    yield Ask("config of a group with subscriptions", 352, {"group": "{run}subs"})
