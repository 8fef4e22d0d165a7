"""`staticfire copy`: copy a topic of a real cluster, with the offsets of its groups, to a test cluster."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

from staticfire.cli.messages import count_of
from staticfire.cli.options import Whole, namesrv_flag
from staticfire.client import Admin, ClientSettings
from staticfire.client.copying.copier import CopyReport, CopyWish, copy_topic
from staticfire.protocol.durations import parse_moment
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.exit_codes import EXIT_SIGNAL_BASE, EXIT_STOPPED

MOMENT = "like 2026-11-21T13:30:00Z (or ms since 1970)"


@click.command()
@click.option(
    "--from",
    "source",
    required=True,
    metavar="HOST:PORT",
    help="The nameserver to copy from. Nothing is changed there.",
)
@click.option("--topic", "-t", required=True, metavar="TOPIC")
@click.option(
    "--group",
    "-g",
    "groups",
    multiple=True,
    metavar="GROUP",
    help="Also copy the offsets of this group; may be repeated.",
)
@click.option(
    "--protocol",
    type=click.Choice(["rocketmq", "staticfire"]),
    default="rocketmq",
    show_default=True,
    help="The protocol of the source. rocketmq works for both kinds of clusters.",
)
@click.option("--since", metavar="TIME", help=f"Only messages that were stored there at this time or later, {MOMENT}.")
@click.option("--until", metavar="TIME", help="Only messages that were stored there before this time.")
@click.option("--limit", type=Whole(1), help="Only this number of newest messages of each queue.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@namesrv_flag
def copy(
    source: str,
    topic: str,
    groups: tuple[str, ...],
    protocol: str,
    since: str | None,
    until: str | None,
    limit: int | None,
    as_json: bool,
    namesrv: str,
) -> int:
    """Copy a topic from another cluster to this one: unchanged messages, in order, and the offsets of groups.

    The source isn't changed. If a copy was interrupted, run the command again to continue it; nothing is copied
    twice.
    """
    since_ms, until_ms = (None if text is None else parse_moment(text) for text in (since, until))
    wish = CopyWish(topic, groups, since_ms, until_ms, limit)
    so_far = CopyReport(topic)
    try:
        so_far = asyncio.run(_copy(source, protocol, namesrv, wish, so_far))
    except (KeyboardInterrupt, StaticfireError) as error:
        if so_far.copied:
            click.echo(f"copied {so_far.copied} of {so_far.total} so far: run the command again to continue", err=True)
        if isinstance(error, StaticfireError):
            raise
        return EXIT_SIGNAL_BASE + signal.SIGINT
    click.echo(json.dumps(_as_json(so_far)) if as_json else _words(so_far))
    return EXIT_STOPPED


async def _copy(source: str, protocol: str, namesrv: str, wish: CopyWish, so_far: CopyReport) -> CopyReport:
    settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]  # one of its words: see the flag
    with _Bar() as bar:

        def progress(report: CopyReport) -> None:
            so_far.copied, so_far.total = report.copied, report.total
            bar.show(report)

        async with Admin(source, settings) as there, Admin(namesrv) as here:
            return await copy_topic(there, here, wish, progress)


def _words(report: CopyReport) -> str:
    words = f"copied {count_of(report.copied, 'message')} of {report.topic}, {count_of(len(report.queues), 'queue')}"
    if report.there_already:
        words += f"; {report.there_already} existed already"
    if report.gone:
        words += f"; {report.gone} were removed from the source in the meantime"
    if report.moved_queues:
        words += "; queue ids differ: the source has more brokers than this cluster"
    for group, offsets in report.offsets.items():
        words += f"\n{group} is at {', '.join(f'{q.broker_name}/{q.queue_id}: {at}' for q, at in offsets.items())}"
    return words


def _as_json(report: CopyReport) -> dict[str, Any]:
    return {
        "topic": report.topic,
        "copied": report.copied,
        "thereAlready": report.there_already,
        "queues": [
            {"from": f"{one.broker_name}/{one.queue_id}", "to": f"{other.broker_name}/{other.queue_id}"}
            for one, other in report.queues
        ],
        "offsets": {
            group: {f"{queue.broker_name}/{queue.queue_id}": offset for queue, offset in offsets.items()}
            for group, offsets in report.offsets.items()
        },
    }


class _Bar:
    """A progress bar on a terminal; shows nothing elsewhere."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._show: Callable[[CopyReport], None] = lambda report: None

    def __enter__(self) -> "_Bar":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            console = Console(stderr=True)
            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.start()
            task = self._bar.add_task("copying", total=None)
            self._show = lambda report: self._bar.update(
                task, total=report.total, completed=report.copied + report.there_already
            )
        return self

    def show(self, report: CopyReport) -> None:
        """Update the bar."""
        self._show(report)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
