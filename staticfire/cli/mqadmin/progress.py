"""`staticfire mqadmin`: what groups have consumed, and the rates of topics and groups."""

from typing import TYPE_CHECKING

from click.exceptions import Exit

from staticfire.cli.mqadmin.frame import AdminSession, command, known_group, lmq_flag, option
from staticfire.cli.mqadmin.java_text import lines_of
from staticfire.cli.mqadmin.members import connections_of, running_info_of
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import Servers, report
from staticfire.cli.mqadmin.tables import progress_text
from staticfire.cli.mqadmin.versions import version_text
from staticfire.client.admin.replica_choice import reader_of
from staticfire.protocol.errors import BrokerAnswer, ClientError, UsageError
from staticfire.protocol.names import group_of_topic, is_retry_topic
from staticfire.protocol.requests.connections import ConsumerConnections
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
            with Servers(admin) as servers:
                rows = [await _group_row(servers, name) for name in await _groups(admin)]
                show(lines_of(GROUPS, GROUP_HEADINGS, *rows))
            return
        with Servers(admin) as servers:
            found = await _progress(servers, group, topic, is_shown=True)
            if not any(stats.offset_table for stats in found):
                servers.check()
                await known_group(admin, group)
            show(progress_text(found, await _clients(servers, group) if with_client else None))

    session.run(work)


async def _progress(servers: Servers, group: str, topic: str | None, is_shown: bool = False) -> list[ConsumeStats]:
    """Return a group's progress on each broker. `is_shown`: print the error of a broker that refuses."""
    found: list[ConsumeStats] = []
    for address in (await servers.admin.readers()).values():
        try:
            answer = await servers.ask(address, GetConsumeStats(group, topic))
        except BrokerAnswer as refused:
            if is_shown:
                report(refused)
            continue
        if answer is not None:
            found.append(answer.body)
    return found


async def _clients(servers: Servers, group: str) -> dict[tuple[str, str, int], str]:
    """Return for each queue the address in the id of the client that has it."""
    found = {}
    for member in (await connections_of(servers, group)).connection_set:
        info = await running_info_of(servers, group, member.client_id)
        for queue in info.mq_table:
            found[queue.topic, queue.broker_name, queue.queue_id] = member.client_id.split("@")[0]
    return found


async def _groups(admin: "Admin") -> list[str]:
    """Return the groups that have a retry topic, since RocketMQ lists those."""
    return sorted(group_of_topic(name) or "" for name in await admin.topics() if is_retry_topic(name))


async def _group_row(servers: Servers, group: str) -> tuple[object, ...]:
    stats = await _progress(servers, group, None)
    diff = sum(one.broker_offset - one.consumer_offset for each in stats for one in each.offset_table.values())
    speed = int(sum(each.consume_tps for each in stats))
    try:
        members = await connections_of(servers, group)
    except (BrokerAnswer, ClientError, Exit):
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
        with Servers(admin) as servers:
            for name in names:
                if topic in (None, name):
                    for row in await _stats_rows(servers, name, active):
                        show(lines_of(STATS, row))

    session.run(work)


async def _stats_rows(servers: Servers, topic: str, active: bool) -> list[tuple[object, ...]]:
    addresses = [reader_of(one.broker_addrs) for one in (await servers.admin.route(topic)).broker_datas]
    groups = await servers.groups_of(topic, addresses)
    came, came_today = await _counted(servers, addresses, "TOPIC_PUT_NUMS", topic)
    if not groups:
        row = (topic, "", 0, f"{came:.2f}", "", came_today, "NO_CONSUMER")
        return [row] if came_today or not active else []
    rows: list[tuple[object, ...]] = []
    for group in groups:
        went, went_today = await _counted(servers, addresses, "GROUP_GET_NUMS", f"{topic}@{group}")
        stats = await _progress(servers, group, topic)
        behind = sum(one.broker_offset - one.consumer_offset for each in stats for one in each.offset_table.values())
        if came_today or went_today or not active:
            rows.append((topic, group, max(0, behind), f"{came:.2f}", f"{went:.2f}", came_today, went_today))
    return rows


async def _counted(servers: Servers, addresses: list[str], name: str, key: str) -> tuple[float, int]:
    """Return the messages per second of the last minute, and the messages of today, for all brokers together."""
    speed, today = 0.0, 0
    for address in addresses:
        try:
            answer = await servers.ask(address, ViewStats(name, key))
        except BrokerAnswer:
            continue  # This broker has counted nothing yet.
        if answer is None:
            continue
        spans: StatsSpans = answer.body
        speed += spans.stats_minute.tps
        today += spans.stats_day.sum or spans.stats_hour.sum or spans.stats_minute.sum
    return speed, today
