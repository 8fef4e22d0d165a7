"""Facts about a message, and the events of its life. Plain data."""

import msgspec

from staticfire.client.admin.consumption import GroupConsumption
from staticfire.protocol.clock_face import ClockFace
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.journal import JournalRecord
from staticfire.protocol.times import MessageMs
from staticfire.protocol.trace import Trace

STORE, JOURNAL, OFFSETS, TRACE = "store", "journal", "offsets", "trace"
"""The sources of an event."""
SENT, HALF, SET_ASIDE, ROLLED_BACK, WAITS, RECALLED = "sent", "half", "set aside", "rolled back", "waits", "recalled"
COMMITTED, STORED, RETRIED, DIED = "committed", "stored", "comes again", "dead"
DELIVERED, CONSUMED, SENT_BACK = "delivered", "consumed", "sent back"


class LifeEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One event in the life of a message, or its current state. Texts are empty if there is nothing to report."""

    what: str
    source: str
    time_ms: int | None = None
    """Message time; None for the current state."""
    topic: str = ""
    broker_name: str = ""
    queue_id: int = -1
    queue_offset: int = -1
    group: str = ""
    client: str = ""
    success: bool | None = None
    """None: unknown, or it can't fail."""
    cost_ms: int | None = None
    words: str = ""
    reconsume_times: int = 0
    """How often the message had been redelivered by then."""

    @property
    def outcome(self) -> str:
        """The outcome in one word, for events that may fail."""
        if self.what not in (SENT, DELIVERED, CONSUMED):
            return ""
        return {True: "ok", False: "failed", None: "no end yet"}[self.success]


class MessageLife(msgspec.Struct, frozen=True):
    """The events of a message, oldest first, followed by the current state of its groups."""

    events: list[LifeEvent]
    notes: list[str] = []
    """Where the search was incomplete, and which brokers keep no journal."""


class StoredCopy(msgspec.Struct, frozen=True):
    """A record of the message: as it was sent, while it waits, as a retry ..."""

    message: ReceivedMessage
    due_ms: int | None = None
    """When it is due, if it waits."""
    groups: list[GroupConsumption] = []
    noted: list[JournalRecord] = []
    """The journal's records of this place: deliveries and send-backs."""

    @property
    def topic(self) -> str:
        """The topic that it is stored in; the message's own topic may be another one."""
        return self.message.record.topic


class MessageFacts(msgspec.Struct, frozen=True):
    """All facts about one message."""

    message_id: str
    copies: list[StoredCopy] = []
    half_ends: dict[tuple[str, int], int] = {}
    """When half messages without a final form were ended, by broker name and queue offset."""
    traces: list[Trace] = []
    clock: list[ClockFace] = []
    """The settings of message time with their start, oldest first. Before the first one, the wall clock counts."""
    now_ms: int = 0
    """Message time."""
    gaps: list[str] = []
    """Where the search was incomplete, and why."""
    unheard: list[str] = []
    """Brokers without a journal: deliveries by these are known only from offsets and traces."""

    @property
    def notes(self) -> list[str]:
        """What is missing, as shown to users."""
        notes = [f"the search is incomplete: {gap}" for gap in self.gaps]
        if self.unheard:
            words = "it has no journal (journalEnable), so only offsets and traces show its deliveries"
            notes.append(f"{', '.join(self.unheard)}: {words}")
        return notes

    def message_ms(self, wall_ms: int, not_before_ms: int = 0) -> MessageMs:
        """Return the message time at a wall clock time.

        Message time may jump more than once within a millisecond: `not_before_ms` selects one of its times.
        """
        before = [face for face in self.clock if face.base_wall_ms < wall_ms][-1:] or [ClockFace()]
        times = [face.at(wall_ms) for face in (*before, *(one for one in self.clock if one.base_wall_ms == wall_ms))]
        return min((time for time in times if not_before_ms and time >= not_before_ms), default=times[-1])
