"""How `peek` and `consume` show messages: as JSON for programs, in short form for people."""

import json
import re
from typing import TYPE_CHECKING

from staticfire.message_fields import message_fields

if TYPE_CHECKING:
    from staticfire.client import ReceivedMessage

BODY_CHARS_MAX = 200
# JSON escapes those below 0x20. Terminals obey these, too.
_OTHER_CONTROLS = re.compile(r"[\x7f-\x9f]")


def json_line(value: object) -> str:
    """Return an object as one line of JSON, with all control characters escaped."""
    return escaped_controls(json.dumps(value, ensure_ascii=False))


def escaped_controls(text: str) -> str:
    """Return a JSON text with the control characters escaped that JSON permits as they are."""
    return _OTHER_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def message_json(message: "ReceivedMessage") -> str:
    """Return all fields of a message as one line of JSON."""
    return json_line(message_fields(message))


def queue_text(message: "ReceivedMessage") -> str:
    """Return the queue of a message, in the form that `peek --queue` accepts."""
    return f"{message.broker_name}/{message.queue_id}"


def stored_text(message: "ReceivedMessage") -> str:
    """Return when a message was stored, in UTC."""
    from staticfire.protocol.durations import format_moment

    return format_moment(message.stored_ms).replace("T", " ").removesuffix("Z")


def body_text(message: "ReceivedMessage") -> str:
    """Return the beginning of a message's body."""
    return message.body[: BODY_CHARS_MAX * 4].decode("utf-8", "backslashreplace")[:BODY_CHARS_MAX]


def printable(text: str) -> str:
    """Return a text on one line, without control characters for a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: `1 message`, `2 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
