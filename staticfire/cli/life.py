"""How `message` and `trace` show the life of a message."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticfire.cli.messages import json_line, printable

if TYPE_CHECKING:
    from staticfire.client import LifeEvent


def life_lines(events: "Sequence[LifeEvent]") -> list[str]:
    """Return a line for each event: message time, kind, group and client, place and details."""
    rows = [_cells(event) for event in events]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return [
        printable("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip())
        for row in rows
    ]


def life_json(message_id: str, event: "LifeEvent") -> str:
    """Return an event as one line of JSON."""
    return json_line({"messageId": message_id, **event_json(event)})


def event_json(event: "LifeEvent") -> dict[str, object]:
    """Return the fields of an event, with names in camel case."""
    import msgspec

    shown: dict[str, object] = msgspec.to_builtins(event)
    return shown


def _cells(event: "LifeEvent") -> list[str]:
    from staticfire.protocol.durations import format_moment

    place = f"{event.topic} {event.broker_name}/{event.queue_id} @{event.queue_offset}" if event.topic else ""
    moment = "now" if event.time_ms is None else format_moment(event.time_ms).replace("T", " ").removesuffix("Z")
    took = "" if event.cost_ms is None else f"in {event.cost_ms} ms"
    who = " ".join(part for part in (event.group, event.client) if part)
    words = ", ".join(part for part in (place, event.outcome, took, event.words) if part)
    return [moment, event.what, who or "-", words]
