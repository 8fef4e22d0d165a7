"""`staticfire copy`: copy a topic of a real cluster, with the offsets of its groups, to a test cluster."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

from staticfire.cli.listing import without_controls
from staticfire.cli.messages import count_of
from staticfire.cli.options import Whole, namesrv_flag
from staticfire.cli.signing import environment_for_another_cluster
from staticfire.client import Admin, ClientSettings
from staticfire.client.copying.copier import SOURCE_REFUSES, CopyReport, CopyWish, copy_topic
from staticfire.protocol.durations import parse_moment
from staticfire.protocol.errors import BrokerAnswer, StaticfireError, UsageError
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_SIGNAL_BASE, EXIT_STOPPED

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
@click.option(
    "--from-access-key",
    metavar="NAME",
    envvar="STATICFIRE_FROM_ACCESS_KEY",
    show_envvar=True,
    help="The access key for the source, if it is another one than for this cluster.",
)
@click.option(
    "--from-secret-key",
    metavar="SECRET",
    envvar="STATICFIRE_FROM_SECRET_KEY",
    show_envvar=True,
    help="Its secret. Other users of this machine can read a command line, but not its environment.",
)
@click.option(
    "--from-tls/--no-from-tls", default=None, help="Whether the source speaks TLS, if it differs from this cluster."
)
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
    from_access_key: str | None,
    from_secret_key: str | None,
    from_tls: bool | None,
    namesrv: str,
) -> int:
    """Copy a topic from another cluster to this one: unchanged messages, in order, and the offsets of groups.

    The source isn't changed. If a copy was interrupted, run the command again to continue it; nothing is copied
    twice. Both clusters get the key in ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY, unless the source has its own.
    """
    key = _key(from_access_key, from_secret_key)
    tls = "" if from_tls is None else str(from_tls).lower()
    since_ms, until_ms = (None if text is None else parse_moment(text) for text in (since, until))
    wish = CopyWish(topic, groups, since_ms, until_ms, limit)
    so_far = CopyReport(topic)

    def admins() -> tuple[Admin, Admin]:
        with environment_for_another_cluster(source, key, tls):
            there = Admin(source, ClientSettings(protocol=protocol))  # type: ignore[arg-type]  # see the flag
        return there, Admin(namesrv)

    try:
        so_far = asyncio.run(_copy(admins, wish, so_far))
    except (KeyboardInterrupt, StaticfireError) as error:
        if so_far.copied:
            click.echo(f"copied {so_far.copied} of {so_far.total} so far: run the command again to continue", err=True)
        if isinstance(error, BrokerAnswer) and error.remark.startswith(SOURCE_REFUSES):
            fix = "its key: --from-access-key and --from-secret-key, or STATICFIRE_FROM_ACCESS_KEY and ..._SECRET_KEY"
            click.echo(without_controls(f"staticfire: {error}; {fix}"), err=True)
            return EXIT_FAILED
        if isinstance(error, StaticfireError):
            raise
        return EXIT_SIGNAL_BASE + signal.SIGINT
    click.echo(json.dumps(_as_json(so_far)) if as_json else _words(so_far))
    return EXIT_STOPPED


def _key(access_key: str | None, secret_key: str | None) -> Credentials | None:
    """Return the key for the source, if it has its own. Raises: UsageError (one part is missing)."""
    if bool(access_key) != bool(secret_key):
        raise UsageError("--from-access-key and --from-secret-key belong together: give both, or none")
    return Credentials.of(access_key or "", secret_key or "")


async def _copy(admins: Callable[[], tuple[Admin, Admin]], wish: CopyWish, so_far: CopyReport) -> CopyReport:
    with _Bar() as bar:

        def progress(report: CopyReport) -> None:
            so_far.copied, so_far.total = report.copied, report.total
            bar.show(report)

        source, target = admins()
        async with source as there, target as here:
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
