"""`staticfire mqadmin`: where a group goes on."""

import click

from staticfire.cli.mqadmin_frame import group_flag_short, mqadmin, option, run, topic_flag
from staticfire.cli.mqadmin_tables import table
from staticfire.cli.options import namesrv_flag
from staticfire.client import Admin, MessageQueue
from staticfire.protocol.durations import parse_moment
from staticfire.protocol.errors import ClientError

SKIP_MS = -1
"""A time behind all messages."""


@mqadmin.command("resetOffsetByTime")
@namesrv_flag
@group_flag_short
@topic_flag
@option("-s", "--timestamp", required=True, metavar="now|MS|TIME", help="now, ms since 1970, 2026-11-21T13:30:00Z.")
@option("-f", "--force", type=bool, default=True, show_default=True, help="Forwards, too.")
def reset_offset_by_time(namesrv: str, group: str, topic: str, timestamp: str, force: bool) -> None:
    """Let a group go on with what was stored at that time or later, without a restart of its members."""
    stored_ms = SKIP_MS if timestamp.lower() in ("now", "currenttimestamp") else parse_moment(timestamp)

    async def work(admin: Admin) -> None:
        moved = await _moved(admin, group, topic, stored_ms, force)
        click.echo(
            f"start reset consumer offset by specified, group[{group}], topic[{topic}], "
            f"isForce[{str(force).lower()}], timestamp(string)[{timestamp}], timestamp(long)[{stored_ms}]"
        )
        _show(moved)

    run(namesrv, work)


@mqadmin.command("skipAccumulatedMessage")
@namesrv_flag
@group_flag_short
@topic_flag
@option("-f", "--force", type=bool, default=True, show_default=True, help="Forwards, too.")
def skip_accumulated_message(namesrv: str, group: str, topic: str, force: bool) -> None:
    """Let a group forget its backlog in a topic: it goes on with what comes from now on."""

    async def work(admin: Admin) -> None:
        _show(await _moved(admin, group, topic, SKIP_MS, force))

    run(namesrv, work)


async def _moved(admin: Admin, group: str, topic: str, stored_ms: int, force: bool) -> dict[MessageQueue, int]:
    """Move a group; return where to. Raises: ClientError (no such group), TopicNotFound, BrokerAnswer."""
    if not await admin.has_group(group):
        raise ClientError(f"mqadmin: no broker knows group {group}: `staticfire groups` lists those there are")
    return await admin.reset_offset_by_time(group, topic, stored_ms, force)


def _show(moved: dict[MessageQueue, int]) -> None:
    rows = [["#brokerName", "#queueId", "#offset"]]
    rows += [[queue.broker_name, str(queue.queue_id), str(offset)] for queue, offset in sorted(moved.items())]
    click.echo(table(rows))
