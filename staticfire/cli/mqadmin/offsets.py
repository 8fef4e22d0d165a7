"""`staticfire mqadmin`: change the offsets of a group."""

from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.frame import AdminSession, ask, command, known_group, lmq_flag, option, topic_flag
from staticfire.cli.mqadmin.java_text import parse_local
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import at_each, settings_at
from staticfire.cli.mqadmin.tables import offsets_text
from staticfire.cli.options import Whole
from staticfire.client import MessageQueue
from staticfire.client.cluster.routes import without_master
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.durations import parse_moment
from staticfire.protocol.errors import BrokerAnswer, ClientError, UsageError
from staticfire.protocol.requests.offsets import GetMaxOffset, SearchOffset, UpdateConsumerOffset
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.requests.statistics import GetConsumeStats

if TYPE_CHECKING:
    from staticfire.client import Admin

SKIP_MS = -1
"""As a time for an offset reset: after all messages."""

group_flag_short = option("-g", "--group", "group", required=True, metavar="GROUP", help="The consumer group.")
force_flag = option("-f", "--force", type=bool, default=True, show_default=True, help="Also move offsets forward.")


@command("resetOffsetByTime")
@group_flag_short
@topic_flag
@option(
    "-s", "--timestamp", required=True, metavar="now|MS|TIME",
    help="now (after the newest message); milliseconds since 1970; 2026-11-21T13:30:00Z; or yyyy-MM-dd#HH:mm:ss:SSS in "
        "the local time zone.",
)  # fmt: skip
@force_flag
@option("-b", "--broker", metavar="HOST:PORT", help="With -q: the broker of the queue.")
@option("-q", "--queue", "queue_id", type=Whole(0), metavar="ID", help="With -b: the number of the queue.")
@option("-o", "--offset", type=Whole(0), help="With -b and -q: the new offset of this queue, instead of a time.")
@lmq_flag
def reset_offset_by_time(
    session: AdminSession,
    group: str,
    topic: str,
    timestamp: str,
    force: bool,
    broker: str | None,
    queue_id: int | None,
    offset: int | None,
    cluster: str | None,
) -> None:
    """Reset the offsets of a group to a time.

    The group continues with messages stored at this time or later. Its members needn't be restarted.
    """
    if (broker is None) != (queue_id is None) or (offset is not None and queue_id is None):
        raise UsageError("mqadmin resetOffsetByTime: use -b HOST:PORT and -q ID together; -o OFFSET needs both")
    stored_ms = SKIP_MS if timestamp.lower() in ("now", "currenttimestamp") else _moment(timestamp)
    times = f"timestamp(string)[{timestamp}], timestamp(long)[{stored_ms}]"

    async def work(admin: "Admin") -> None:
        await known_group(admin, group)
        if broker is not None and queue_id is not None:
            place = f"group[{group}], topic[{topic}], queueId[{queue_id}], broker[{broker}]"
            show(f"start reset consumer offset by specified, {place}, {times}")
            await _move_queue(admin, (group, topic, broker, queue_id), stored_ms, offset)
            return
        forced = str(force).lower()
        show(f"start reset consumer offset by specified, group[{group}], topic[{topic}], force[{forced}], {times}")
        await _reset(admin, group, topic, stored_ms, force)

    session.run(work)


def _moment(words: str) -> int:
    local_ms = parse_local(words)
    return parse_moment(words) if local_ms is None else local_ms


async def _move_queue(admin: "Admin", place: tuple[str, str, str, int], stored_ms: int, offset: int | None) -> None:
    """Set a group's offset in one queue: to a given one, or to that of a time."""
    group, topic, address, queue_id = place
    if offset is None:
        # A search for SKIP_MS would find the oldest message: it is before all times.
        is_end = stored_ms == SKIP_MS
        search = GetMaxOffset(topic, queue_id) if is_end else SearchOffset(topic, queue_id, stored_ms)
        found = await ask(admin, address, search)
        offset = int(found.offset)  # type: ignore[attr-defined]  # an OffsetAnswer
    await _reset_queue(admin, address, ResetOffset(group, topic, SKIP_MS, False, queue_id, offset))
    show(f"reset consumer offset to {offset}")


