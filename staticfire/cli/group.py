"""`staticfire group`: one consumer group, looked at from all sides."""

import asyncio
import json
from typing import TYPE_CHECKING

import click

from staticfire.cli.messages import count_of, printable
from staticfire.cli.options import namesrv_flag, protocol_flag
from staticfire.client import Admin, ClientSettings, GroupMember, GroupView, QueueProgress
from staticfire.protocol.durations import format_moment
from staticfire.protocol.names import retry_topic

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ORDERS = {True: "in order", False: "in any order", None: "?"}


@click.command()
@namesrv_flag
@protocol_flag
@click.option("--json", "as_json", is_flag=True, help="One JSON object, and nothing else.")
@click.argument("group", metavar="NAME")
def group(namesrv: str, protocol: str, as_json: bool, group: str) -> None:
    """Show a consumer group: its members, what each of them holds, how far it has come, and what is wrong with it.

    Warned of: members that listen in different ways or subscribe to different things, a client id that is in use twice,
    members that come and go or say nothing, and queues that nobody or several have.
    """
    settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]  # one of its words: see the flag

    async def look() -> GroupView:
        async with Admin(namesrv, settings) as admin:
            return await admin.group(group)

    view = asyncio.run(look())
    if as_json:
        click.echo(json.dumps(view.as_json(), ensure_ascii=False))
        return
    from rich.console import Console

    _show(view, Console(highlight=False))


def _show(view: GroupView, console: "Console") -> None:
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


def _members_table(view: GroupView) -> "Table":
    table = _table("member", "from", "language", "listens", "wants", "queues", "cached", "ok/s", "failed/s", "RT ms")
    for member in view.members:
        _add(table, _member_cells(view.group, member))
    return table


def _member_cells(group: str, member: GroupMember) -> list[str]:
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


def _queues_table(view: GroupView) -> "Table":
    table = _table("topic", "queue", "committed", "end", "lag", "in flight", "consumed to", "member")
    for queue in view.progress:
        _add(table, _queue_cells(queue))
    return table


def _queue_cells(queue: QueueProgress) -> list[str]:
    consumed = format_moment(queue.consumed_to_ms).replace("T", " ").removesuffix("Z") if queue.consumed_to_ms else "-"
    place = f"{queue.broker_name}/{queue.queue_id}"
    numbers = [f"{number:,}" for number in (queue.committed, queue.end, queue.lag, queue.inflight)]
    return [queue.topic, place, *numbers, consumed, ", ".join(queue.owners) or "-"]


def _table(*names: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    numbers = {"queues", "cached", "ok/s", "failed/s", "RT ms", "committed", "end", "lag", "in flight"}
    for name in names:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    return table


def _add(table: "Table", cells: list[str]) -> None:
    from rich.text import Text

    table.add_row(*(Text(printable(cell)) for cell in cells))
