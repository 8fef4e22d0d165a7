"""`staticfire mqadmin`: what groups have consumed, and the rates of topics and groups."""

from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.frame import AdminSession, ask, command, known_group, lmq_flag, option
from staticfire.cli.mqadmin.java_text import lines_of
from staticfire.cli.mqadmin.members import connections_of, running_info_of
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.tables import progress_text
from staticfire.cli.mqadmin.versions import version_text
from staticfire.client.admin.replica_choice import reader_of
from staticfire.protocol.errors import BrokerAnswer, ClientError, NetworkError, UsageError
from staticfire.protocol.names import group_of_topic, is_retry_topic
from staticfire.protocol.requests.connections import ConsumerConnections, QueryGroupsOfTopic
from staticfire.protocol.requests.statistics import ConsumeStats, GetConsumeStats, StatsSpans, ViewStats

if TYPE_CHECKING:
    from staticfire.client import Admin

GROUPS = "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s"
GROUP_HEADINGS = ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
STATS = "%-64s  %-64s %12s %11s %11s %14s %14s"
STATS_HEADINGS = ("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")


@command("consumerProgress")
@option(
    "-g",
    "--groupName",
    "group",
    metavar="GROUP",
    help="Show the queues of this group. [default: a summary of all groups]",
)
@option("-t", "--topicName", "topic", metavar="TOPIC", help="With -g: only this topic.")
@option(
    "-s",
    "--showClientIP",
    "with_client",
    type=bool,
    default=False,
    show_default=True,
    help="Also show the owner of each queue.",
)
@lmq_flag
def consumer_progress(
    session: AdminSession, group: str | None, topic: str | None, with_client: bool, cluster: str | None
) -> None:
    """Show the offsets and lag of a group, or of all groups."""
    if group is None and topic is not None:
        raise UsageError("mqadmin consumerProgress: -t TOPIC needs -g GROUP")

    async def work(admin: "Admin") -> None:
        if group is None:
            rows = [await _group_row(admin, name) for name in await _groups(admin)]
            show(lines_of(GROUPS, GROUP_HEADINGS, *rows))
            return
        found = await _progress(admin, group, topic, is_shown=True)
        if not any(stats.offset_table for stats in found):
            await known_group(admin, group)
        show(progress_text(found, await _clients(admin, group) if with_client else None))

    session.run(work)


async def _progress(admin: "Admin", group: str, topic: str | None, is_shown: bool = False) -> list[ConsumeStats]:
    """Return a group's progress on each broker. `is_shown`: print the error of a broker that refuses."""
    found: list[ConsumeStats] = []
    for address in (await admin.readers()).values():
        try:
            found.append((await ask(admin, address, GetConsumeStats(group, topic))).body)
        except BrokerAnswer as refused:
            if is_shown:
                show(f"staticfire mqadmin: {refused}", err=True)
    return found


async def _clients(admin: "Admin", group: str) -> dict[tuple[str, str, int], str]:
    """Return for each queue the address in the id of the client that has it."""
    found = {}
    for member in (await connections_of(admin, group)).connection_set:
        info = await running_info_of(admin, group, member.client_id)
        for queue in info.mq_table:
            found[queue.topic, queue.broker_name, queue.queue_id] = member.client_id.split("@")[0]
    return found


async def _groups(admin: "Admin") -> list[str]:
    """Return the groups that have a retry topic, since RocketMQ lists those."""
    return sorted(group_of_topic(name) or "" for name in await admin.topics() if is_retry_topic(name))


async def _group_row(admin: "Admin", group: str) -> tuple[object, ...]:
    stats = await _progress(admin, group, None)
    diff = sum(one.broker_offset - one.consumer_offset for each in stats for one in each.offset_table.values())
    speed = int(sum(each.consume_tps for each in stats))
    try:
        members = await connections_of(admin, group)
    except (BrokerAnswer, ClientError, NetworkError):
        members = ConsumerConnections()
    if not members.connection_set:
        return group, 0, "OFFLINE", "", "", speed, diff
    kind = "PULL" if members.consume_type == "CONSUME_ACTIVELY" else "PUSH"
    model = members.message_model if kind == "PUSH" else ""
    version = version_text(min(one.version for one in members.connection_set))
    return group, len(members.connection_set), version, kind, model, speed, diff


# -- rates -------------------------------------------------------------------------------------------------------------


@command("statsAll")
@option("-a", "--activeTopic", "active", is_flag=True, help="Only topics that were used today.")
@option("-t", "--topic", metavar="TOPIC", help="Only this topic.")
def stats_all(session: AdminSession, active: bool, topic: str | None) -> None:
    """Show how many messages topics receive and groups consume."""

    async def work(admin: "Admin") -> None:
        names = [name for name in await admin.topics() if group_of_topic(name) is None]
        if topic is not None and topic not in names:
            await admin.route(topic)
        show(lines_of(STATS, STATS_HEADINGS))
        for name in names:
            if topic in (None, name):
                for row in await _stats_rows(admin, name, active):
                    show(lines_of(STATS, row))

    session.run(work)


async def _stats_rows(admin: "Admin", topic: str, active: bool) -> list[tuple[object, ...]]:
    addresses = [reader_of(one.broker_addrs) for one in (await admin.route(topic)).broker_datas]
    answer = await ask(admin, addresses[0], QueryGroupsOfTopic(topic))
    groups = answer.body.group_list if answer.body is not None else []
    came, came_today = await _counted(admin, addresses, "TOPIC_PUT_NUMS", topic)
    if not groups:
        row = (topic, "", 0, f"{came:.2f}", "", came_today, "NO_CONSUMER")
        return [row] if came_today or not active else []
    rows: list[tuple[object, ...]] = []
    for group in groups:
        went, went_today = await _counted(admin, addresses, "GROUP_GET_NUMS", f"{topic}@{group}")
        stats = await _progress(admin, group, topic)
        behind = sum(one.broker_offset - one.consumer_offset for each in stats for one in each.offset_table.values())
        if came_today or went_today or not active:
            rows.append((topic, group, max(0, behind), f"{came:.2f}", f"{went:.2f}", came_today, went_today))
    return rows


async def _counted(admin: "Admin", addresses: list[str], name: str, key: str) -> tuple[float, int]:
    """Return the messages per second of the last minute, and the messages of today, for all brokers together."""
    speed, today = 0.0, 0
    for address in addresses:
        try:
            spans: StatsSpans = (await ask(admin, address, ViewStats(name, key))).body
        except BrokerAnswer:
            continue  # This broker has counted nothing yet.
        speed += spans.stats_minute.tps
        today += spans.stats_day.sum or spans.stats_hour.sum or spans.stats_minute.sum
    return speed, today