async def _reset_queue(admin: "Admin", address: str, request: ResetOffset) -> None:
    """Set a group's offset in one queue, whether the broker has server-side resets or notifies the members.

    RocketMQ's brokers without server-side resets, and those before 5.0, ignore the queue and the offset, and move the
    group in all queues of the topic by the time. So the offset is committed before, and the request is not forced and
    has the end of each queue as its time: then members get the committed offset of each queue.
    """
    has_server_side = (await settings_at(admin, address)).get("useServerSideResetOffset") == "true"
    if not has_server_side:
        commit = UpdateConsumerOffset(request.group, request.topic, request.queue_id, request.offset)
        await ask(admin, address, commit)
    try:
        await ask(admin, address, request)
    except BrokerAnswer as error:
        if has_server_side or error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise  # Otherwise no member has to be notified: the next one begins at the committed offset.


@command("skipAccumulatedMessage")
@group_flag_short
@topic_flag
@force_flag
@lmq_flag
def skip_accumulated_message(session: AdminSession, group: str, topic: str, force: bool, cluster: str | None) -> None:
    """Skip the backlog of a group in a topic.

    The group continues with messages that arrive from now on.
    """

    async def work(admin: "Admin") -> None:
        await known_group(admin, group)
        await _reset(admin, group, topic, SKIP_MS, force)

    session.run(work)


async def _reset(admin: "Admin", group: str, topic: str, stored_ms: int, force: bool) -> None:
    """Reset the offsets at each broker that has the topic, and show the new ones."""
    moved: list[tuple[str, int, int]] = []

    async def reset(name: str) -> None:
        request = ResetOffset(group=group, topic=topic, timestamp=stored_ms, is_force=force, bname=name)
        answer = await ask(admin, masters[name], request)
        table = {} if answer.body is None else answer.body.offset_table
        moved.extend((queue.broker_name, queue.queue_id, offset) for queue, offset in table.items())

    brokers = {queues.broker_name for queues in (await admin.route(topic)).queue_datas}
    masters = {name: address for name, address in (await admin.masters()).items() if name in brokers}
    try:
        await at_each(masters, reset)
    finally:  # After a failure, this shows where the offsets were reset.
        show(offsets_text(sorted(moved)))


@command("cloneGroupOffset")
@option("-s", "--srcGroup", "source", required=True, metavar="GROUP", help="The group to copy the offsets from.")
@option("-d", "--destGroup", "target", required=True, metavar="GROUP", help="The group to copy the offsets to.")
@topic_flag
@option("-o", "--offline", metavar="true|false", help="Accepted for compatibility; has no effect, as in RocketMQ.")
def clone_group_offset(session: AdminSession, source: str, target: str, topic: str, offline: str | None) -> None:
    """Copy the offsets of one group to another.

    Copies one topic (RocketMQ's own command copies all of them, regardless of -t). Members that are online overwrite
    the new offsets.
    """

    async def work(admin: "Admin") -> None:
        await known_group(admin, source)
        copied: list[MessageQueue] = []
        brokers = {one.broker_name: one.broker_addrs for one in (await admin.route(topic)).broker_datas}

        async def copy(name: str) -> None:
            if MASTER_ID not in brokers[name]:
                raise ClientError(f"mqadmin: {without_master(name, brokers[name])}")
            answer = await ask(admin, brokers[name][MASTER_ID], GetConsumeStats(source, topic))
            for queue, state in answer.body.offset_table.items():
                if queue.topic == topic and state.consumer_offset >= 0:
                    copied.append(MessageQueue(topic, queue.broker_name, queue.queue_id))
                    await admin.offsets.commit(target, copied[-1], state.consumer_offset)

        changed = f"offsets of group {source} in topic {topic} are copied to group {target} at"
        await at_each(sorted(brokers), copy, changed)
        if not copied:
            raise ClientError(f"mqadmin: group {source} has no offsets in topic {topic}")
        show(f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]")

    session.run(work)
