"""`staticfire message`: a message by one of its ids or keys: where it is, what it has, who has consumed it."""

import asyncio
import json
from collections.abc import Iterator

import click

from staticfire.cli.messages import body_text, count_of, message_json, printable, queue_text, stored_text
from staticfire.cli.options import Whole, namesrv_flag, protocol_flag
from staticfire.client import Admin, ClientSettings, GroupConsumption, ReceivedMessage
from staticfire.client.admin.admin import FOREVER
from staticfire.client.admin.look_ups import FoundMessages
from staticfire.protocol.durations import format_moment, parse_moment
from staticfire.protocol.errors import ClientError

Found = list[tuple[ReceivedMessage, list[GroupConsumption]]]


@click.command()
@namesrv_flag
@click.option("--topic", metavar="TOPIC", help="Only of this topic. [default: of all, retries and dead letters too]")
@click.option("--from", "begin", metavar="TIME", help="Stored then or later: 2026-11-21T13:30:00Z, or ms.")
@click.option("--to", "end", metavar="TIME", help="Stored then or before.")
@click.option("--max", "messages_max", type=Whole(1, 64), default=20, show_default=True, help="How many, the newest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message.")
@protocol_flag
@click.argument("text", metavar="ID|KEY")
def message(
    namesrv: str,
    topic: str | None,
    begin: str | None,
    end: str | None,
    messages_max: int,
    as_json: bool,
    protocol: str,
    text: str,
) -> None:
    """Show the messages that have an offset message id, a unique id or a key, oldest first.

    A retry and a dead letter have the unique id of the first message, and are shown, too. A group counts as having
    consumed a message when it is past it.
    """
    times = 0 if begin is None else parse_moment(begin), FOREVER if end is None else parse_moment(end)

    async def ask() -> tuple[FoundMessages, Found]:
        async with Admin(namesrv, ClientSettings(protocol=protocol)) as admin:  # type: ignore[arg-type]  # see the flag
            messages = await admin.find(text, topic, *times, messages_max)
            return messages, [(one, await admin.consumption(one)) for one in messages]

    messages, found = asyncio.run(ask())
    for one, groups in found:
        if as_json:
            click.echo(_json(one, groups))
        else:
            click.echo("\n".join(_lines(one, groups)))
    for gap in messages.gaps:
        click.echo(f"not all was looked through: {gap}", err=True)
    if not messages:
        where = f"in {topic}" if topic else "in any topic"
        raise ClientError(f"no message {where} has the id or key {text}")


def _json(one: ReceivedMessage, groups: list[GroupConsumption]) -> str:
    more = {
        "offsetMessageId": one.offset_message_id,
        "logPosition": one.log_position,
        "groups": [
            {"group": each.group, "state": each.state.value, "committed": each.committed, "online": each.is_online}
            for each in groups
        ],
    }
    return json.dumps({**json.loads(message_json(one)), **more}, ensure_ascii=False)


def _lines(one: ReceivedMessage, groups: list[GroupConsumption]) -> Iterator[str]:
    """Yield what there is to say of a message, for people."""
    yield one.message_id
    failed = f", failed {count_of(one.reconsume_times, 'time')}" if one.reconsume_times else ""
    yield f"  where       {one.topic} {queue_text(one)}, offset {one.queue_offset}{failed}"
    yield f"  stored      {stored_text(one)}, position {one.log_position} of the log, id {one.offset_message_id}"
    yield f"  born        {format_moment(one.born_ms).replace('T', ' ').removesuffix('Z')} at {one.born_host}"
    for name, value in sorted(one.properties.items()):
        yield f"  property    {printable(name)} = {printable(value)}"
    yield f"  body        {count_of(len(one.body), 'byte')}: {printable(body_text(one))}"
    for each in groups:
        where = "nothing committed" if each.committed is None else f"goes on at {each.committed}"
        presence = "" if each.is_online else ", offline"
        yield f"  {each.state.value:<11} {each.group} ({where}{presence})"
    if not groups:
        yield "  nobody consumes it: no group has an offset in its topic, or is online there"
