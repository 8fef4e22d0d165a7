"""The report of a failed test about its cluster: ended processes, groups that lag, and their problems."""

from collections.abc import Iterable, Sequence

from staticfire.client import Admin
from staticfire.client.explain.explainer import explain_group
from staticfire.protocol.names import group_of_topic, is_retry_topic, is_system_topic, reply_topic

GROUPS_MAX = 20


async def describe(admin: Admin, groups: Sequence[str] | None, deaths: Iterable[str] = ()) -> str:
    """Describe what the groups have consumed, in a few lines each. None: all groups that have or had members.

    `deaths`: one sentence for each process that ended unexpectedly. Raises: BrokerAnswer, NetworkError.
    """
    lines = list(deaths)
    if groups is None:
        topics = await admin.topics()
        groups = [group_of_topic(topic) or "" for topic in topics if is_retry_topic(topic)]
        known = await admin.cluster_info()
        clusters = known.cluster_addr_table
        of_servers = {*clusters, *map(reply_topic, clusters), *known.broker_addr_table}
        own = [topic for topic in topics if group_of_topic(topic) is None and not is_system_topic(topic, of_servers)]
        lines.append(f"topics: {', '.join(own) or 'none'}")
        lines += [] if groups else ["no group has consumed anything"]
    for group in groups[:GROUPS_MAX]:
        lines.append(str(await explain_group(admin, group)))
    if len(groups) > GROUPS_MAX:
        lines.append(f"and {len(groups) - GROUPS_MAX} more groups")
    return "\n".join(lines)
