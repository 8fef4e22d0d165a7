"""`staticfire trace`: the life of a message, from store, journal, offsets and traces, as a timeline."""

from typing import TYPE_CHECKING

import click

from staticfire.cli.family import TOPIC, FamilyCommand, check_names, json_flag
from staticfire.cli.life import life_json, life_lines
from staticfire.cli.listing import missing_ones, with_admin
from staticfire.cli.messages import printable
from staticfire.cli.options import namesrv_flag, protocol_flag
from staticfire.protocol.errors import ClientError
from staticfire.protocol.names import TRACE_TOPIC

if TYPE_CHECKING:
    from staticfire.client import Admin, MessageLife


@click.command(cls=FamilyCommand)
@namesrv_flag
@click.option(
    "--trace-topic",
    default=TRACE_TOPIC,
    show_default=True,
    metavar="TOPIC",
    type=TOPIC,
    help="The topic that traces are written to.",
)
@json_flag
@protocol_flag
@click.argument("message_id", metavar="ID|KEY")
def trace(namesrv: str, trace_topic: str, as_json: bool, protocol: str, message_id: str) -> None:
    """Show the life of a message, oldest event first: stored, delivered, sent back, due, committed, recalled, dead.

    Deliveries come from the journals of staticfire's brokers (journalEnable). When it was sent, and how long it was
    processed, comes from clients that trace: enable_trace=True of ProducerSettings and PushSettings, enableMsgTrace of
    RocketMQ's own clients.
    """

    from staticfire.client import message_lives  # Imported when needed, which keeps the start short.

    check_names((trace_topic,))

    async def ask(admin: "Admin") -> "dict[str, MessageLife]":
        for words in await missing_ones(admin, [trace_topic] if trace_topic != TRACE_TOPIC else []):
            click.echo(words, err=True)
        return await message_lives(admin, message_id, trace_topic)

    lives = with_admin(namesrv, protocol, ask, topic=trace_topic)
    for number, (found_id, life) in enumerate(lives.items()):
        if as_json:
            for event in life.events:
                click.echo(life_json(found_id, event))
            continue
        if len(lives) > 1:
            click.echo(f"{'' if number == 0 else chr(10)}{printable(found_id)}")
        for line in life_lines(life.events):
            click.echo(line)
    for note in dict.fromkeys(note for life in lives.values() for note in life.notes):
        click.echo(note, err=True)
    if not lives:
        raise ClientError(
            f"no message has the id or key {message_id}, and no client has traced one to {trace_topic}; a trace may "
            "appear up to five seconds late"
        )
