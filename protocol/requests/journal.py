"""What happened on a broker, and what was asked of it. staticfire's own. docs/journal.md has all kinds and details.

One form of record for both: number, broker, kind, two times, whom and what it is about, and details by kind. A broker
numbers its events and its requests by themselves, each from 1 on, without gaps.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64

STARTED, JOINED, LEFT, SUBSCRIBED = "started", "joined", "left", "subscribed"
LOCKED, UNLOCKED, TOOK_OVER, DELIVERED = "locked", "unlocked", "tookOver", "delivered"
SENT_BACK, DIED, RESET_OFFSET, FORGOTTEN, CLOCK_SET = "sentBack", "died", "reset", "forgotten", "clockSet"
TOPIC_MADE, GROUP_MADE, BEGAN = "topicMade", "groupMade", "began"
KINDS = (
    STARTED, JOINED, LEFT, SUBSCRIBED, LOCKED, UNLOCKED, TOOK_OVER, DELIVERED, SENT_BACK, DIED, RESET_OFFSET, FORGOTTEN,
    CLOCK_SET, TOPIC_MADE, GROUP_MADE, BEGAN,
)  # fmt: skip
REQUEST = "request"
"""The kind of a recorded request."""


class JournalRecord(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """One event, or one request. Texts are empty and numbers -1 where there is nothing to say."""

    number: Int64
    broker: str
    kind: str
    message_ms: Int64
    """When, in message time."""
    real_ms: Int64
    """When, by the broker's wall clock."""
    client: str = ""
    """The client id, or the address of a client that has told none."""
    group: str = ""
    topic: str = ""
    queue_id: Int32 = -1
    queue_offset: Int64 = -1
    details: dict[str, Any] = {}

    @property
    def code(self) -> str:
        """Of a request: its name, like `PULL_MESSAGE`."""
        return str(self.details.get("code", ""))

    @property
    def fields(self) -> dict[str, Any]:
        """Of a request: what it said, under RocketMQ's names."""
        found: dict[str, Any] = self.details.get("fields", {})
        return found


class JournalPage(msgspec.Struct, rename="camel", gc=False):
    """A part of a journal, oldest first."""

    records: list[JournalRecord] = []
    next_number: Int64 = 1
    """Where to go on reading."""
    is_end: bool = True
    """Whether there is nothing behind it yet."""
    dropped: Int64 = 0
    """How many of the wanted ones are gone: the journal is bounded."""


class JournalAnswer(Answer, rename="camel"):
    """A part of a journal."""

    body_type: ClassVar[Any] = JournalPage


@request(RequestCode.GET_JOURNAL, answer=JournalAnswer)
class GetJournal(Request, rename="camel"):
    """Ask for what happened, or with `requests` for what was asked, from `first_number` on; empty fields want all.

    `kinds`: joined by commas, of requests their codes' names. `client`: an id, or one of its parts between `@`.
    `queue_offset`: deliveries with that message among others, and whatever else names it.
    """

    requests: bool = False
    first_number: Int64 = 1
    records_max: Int32 = 1_000
    kinds: str | None = None
    client: str | None = None
    group: str | None = None
    topic: str | None = None
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None
