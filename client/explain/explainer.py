"""Explains groups, for users of a client: the command line, the control endpoint, tests."""

from collections.abc import Iterable

from staticfire.client.admin.admin import Admin
from staticfire.client.explain.explanation import Explanation, explain
from staticfire.client.explain.gathering import FactsReader


async def explain_group(admin: Admin, group: str, topic: str | None = None, brokers: Iterable[str] = ()) -> Explanation:
    """Return why a group doesn't consume, or that it does. `topic`: one that it should consume.

    `brokers`: those that the cluster has, if that is known. Nameservers forget a broker that has ended.

    It works with RocketMQ's brokers, too, which report less. Raises: NetworkError (no nameserver responds),
    BrokerAnswer.
    """
    return explain(await FactsReader(admin, group, topic, brokers).read())
