"""Explains groups, for whoever has a client: the command line, the control endpoint, tests."""

from staticfire.client.admin.admin import Admin
from staticfire.client.explain.explanation import Explanation, explain
from staticfire.client.explain.gathering import FactsReader


async def explain_group(admin: Admin, group: str, topic: str | None = None) -> Explanation:
    """Return why a group doesn't consume, or that it does. `topic`: one that it should consume.

    Works for RocketMQ's brokers, too, which tell less. Raises: NetworkError (no nameserver answers), BrokerAnswer.
    """
    return explain(await FactsReader(admin, group, topic).read())
