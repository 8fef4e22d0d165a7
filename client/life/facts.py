"""What is known of a message, and what is told of it. Plain data."""

import msgspec

from staticfire.client.admin.consumption import GroupConsumption
from staticfire.protocol.clock_face import ClockFace
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.journal import JournalRecord
from staticfire.protocol.times import MessageMs
from staticfire.protocol.trace import Trace

STORE, JOURNAL, OFFSETS, TRACE = "store", "journal", "offsets", "trace"
"""Who tells of an event."""
SENT, HALF, SET_ASIDE, ROLLED_BACK, WAITS, RECALLED = "sent", "half", "set aside", "rolled back", "waits", "recalled"
COMMITTED, STORED, RETRIED, DIED = "committed", "stored", "comes again", "dead"
DELIVERED, CONSUMED, SENT_BACK = "delivered", "consumed", "sent back"


class LifeEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that happened to a message, or how it is now. Texts are empty where there is nothing to say."""

    what: str
    source: str
    time_ms: int | None = None
    """Message time; None: so it is now."""
    topic: str = ""
    broker_name: str = ""
    queue_id: int = -1
    queue_offset: int = -1
    group: str = ""
    client: str = ""
    success: bool | None = None
    """None: not known, or there is nothing to fail."""
    cost_ms: int | None = None
    words: str = ""
    reconsume_times: int = 0
    """How often the message had come back by then."""

    @property
    def outcome(self) -> str:
        """How something ended that may fail, in one word."""
        if self.what not in (SENT, DELIVERED, CONSUMED):
            return ""
        return {True: "ok", False: "failed", None: "no end yet"}[self.success]


class MessageLife(msgspec.Struct, frozen=True):
    """What happened to a message, oldest first, and behind it how groups stand to it now."""

    events: list[LifeEvent]
    notes: list[str] = []
    """What couldn't be looked through, and who keeps no journal."""


class StoredCopy(msgspec.Struct, frozen=True):
    """A record of the message: as it was sent, while it waits, as a retry ..."""

    message: ReceivedMessage
    due_ms: int | None = None
    """Of one that waits: until when."""
    groups: list[GroupConsumption] = []
    noted: list[JournalRecord] = []
    """What the journal has of this place: deliveries and send-backs."""

    @property
    def topic(self) -> str:
        """Where it lies. The message itself may say where it belongs."""
        return self.message.record.topic


class MessageFacts(msgspec.Struct, frozen=True):
    """All that a cluster knows of one message."""

    message_id: str
    copies: list[StoredCopy] = []
    half_ends: dict[tuple[str, int], int] = {}
    """When the half messages were ended that have no final form, by broker name and queue offset."""
    traces: list[Trace] = []
    clock: list[ClockFace] = []
    """What message time has shown since when, oldest first; before, and without any, the wall clock."""
    now_ms: int = 0
    """Message time."""
    gaps: list[str] = []
    """Where not everything was looked through, and why."""
    unheard: list[str] = []
    """Brokers that keep no journal: of deliveries by them only offsets and traces tell."""

    @property
    def notes(self) -> list[str]:
        """What is missing, for people."""
        notes = [f"not all was looked through: {gap}" for gap in self.gaps]
        if self.unheard:
            words = "no journal (journalEnable), so that only offsets and traces tell of deliveries there"
            notes.append(f"{', '.join(self.unheard)}: {words}")
        return notes

    def message_ms(self, wall_ms: int, not_before_ms: int = 0) -> MessageMs:
        """Return what message time was when a wall clock showed that.

        Message time may jump more than once within a millisecond: `not_before_ms` says which of its times is meant.
        """
        before = [face for face in self.clock if face.base_wall_ms < wall_ms][-1:] or [ClockFace()]
        times = [face.at(wall_ms) for face in (*before, *(one for one in self.clock if one.base_wall_ms == wall_ms))]
        return min((time for time in times if not_before_ms and time >= not_before_ms), default=times[-1])
