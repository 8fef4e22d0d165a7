"""Whether a subscription is outdated: older than the group's, and for something else. Pure. The setting is
fenceOlderSubscriptions; RocketMQ refuses the opposite, a pull that is newer than all heartbeats.

A version is a time, of when its subscription was first told of; the group has the newest of its members. Whoever is
older and wants something else is refused, shares queues anew and takes over the group's version, without raising it: so
members whose subscriptions differ for good, as they shouldn't, are each refused once and not in turn.
"""

from functools import lru_cache

from staticfire.broker.groups.consumers import ConsumerGroup, Member
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.tags import TagExpression, TagExpressionError

EXPRESSIONS_MAX = 4_096
EXPRESSION_CHARACTERS_MAX = 1_024
# Longer ones are compared as they are, and not kept.
_TAG = "TAG"


def is_outdated(version: int, own: str, newest: SubscriptionData) -> bool:
    """Whether a member of that version, who wants `own`, is behind its group. 0: it has no version, and is not."""
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
    """Return what a subscription asks for, so that it can be compared and read."""
    return wanted(subscription.sub_string, subscription.expression_type)


def wanted(expression: str, kind: str | None) -> str:
    """Return an expression in one of its forms: tags sorted, each once; anything else as it is, with its kind."""
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
