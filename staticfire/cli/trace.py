"""`staticfire trace`: the life of a message, as the producers and consumers that trace have written it."""

import asyncio
import json

import click
import msgspec

from staticfire.cli.options import namesrv_flag, protocol_flag
from staticfire.client import Admin, ClientSettings
from staticfire.client.trace.reading import TraceEvent, trace_of
from staticfire.protocol.durations import format_moment
from staticfire.protocol.errors import ClientError
from staticfire.protocol.names import TRACE_TOPIC

OUTCOMES = {True: "ok", False: "failed", None: "no end yet"}


@click.command()
@namesrv_flag
@click.option(
    "--trace-topic", default=TRACE_TOPIC, show_default=True, metavar="TOPIC", help="Where traces are written."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event.")
@protocol_flag
@click.argument("message_id", metavar="ID|KEY")
def trace(namesrv: str, trace_topic: str, as_json: bool, protocol: str, message_id: str) -> None:
    """Show who sent and consumed a message when, oldest first.

    Clients write that when they are told to: enable_trace=True of ProducerSettings and PushSettings, enableMsgTrace of
    RocketMQ's own clients, which is read as well.
    """

    async def ask() -> list[TraceEvent]:
        async with Admin(namesrv, ClientSettings(protocol=protocol)) as admin:  # type: ignore[arg-type]  # see the flag
            return await trace_of(admin, message_id, trace_topic)

    events = asyncio.run(ask())
    for event in events:
        click.echo(json.dumps(msgspec.structs.asdict(event)) if as_json else _line(event))
    if not events:
        raise ClientError(
            f"nobody has traced a message {message_id} to {trace_topic}: tracing is off unless a client is told to "
            "(enable_trace, enableMsgTrace), and a trace may take five seconds to be written"
        )


def _line(event: TraceEvent) -> str:
    took = "" if event.cost_ms is None else f" in {event.cost_ms} ms"
    words = f"  {event.words}" if event.words else ""
    return f"{format_moment(event.time_ms)}  {event.what:<16} {event.group:<24} {OUTCOMES[event.success]}{took}{words}"
