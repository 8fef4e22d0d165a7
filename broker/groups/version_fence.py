"""Check whether a subscription is outdated: older than the group's, and different. Pure. The setting is
fenceOlderSubscriptions; RocketMQ refuses the opposite case, a pull that is newer than all heartbeats.

A version is the time at which its subscription was first sent. The group has the newest version of its members. A
member with an older and different subscription is refused. It then rebalances and takes over the group's version,
without raising it. So if the subscriptions of members differ permanently, which they shouldn't, each member is refused
once, and not again and again.
"""

from functools import lru_cache

from staticfire.broker.groups.consumers import ConsumerGroup, Member
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.tags import TagExpression, TagExpressionError

EXPRESSIONS_MAX = 4_096
# Longer expressions are compared unchanged, and not cached.
EXPRESSION_CHARACTERS_MAX = 1_024
_TAG = "TAG"


def is_outdated(version: int, own: str, newest: SubscriptionData) -> bool:
    """Return whether a member that wants `own` is outdated. Version 0 means no version, which is not outdated."""
    return 0 < version < newest.sub_version and own != wanted_by(newest)


def newer_versions(group: ConsumerGroup, member: Member) -> dict[str, int]:
    """Return the group's versions of the topics in which a member is outdated."""
    return {
        topic: newest.sub_version
        for topic, own in member.subscriptions.items()
        if (newest := group.subscriptions.get(topic)) is not None
        and is_outdated(own.sub_version, wanted_by(own), newest)
    }


def wanted_by(subscription: SubscriptionData) -> str:
    """Return a subscription's expression in a form that can be compared and read."""
    return wanted(subscription.sub_string, subscription.expression_type)


def wanted(expression: str, kind: str | None) -> str:
    """Return an expression in normal form: tags sorted, each once; any other kind unchanged, after its name."""
    if kind not in (None, "", _TAG):
        return f"{kind} {expression}"
    return _sorted_tags(expression) if len(expression) <= EXPRESSION_CHARACTERS_MAX else expression


@lru_cache(EXPRESSIONS_MAX)
def _sorted_tags(expression: str) -> str:
    try:
        tags = TagExpression.parse(expression)
    except TagExpressionError:
        return expression
    return "*" if tags.all_tags else " || ".join(sorted(tags.tags))
