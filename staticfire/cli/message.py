"""`staticfire message`: the messages with an id or a key: their places, properties, consuming groups, and life."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from staticfire.cli.family import TOPIC, FamilyCommand, json_flag
from staticfire.cli.life import event_json, life_lines
from staticfire.cli.listing import with_admin
from staticfire.cli.messages import body_text, count_of, json_line, printable, queue_text, stored_text
from staticfire.cli.options import Whole, namesrv_flag, protocol_flag
from staticfire.message_fields import message_fields, standing_fields
from staticfire.protocol.errors import ClientError

if TYPE_CHECKING:
    from staticfire.client import Admin, FoundMessages, GroupConsumption, MessageLife, ReceivedMessage

    Found = list[tuple[ReceivedMessage, list[GroupConsumption]]]
    Lives = dict[str, MessageLife]


@click.command(cls=FamilyCommand)
@namesrv_flag
@click.option(
    "--topic",
    metavar="TOPIC",
    type=TOPIC,
    help="Only this topic. [default: all topics, including retries and dead letters]",
)
@click.option(
    "--from",
    "begin",
    metavar="TIME",
    help="Only if stored at this time or later: 2026-11-21T13:30:00Z, or milliseconds.",
)
@click.option("--to", "end", metavar="TIME", help="Only if stored at this time or before.")
@click.option(
    "--max",
    "messages_max",
    type=Whole(1, 64),
    default=20,
    show_default=True,
    help="Maximum number of messages; the newest are shown.",
)
@json_flag
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
    """Show the messages with this offset message id, unique id or key, oldest first, and the life of each.

    Retries and dead letters have the unique id of the first message and are also shown. A group has consumed a
    message if its offset is higher. `staticfire trace` shows only the life.
    """
    from staticfire.client.admin.admin import FOREVER
    from staticfire.protocol.durations import parse_moment

    times = (0 if begin is None else parse_moment(begin), FOREVER if end is None else parse_moment(end))

    async def ask(admin: "Admin") -> "tuple[FoundMessages, Found, Lives]":
        from staticfire.client.life.gathering import LifeReader

        messages = await admin.find(text, topic, *times, messages_max)
        reader = LifeReader(admin)
        ids = dict.fromkeys(one.message_id for one in messages)
        lives = {message_id: await reader.life(message_id) for message_id in ids}
        if not messages and topic is None and begin is None and end is None:
            lives = await reader.lives(text)  # It may wait for its delay, or be a half message of a transaction.
        return (messages, [(one, await admin.consumption(one)) for one in messages], lives)

    messages, found, lives = with_admin(namesrv, protocol, ask, topic=topic)
    for one, groups in found:
        if as_json:
            click.echo(_json(one, groups, lives[one.message_id]))
        else:
            click.echo("\n".join(_lines(one, groups)))
    if as_json and not found:
        for message_id, life in lives.items():
            click.echo(json_line({"messageId": message_id, "life": [event_json(event) for event in life.events]}))
    elif not as_json:
        for message_id, life in lives.items():
            click.echo(f"life of {printable(message_id)}")
            click.echo("\n".join(f"  {line}" for line in life_lines(life.events)))
    notes = [f"the search is incomplete: {gap}" for gap in messages.gaps]
    for note in dict.fromkeys([*notes, *(note for life in lives.values() for note in life.notes)]):
        click.echo(note, err=True)
    if not messages and not lives:
        where = f"in {topic}" if topic else "in any topic"
        raise ClientError(f"no message {where} has the id or key {text}")


def _json(one: "ReceivedMessage", groups: "list[GroupConsumption]", life: "MessageLife") -> str:
    fields = {
        **message_fields(one),
        "offsetMessageId": one.offset_message_id,
        "logPosition": one.log_position,
        "groups": standing_fields(groups),
        "life": [event_json(event) for event in life.events],
    }
    return json_line(fields)


def _lines(one: "ReceivedMessage", groups: "list[GroupConsumption]") -> Iterator[str]:
    """Yield the lines about a message, in text form."""
    from staticfire.protocol.durations import format_moment

    yield printable(one.message_id)
    failed = f", failed {count_of(one.reconsume_times, 'time')}" if one.reconsume_times else ""
    yield f"  where       {one.topic} {queue_text(one)}, offset {one.queue_offset}{failed}"
    yield f"  stored      {stored_text(one)}, position {one.log_position} of the log, id {one.offset_message_id}"
    yield f"  born        {format_moment(one.born_ms).replace('T', ' ').removesuffix('Z')} at {one.born_host}"
    for name, value in sorted(one.properties.items()):
        yield f"  property    {printable(name)} = {printable(value)}"
    yield f"  body        {count_of(len(one.body), 'byte')}: {printable(body_text(one))}"
    for each in groups:
        where = "nothing committed" if each.committed is None else f"next offset {each.committed}"
        presence = "" if each.is_online else ", offline"
        yield f"  {each.state.value:<11} {each.group} ({where}{presence})"
    if not groups:
        yield "  no group consumes it: no group has an offset in its topic, or is online there"
