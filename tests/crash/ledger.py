"""What clients were told, and what therefore has to be in the store after a start."""

from dataclasses import dataclass
from enum import Enum

Place = tuple[str, int]
"""Topic and queue id."""


class Fault(AssertionError):
    """A promise was broken."""


class State(Enum):
    """What is known of a message."""

    UNKNOWN = "nobody was told what became of it"
    STORED = "acknowledged"
    REFUSED = "the broker said that it was not stored"
    GONE = "deleted, or found missing after a loss of power"
    REMOVED = "acknowledged, and removed by retention"


@dataclass
class Message:
    """One that was sent."""

    body: bytes
    place: Place
    is_delayed: bool
    state: State = State.UNKNOWN
    position: int = -1
    """Of its record in the log; of a delayed one, where it waits."""
    offset: int = -1
    may_be_deleted: bool = False
    is_lenient: bool = False
    """It may be missing."""

    def __str__(self) -> str:
        place = f"{self.place[0]} {self.place[1]}"
        return f"{self.body[:20]!r}, sent to {place} (offset {self.offset}, log position {self.position})"


class Ledger:
    """All messages of a run by their bodies, which differ."""

    def __init__(self, is_sync: bool) -> None:
        self.is_sync = is_sync
        self.messages: dict[bytes, Message] = {}
        self._being_deleted: set[str | None] = set()
        self.is_frozen = False
        """The life has ended: what is answered now is not believed."""

    def sent(self, body: bytes, place: Place, is_delayed: bool) -> Message:
        message = self.messages[body] = Message(body, place, is_delayed)
        message.may_be_deleted = bool(self._being_deleted & {place[0], None})
        return message

    def answered(self, message: Message, code: int, position: int, offset: int) -> None:
        if self.is_frozen:
            return
        if code == 0:
            message.state, message.position, message.offset = State.STORED, position, offset
        elif code != _FLUSH_DISK_TIMEOUT:
            message.state = State.REFUSED

    def deleting(self, topic: str | None) -> list[Message]:
        """Messages of the topic, or all, may be gone from now on; return them for `deleted`."""
        going = [
            message
            for message in self.messages.values()
            if message.state in (State.STORED, State.UNKNOWN, State.REMOVED) and topic in (None, message.place[0])
        ]
        for message in going:
            message.may_be_deleted = True
        self._being_deleted.add(topic)
        return going

    def deleted(self, topic: str | None, messages: list[Message]) -> None:
        if not self.is_frozen:
            self._being_deleted.discard(topic)
            for message in messages:
                message.state = State.GONE

    def began(self) -> None:
        """Another life has begun."""
        self.is_frozen = False
        self._being_deleted.clear()

    @property
    def places(self) -> set[Place]:
        """The queues that somebody has sent to."""
        return {message.place for message in self.messages.values()}

    # -- after a start ----------------------------------------------------------------------------------------------

    def lost_power(self, synced_position: int) -> None:
        """The machine stopped when the log was safe up to there, as the broker believed."""
        for message in self.messages.values():
            acknowledged = message.state in (State.STORED, State.REMOVED)
            if not acknowledged or (not self.is_sync and message.position >= synced_position):
                message.is_lenient = True

    def check(self, found: dict[Place, list[tuple[int, bytes]]], ends: dict[Place, int], min_position: int) -> None:
        """Compare with what all queues show, offset and body, and with where they end. Raises: Fault."""
        bodies: set[bytes] = set()
        for place, entries in found.items():
            for offset, body in entries:
                if body in bodies:
                    raise Fault(f"{body[:20]!r} is there twice")
                bodies.add(body)
                self._check_shown(place, offset, body)
        for message in self.messages.values():
            self._check_end(message, ends)
            if message.body not in bodies:
                self._check_missing(message, min_position)

    def _check_end(self, message: Message, ends: dict[Place, int]) -> None:
        """No offset is given twice, also when retention has removed the message that had it."""
        is_safe = message.state in (State.STORED, State.REMOVED) and not message.is_delayed
        if is_safe and not message.may_be_deleted and not message.is_lenient and ends[message.place] <= message.offset:
            raise Fault(f"{message.place} ends at {ends[message.place]}, before {message}")

    def _check_shown(self, place: Place, offset: int, body: bytes) -> None:
        message = self.messages.get(body)
        if message is None:
            raise Fault(f"{place} has {body[:20]!r}, which nobody sent")
        words = f"{place} has {body[:20]!r} at offset {offset}"
        if message.place != place:
            raise Fault(f"{words}, which was sent to {message.place}")
        if message.state in (State.REFUSED, State.GONE, State.REMOVED):
            raise Fault(f"{words}, but: {message.state.value}")
        if not message.is_delayed and message.offset not in (-1, offset):
            raise Fault(f"{words}; its sender was told {message.offset}")
        if not message.is_delayed:
            message.offset = offset

    def _check_missing(self, message: Message, min_position: int) -> None:
        if message.state is not State.STORED or message.is_delayed:
            if message.is_lenient and not message.is_delayed and message.state is State.UNKNOWN:
                message.state = State.GONE
            return
        if message.position < min_position:
            message.state = State.REMOVED
            return
        if message.may_be_deleted or message.is_lenient:
            message.state = State.GONE
            return
        raise Fault(f"{message} is lost; the log begins at {min_position}")

    def check_delivered(self, found: dict[Place, list[tuple[int, bytes]]], min_position: int) -> None:
        """Nothing waits any more; what retention may have removed, delivered or not, is excused. Raises: Fault."""
        bodies = {body for entries in found.values() for _, body in entries}
        for message in self.messages.values():
            excused = message.may_be_deleted or message.is_lenient or message.state is not State.STORED
            excused |= message.position < min_position
            if message.is_delayed and message.body not in bodies and not excused:
                raise Fault(f"{message} was never delivered")

    @property
    def survivors(self) -> int:
        return sum(message.state is State.STORED for message in self.messages.values())


_FLUSH_DISK_TIMEOUT = 10
