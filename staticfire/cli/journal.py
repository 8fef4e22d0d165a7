"""`staticfire journal`: recorded events of the brokers, or with --requests the requests of clients."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from staticfire.cli.family import GROUP, TOPIC, FamilyCommand, json_flag
from staticfire.cli.listing import missing_ones, with_admin
from staticfire.cli.messages import escaped_controls, printable
from staticfire.cli.options import Whole, namesrv_flag
from staticfire.cli.stand import tell
from staticfire.cli.suggestions import did_you_mean
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from staticfire.client import Admin, JournalRecord, JournalRecords


@click.command(cls=FamilyCommand)
@namesrv_flag
@click.option("--requests", "of_requests", is_flag=True, help="Show the requests of clients instead of events.")
@click.option("--code", metavar="CODE", help="With --requests: only these codes, like PULL_MESSAGE.")
@click.option("--client", metavar="ID", help="Only this client: its id, or a part of it, like the instance name.")
@click.option("--group", metavar="GROUP", type=GROUP, help="Only this group.")
@click.option("--topic", metavar="TOPIC", type=TOPIC, help="Only this topic.")
@click.option("--queue", "queue_id", type=Whole(0), metavar="ID", help="Only queues with this number.")
@click.option("--broker", metavar="NAME", help="Only this broker.")
@click.option("--max", "records_max", type=Whole(1), help="Number of newest entries to show. [default: all]")
@json_flag
@click.argument("kinds", metavar="[KIND]...", nargs=-1)
def journal(
    namesrv: str,
    of_requests: bool,
    code: str | None,
    client: str | None,
    group: str | None,
    topic: str | None,
    queue_id: int | None,
    broker: str | None,
    records_max: int | None,
    as_json: bool,
    kinds: tuple[str, ...],
) -> None:
    """Show what happened on the brokers: members that joined and left, locks, deliveries, send-backs, deaths, resets.

    KINDs are started, joined, left, subscribed, locked, unlocked, tookOver, delivered, sentBack, died, reset, forgotten
    and clockSet. [default: all] `up`, `run` and `Cluster` keep a journal. A broker that is started with `staticfire
    broker` keeps one with journalEnable=true, and records requests with recordRequests=true.
    """
    from staticfire.client.admin.journal import code_of
    from staticfire.protocol.requests.journal import KINDS

    if of_requests and kinds:
        raise UsageError(f"journal: --requests can't be combined with kinds of events like {kinds[0]}; use --code")
    if code is not None and not of_requests:
        raise UsageError("journal: --code needs --requests")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        close = did_you_mean(unknown[0], KINDS)
        raise UsageError(f"journal: unknown kind {unknown[0]!r}{close or ';'} the kinds are {', '.join(KINDS)}")

    async def ask(admin: "Admin") -> "JournalRecords":
        if of_requests:
            return await admin.requests(code_of(code) if code else None, client, group, topic, queue_id, broker)
        return await admin.journal(
            *kinds, client=client, group=group, topic=topic, queue_id=queue_id, broker_name=broker
        )

    found = with_admin(namesrv, "staticfire", lambda admin: _with_typos(admin, ask, topic, group))
    shown = found if records_max is None else found[-records_max:]
    if as_json:
        import msgspec

        for record in shown:
            click.echo(escaped_controls(msgspec.json.encode(record).decode()))
        return
    for line in lines(shown):
        click.echo(line)
    if found.dropped:
        click.echo(f"{found.dropped:,} older entries were dropped: the size of a journal is limited", err=True)


async def _with_typos(
    admin: "Admin", ask: "Callable[[Admin], Awaitable[JournalRecords]]", topic: str | None, group: str | None
) -> "JournalRecords":
    """Return the records. If there are none, report names that may be mistyped."""
    found = await ask(admin)
    if not found:
        for words in await missing_ones(admin, [topic] if topic else [], [group] if group else []):
            tell(words)
    return found


def lines(records: "Sequence[JournalRecord]") -> list[str]:
    """Return a line for each record: message time, broker, kind, client, group, place, details."""
    rows = [_cells(record) for record in records]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return [
        printable("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip())
        for row in rows
    ]


def _cells(record: "JournalRecord") -> list[str]:
    from staticfire.protocol.durations import format_moment
    from staticfire.protocol.requests.journal import REQUEST

    place = record.topic + (f"/{record.queue_id}" if record.topic and record.queue_id >= 0 else "")
    if place and record.queue_offset >= 0:
        place += f" @{record.queue_offset}"
    details = record.fields if record.kind == REQUEST else record.details
    shown = {"topic", "queueId", "queueOffset", "group", "consumerGroup", "producerGroup", "bname"}
    words = [f"{name}={value}" for name, value in details.items() if name not in shown and value not in ("", None)]
    kind = record.code if record.kind == REQUEST else record.kind
    moment = format_moment(record.message_ms).replace("T", " ").removesuffix("Z")
    return [moment, record.broker, kind, record.client or "-", record.group or "-", place or "-", " ".join(words)]
