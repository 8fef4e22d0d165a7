"""What a failed test should show of its cluster: who died, which groups are behind, and what is wrong with them."""

from collections.abc import Iterable, Sequence

from staticfire.client import Admin, GroupNotFound, GroupView
from staticfire.protocol.names import group_of_topic, is_retry_topic, is_system_topic, retry_topic

GROUPS_MAX = 20


async def describe(admin: Admin, groups: Sequence[str] | None, deaths: Iterable[str] = ()) -> str:
    """Return how groups, or all that have members or had any, stand to what was sent: some lines each.

    `deaths`: processes that ended unasked, in words. Raises: BrokerAnswer, NetworkError.
    """
    lines = list(deaths)
    if groups is None:
        topics = await admin.topics()
        groups = [group_of_topic(topic) or "" for topic in topics if is_retry_topic(topic)]
        known = await admin.cluster_info()
        of_servers = {*known.cluster_addr_table, *known.broker_addr_table}
        own = [topic for topic in topics if group_of_topic(topic) is None and not is_system_topic(topic, of_servers)]
        lines.append(f"topics: {', '.join(own) or 'none'}")
        lines += [] if groups else ["no group has consumed anything"]
    for group in groups[:GROUPS_MAX]:
        lines += await _group_lines(admin, group)
    if len(groups) > GROUPS_MAX:
        lines.append(f"and {len(groups) - GROUPS_MAX} more groups")
    return "\n".join(lines)


async def _group_lines(admin: Admin, group: str) -> list[str]:
    try:
        view = await admin.group(group)
    except GroupNotFound:
        return [f"{group}: no broker knows this group: no consumer has ever connected under that name"]
    return [_headline(view), *(f"  ! {warning.words}" for warning in view.warnings), *_members(view)]


def _headline(view: GroupView) -> str:
    behind = [
        f"{queue.topic} {queue.broker_name}/{queue.queue_id}: {queue.lag}" for queue in view.progress if queue.lag > 0
    ]
    where = f" ({', '.join(behind)})" if behind else ""
    dead = f", {view.dead_letters} dead letters" if view.dead_letters else ""
    return f"{view.group}: {len(view.members)} members, {view.lag} messages behind{where}{dead}"


def _members(view: GroupView) -> Iterable[str]:
    for member in view.members:
        wants = ", ".join(
            f"{topic} [{expression}]"
            for topic, expression in member.subscriptions.items()
            if topic != retry_topic(view.group)
        )
        yield f"  {member.client_id} ({member.language}): wants {wants or 'nothing'}, has {len(member.queues)} queues"
