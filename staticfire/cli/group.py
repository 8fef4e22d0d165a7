"""`staticfire group`: everything about one consumer group."""

from typing import TYPE_CHECKING

import click

from staticfire.cli.family import GROUP, FamilyCommand, json_flag, watch_flag
from staticfire.cli.listing import add_row, console, print_json, table_of, watched, with_admin
from staticfire.cli.options import namesrv_flag, protocol_flag

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from staticfire.client import GroupMember, GroupView, QueueProgress

ORDERS = {True: "in order", False: "in any order", None: "?"}


@click.command(cls=FamilyCommand)
@namesrv_flag
@protocol_flag
@json_flag
@watch_flag
@click.argument("group", metavar="NAME", type=GROUP)
def group(namesrv: str, protocol: str, as_json: bool, watch_s: float | None, group: str) -> None:
    """Show a consumer group: its members, their queues, its offsets, and its problems.

    Problems are: members with different listeners or subscriptions, a client id that is in use twice, members that
    join and leave often or don't respond, and queues with no owner or with several.
    """

    def look() -> int:
        view = with_admin(namesrv, protocol, lambda admin: admin.group(group), group=group)
        if as_json:
            print_json(view.as_json())
        else:
            _show(view, console())
        return 0

    watched(watch_s, look)


def _show(view: "GroupView", console: "Console") -> None:
    from staticfire.cli.messages import count_of, printable

    words = [count_of(len(view.members), "member"), f"lag {view.lag:,}", f"{view.consume_tps:.1f} messages/s"]
    if view.dead_letters:
        words.append(f"{view.dead_letters:,} dead letters (staticfire dlq list {view.group})")
    how = f" ({view.message_model}, {view.consume_from_where})" if view.members else ""
    console.print(f"{view.group}{how}: {', '.join(words)}", markup=False, soft_wrap=True)
    for warning in view.warnings:
        console.print(f"! {printable(warning.words)}", style="yellow", markup=False, soft_wrap=True)
    if view.members:
        console.print()
        console.print(_members_table(view))
    if view.progress:
        console.print()
        console.print(_queues_table(view))


def _members_table(view: "GroupView") -> "Table":
    names = ["member", "from", "language", "listens", "wants", "queues", "cached", "ok/s", "failed/s", "RT ms"]
    has_keys = any(member.access_key for member in view.members)
    table = _table(*names, *(["key"] if has_keys else []))
    for member in view.members:
        keys = [member.access_key or "-"] if has_keys else []
        add_row(table, [*_member_cells(view.group, member), *keys])
    return table


def _member_cells(group: str, member: "GroupMember") -> list[str]:
    from staticfire.protocol.names import retry_topic

    own_retries = retry_topic(group)
    wants = ", ".join(
        topic if expression == "*" else f"{topic} [{expression}]"
        for topic, expression in member.subscriptions.items()
        if topic != own_retries
    )
    speeds = [speed for topic, speed in member.consumption.items() if topic != own_retries]
    if member.silence or not speeds:
        rates = ["?"] * 3 if member.silence else ["-"] * 3
    else:
        ok = sum(speed.consume_ok_tps for speed in speeds)
        busiest = max(speeds, key=lambda speed: speed.consume_ok_tps)
        rates = [f"{ok:.1f}", f"{sum(speed.consume_failed_tps for speed in speeds):.1f}", f"{busiest.consume_rt:.1f}"]
    held = "?" if member.silence else str(sum(one.topic != own_retries for one in member.queues))
    cached = "?" if member.silence else str(sum(one.cached for one in member.queues))
    listens = "waits" if not member.counts else ORDERS[member.in_order]
    return [member.client_id, member.address, member.language, listens, wants or "?", held, cached, *rates]


def _queues_table(view: "GroupView") -> "Table":
    table = _table("topic", "queue", "committed", "end", "lag", "in flight", "last consumed", "member")
    for queue in view.progress:
        add_row(table, _queue_cells(queue))
    return table


def _queue_cells(queue: "QueueProgress") -> list[str]:
    from staticfire.protocol.durations import format_moment

    consumed = format_moment(queue.consumed_to_ms).replace("T", " ").removesuffix("Z") if queue.consumed_to_ms else "-"
    place = f"{queue.broker_name}/{queue.queue_id}"
    numbers = [f"{number:,}" for number in (queue.committed, queue.end, queue.lag, queue.inflight)]
    return [queue.topic, place, *numbers, consumed, ", ".join(queue.owners) or "-"]


def _table(*names: str) -> "Table":
    numbers = {"queues", "cached", "ok/s", "failed/s", "RT ms", "committed", "end", "lag", "in flight"}
    return table_of(**{name: "right" if name in numbers else "fold" for name in names})
