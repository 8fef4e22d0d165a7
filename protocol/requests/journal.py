"""The events on a broker, and the requests to it. staticfire's own. docs/journal.md describes all kinds and details.

Both use one type of record: number, broker, kind, two times, the client, group and queue that it is about, and details
by kind. A broker numbers its events and its requests separately, each from 1 on, without gaps.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64

STARTED, JOINED, LEFT, SUBSCRIBED = "started", "joined", "left", "subscribed"
GOODBYE = "unregistered"
"""The reason of a LEFT: the client has unregistered."""
LOCKED, UNLOCKED, TOOK_OVER, DELIVERED = "locked", "unlocked", "tookOver", "delivered"
SENT_BACK, DIED, RESET_OFFSET, FORGOTTEN, CLOCK_SET = "sentBack", "died", "reset", "forgotten", "clockSet"
TOPIC_MADE, GROUP_MADE, BEGAN = "topicMade", "groupMade", "began"
ROLE_CHANGED, SLAVE_JOINED, SLAVE_LEFT = "roleChanged", "slaveJoined", "slaveLeft"
COPY_CONTROLLED = "copyControlled"
TLS_REFUSED, KEY_SEEN, RULE_HIT = "tlsRefused", "keySeen", "ruleHit"
KINDS = (
    STARTED, JOINED, LEFT, SUBSCRIBED, LOCKED, UNLOCKED, TOOK_OVER, DELIVERED, SENT_BACK, DIED, RESET_OFFSET, FORGOTTEN,
    CLOCK_SET, TOPIC_MADE, GROUP_MADE, BEGAN, ROLE_CHANGED, SLAVE_JOINED, SLAVE_LEFT, COPY_CONTROLLED, TLS_REFUSED,
    KEY_SEEN, RULE_HIT,
)  # fmt: skip
REQUEST = "request"
"""The kind of a recorded request."""


class JournalRecord(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """One event, or one request. An unused text is empty, an unused number -1."""

    number: Int64
    broker: str
    kind: str
    message_ms: Int64
    """The time, in message time."""
    real_ms: Int64
    """The time of the broker's wall clock."""
    client: str = ""
    """The client id, or the address of a client that hasn't sent its id."""
    group: str = ""
    topic: str = ""
    queue_id: Int32 = -1
    queue_offset: Int64 = -1
    details: dict[str, Any] = {}

    @property
    def code(self) -> str:
        """The name of a request's code, like `PULL_MESSAGE`."""
        return str(self.details.get("code", ""))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a request, under RocketMQ's names."""
        found: dict[str, Any] = self.details.get("fields", {})
        return found


class JournalPage(msgspec.Struct, rename="camel", gc=False):
    """A part of a journal, oldest first."""

    records: list[JournalRecord] = []
    next_number: Int64 = 1
    """The number from which to continue reading; backwards, the number below which to continue."""
    is_end: bool = True
    """Whether there are no later records yet; backwards, whether there are no earlier ones."""
    dropped: Int64 = 0
    """How many of the requested records have been dropped, because the journal's size is limited."""
    journal_id: str = ""
    """Each start of a broker begins another journal, and numbers start from 1 again; empty from versions up to 1.0."""


class JournalAnswer(Answer, rename="camel"):
    """A part of a journal."""

    body_type: ClassVar[Any] = JournalPage


@request(RequestCode.GET_JOURNAL, answer=JournalAnswer)
class GetJournal(Request, rename="camel"):
    """Query events, or with `requests` recorded requests, from `first_number` on; empty fields select all.

    `kinds`: joined by commas; for requests, the names of their codes. `client`: an id, or one of its parts between `@`.
    `queue_offset`: deliveries that include that message, and all other records that name it.
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
    below_number: Int64 | None = None
    """Backwards: the newest records before this number, which are still returned oldest first; 0: of all."""
