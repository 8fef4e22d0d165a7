"""The report of a failed test about its cluster: ended processes, groups that lag, and their problems."""

from collections.abc import Collection, Iterable, Sequence

from staticfire.client import Admin
from staticfire.client.admin.listing import own_topics
from staticfire.client.explain.explainer import explain_group
from staticfire.protocol.names import is_system_group

GROUPS_MAX = 20


async def describe(
    admin: Admin,
    groups: Sequence[str] | None,
    deaths: Iterable[str] = (),
    suffix: str = "",
    brokers: Collection[str] = (),
) -> str:
    """Describe what the groups have consumed, in a few lines each. None: all groups. `brokers`: those of the cluster.

    `deaths`: one sentence for each process that ended unexpectedly. `suffix`: the end of the names that belong to the
    test, on a cluster that others use, too. Raises: BrokerAnswer, NetworkError.
    """
    lines = list(deaths)
    if groups is None:
        groups = [name for name in await admin.groups() if name.endswith(suffix) and not is_system_group(name)]
        topics = [name for name in await own_topics(admin) if name.endswith(suffix)]
        lines.append(f"topics: {', '.join(topics) or 'none'}")
        lines += [] if groups else ["no group has consumed anything"]
    for group in groups[:GROUPS_MAX]:
        lines.append(str(await explain_group(admin, group, brokers=brokers)))
    if len(groups) > GROUPS_MAX:
        lines.append(f"and {len(groups) - GROUPS_MAX} more groups")
    return "\n".join(lines)
