"""A dead letter: where it is stored, where it came from, and how often it has died. Pure.

A dead letter is never moved: sending it again creates another message, with the property `DLQ_HISTORY`. Each time that
it dies and is sent again, an entry is added at the end: group, place, time, and number of failures.

    billing broker-a/0/17 2026-11-22T11:26:07.123Z 17; billing broker-a/0/20 2026-11-23T09:00:00.000Z 17

So two messages with the same last entry are one dead letter that was sent twice.
"""

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from staticfire.protocol.durations import format_moment, parse_moment
from staticfire.protocol.errors import UsageError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, ORIGIN_MESSAGE_ID, RETRY_TOPIC

HISTORY = "DLQ_HISTORY"
# The maximum number of entries in the property; the oldest are removed.
HISTORY_DEATHS_MAX = 16
_SEPARATOR = "; "


class LetterPlace(NamedTuple):
    """Where a dead letter is stored; as text `broker-a/0/17`. It is the letter's id, and is never reused."""

    broker_name: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"{self.broker_name}/{self.queue_id}/{self.queue_offset}"

    @classmethod
    def parse(cls, text: str) -> "LetterPlace | None":
        """Return the place that a text names; None if it names none."""
        broker_name, *numbers = text.rsplit("/", 2)
        if not broker_name or len(numbers) != 2 or not all(part.isascii() and part.isdigit() for part in numbers):
            return None
        return cls(broker_name, int(numbers[0]), int(numbers[1]))


class Death(msgspec.Struct, frozen=True):
    """The death of a message: its group, its place as a dead letter, the message time, and the number of failures."""

    group: str
    place: str
    died_ms: int
    failed_times: int

    def __str__(self) -> str:
        return f"{self.group} {self.place} {format_moment(self.died_ms)} {self.failed_times}"

    @classmethod
    def parse(cls, text: str) -> "Death | None":
        """Parse the text of `str`; return None for any other text."""
        group, _, rest = text.partition(" ")
        place, *words = rest.rsplit(" ", 2)
        if not group or len(words) != 2 or not words[1].isdecimal():
            return None
        try:
            return cls(group, place, parse_moment(words[0]), int(words[1]))
        except UsageError:
            return None

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        times = {"diedMs": self.died_ms, "diedAt": format_moment(self.died_ms), "failedTimes": self.failed_times}
        return {"group": self.group, "place": self.place, **times}


def read_history(text: str | None) -> tuple[Death, ...]:
    """Return the deaths of a `DLQ_HISTORY`, oldest first. Invalid entries are left out."""
    deaths = (Death.parse(entry) for entry in (text or "").split(_SEPARATOR))
    return tuple(death for death in deaths if death is not None)


def write_history(deaths: Iterable[Death]) -> str:
    """Return a `DLQ_HISTORY` of the newest deaths."""
    return _SEPARATOR.join(str(death) for death in list(deaths)[-HISTORY_DEATHS_MAX:])


class DeadLetter:
    """A message that its group couldn't consume."""

    __slots__ = ("group", "is_resent", "message", "place")

    def __init__(self, group: str, message: ReceivedMessage, is_resent: bool = False) -> None:
        """`is_resent`: whether it and all letters before it were sent again. Letters resent by id don't count."""
        self.group = group
        self.message = message
        """The stored message; its topic is the %DLQ% one."""
        self.is_resent = is_resent
        self.place = LetterPlace(message.broker_name, message.queue_id, message.queue_offset)

    @property
    def id(self) -> str:
        """Its place, `broker-a/0/17`."""
        return str(self.place)

    @property
    def origin_topic(self) -> str | None:
        """The topic that it was first sent to; None if that isn't recorded, as when a program sent it here directly."""
        return self.message.get(DLQ_ORIGIN_TOPIC) or self.message.get(RETRY_TOPIC)

    @property
    def origin_message_id(self) -> str | None:
        """The offset message id of its first record; of a popped message, that of the record that became dead."""
        return self.message.get(DLQ_ORIGIN_MESSAGE_ID) or self.message.get(ORIGIN_MESSAGE_ID)

    @property
    def died_ms(self) -> int:
        """When it became a dead letter, in message time."""
        return self.message.stored_ms

    @property
    def failed_times(self) -> int:
        """How often its consumption has failed since it was last sent."""
        return self.message.reconsume_times

    @property
    def death(self) -> Death:
        """The death that created this letter."""
        return Death(self.group, self.id, self.died_ms, self.failed_times)

    @property
    def earlier_deaths(self) -> tuple[Death, ...]:
        """Earlier deaths, if it has been sent again since; oldest first."""
        return read_history(self.message.get(HISTORY))

    def as_json(self) -> dict[str, Any]:
        """Return all of it for JSON: used by `dlq list --json`, `export` and the control endpoint."""
        message = self.message
        return {
            "id": self.id,
            "group": self.group,
            "originTopic": self.origin_topic,
            "originMessageId": self.origin_message_id,
            "messageId": message.message_id,
            "offsetMessageId": message.offset_message_id,
            "tags": message.tags,
            "keys": message.keys,
            "diedMs": self.died_ms,
            "diedAt": format_moment(self.died_ms),
            "failedTimes": self.failed_times,
            "resent": self.is_resent,
            "earlierDeaths": [death.as_json() for death in self.earlier_deaths],
            "bornMs": message.born_ms,
            "bornHost": message.born_host,
            "flag": message.flag,
            "sysFlag": message.sys_flag,
            "properties": message.properties,
            "undecoded": message.undecoded,
            "body": message.body.decode("utf-8", "backslashreplace"),
            "bodyBase64": base64.b64encode(message.body).decode(),
        }

    def __repr__(self) -> str:
        return f"DeadLetter({self.group!r}, {self.id!r}, from {self.origin_topic!r}, {self.message!r})"
