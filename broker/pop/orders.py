"""Messages that were popped in order: one state per queue and group. Pure. RocketMQ: ConsumerOrderInfoManager.

A queue is blocked while a message of the last pop is neither acknowledged nor visible again. Only a repetition of the
same attempt may pop it. The group's offset is kept at the first message that isn't acknowledged. No message is copied;
the state counts how often each was delivered before.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from heapq import heappop, heappush

from msgspec.structs import replace

from staticfire.broker.pop.events import GroupQueue, OrderState
from staticfire.broker.pop.in_flight import DUE_MS_MAX, NEVER_MS, NO_CLIENT
from staticfire.protocol.pop_handles import OrderCounts, QueueKey

# A state is dropped if it wasn't used for this time.
UNUSED_MS_MAX = 24 * 3_600_000
_STALE_MIN = 1024


PlaceKey = tuple[str, str, int]
"""Group, topic, queue id."""


class AckOutcome(Enum):
    """The effect of an acknowledgement in order."""

    COUNTED = "counted"
    IGNORED = "ignored"
    ILLEGAL = "illegal"


class OrderStates:
    """The order states of a broker, and when their queues become free."""

    def __init__(self) -> None:
        self._states: dict[PlaceKey, OrderState] = {}
        # A heap. An entry is valid if `_free_ms` has the same time. The others are removed when they are the majority.
        self._dues: list[tuple[int, PlaceKey]] = []
        self._free_ms: dict[PlaceKey, int] = {}
        self._soonest_ms = NEVER_MS
        # By queue: the numbers of the clients that have its messages, by offset; see `CheckPoint.owner`. They aren't in
        # the log: after a restart no client has a message. The next core of the same process takes them over.
        self._owners: dict[PlaceKey, dict[int, int]] = {}

    def take_soonest(self) -> int:
        """Return the earliest due time that was added since the last call, NEVER_MS for none."""
        soonest_ms, self._soonest_ms = self._soonest_ms, NEVER_MS
        return soonest_ms

    def find(self, place: GroupQueue) -> OrderState | None:
        """Return a queue's state."""
        return self._states.get((place.group, place.topic, place.queue_id))

    def put(self, place: GroupQueue, state: OrderState | None) -> None:
        """Set or remove a queue's state."""
        key = (place.group, place.topic, place.queue_id)
        if state is None:
            self._states.pop(key, None)
            self._free_ms.pop(key, None)
            self._owners.pop(key, None)
            return
        self._states[key] = state
        free_ms = free_at_ms(state)
        if free_ms is None:
            self._free_ms.pop(key, None)
        elif free_ms != self._free_ms.get(key):
            self._free_ms[key] = free_ms
            heappush(self._dues, (free_ms, key))
            self._soonest_ms = min(self._soonest_ms, free_ms)
            if len(self._dues) > 2 * len(self._free_ms) + _STALE_MIN:
                self._dues = sorted((free_ms, key) for key, free_ms in self._free_ms.items())

    def hand_out(self, place: GroupQueue, offsets: Sequence[int], owner: int) -> None:
        """Note which client has popped all messages of a queue's state."""
        self._owners[place.group, place.topic, place.queue_id] = dict.fromkeys(offsets, owner)

    def change_owner(self, place: GroupQueue, offset: int, owner: int) -> None:
        """Note which client has a message now, or that it was given back."""
        self._owners.setdefault((place.group, place.topic, place.queue_id), {})[offset] = owner

    def take_owners(self, before: "OrderStates") -> None:
        """Take over the owners of the states that are the same pops."""
        for key, owners in before._owners.items():
            state = self._states.get(key)
            if state is not None and state.pop_ms == before._states[key].pop_ms:
                self._owners[key] = owners

    def owned(self) -> Iterator[tuple[int, int]]:
        """Yield when a queue becomes free, and the owner of each message that it waits for."""
        for key, owners in self._owners.items():
            state = self._states[key]
            free_ms = free_at_ms(state)
            if free_ms is not None:
                for offset in state.offsets:
                    if offset not in state.acked and offset in owners:
                        yield free_ms, owners[offset]

    def owner(self, place: GroupQueue, offset: int) -> int:
        """Return the number of the client that has a message; NO_CLIENT if none has it."""
        return self._owners.get((place.group, place.topic, place.queue_id), {}).get(offset, NO_CLIENT)

    def forget(self, is_gone: Callable[[GroupQueue], bool]) -> list[GroupQueue]:
        """Drop the states for which `is_gone` is true; return their queues."""
        gone = [place for place, _ in self if is_gone(place)]
        for place in gone:
            self.put(place, None)
        return gone

    def next_due_ms(self) -> int | None:
        """Return when the next queue becomes free without an acknowledgement."""
        dues = self._dues
        while dues:
            free_ms, key = dues[0]
            if self._free_ms.get(key) == free_ms:
                return free_ms
            heappop(dues)
        return None

    def take_due(self, message_ms: int) -> tuple[GroupQueue, OrderState] | None:
        """Return a queue that is free by then, once for each pop of it; None if there is no more."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > message_ms:
            return None
        _, key = heappop(self._dues)
        del self._free_ms[key]
        self._owners.pop(key, None)
        return GroupQueue(*key), self._states[key]

    def __iter__(self) -> Iterator[tuple[GroupQueue, OrderState]]:
        for key, state in list(self._states.items()):
            yield GroupQueue(*key), state

    def __len__(self) -> int:
        return len(self._states)


def free_at_ms(state: OrderState) -> int | None:
    """Return when all messages that aren't acknowledged are visible again; None if all are acknowledged."""
    return max(visible_again(state).values(), default=None)


def visible_again(state: OrderState) -> dict[int, int]:
    """Return the offsets of the messages that aren't acknowledged, and when each is visible again."""
    default_ms = min(state.pop_ms + state.invisible_ms, DUE_MS_MAX)
    return {offset: state.visible_ms.get(offset, default_ms) for offset in state.offsets if offset not in state.acked}


def is_blocked(state: OrderState | None, attempt_id: str | None, now_ms: int) -> bool:
    """Return whether nothing may be popped from a queue now."""
    if state is None or (state.attempt_id is not None and state.attempt_id == attempt_id):
        return False
    free_ms = free_at_ms(state)
    return free_ms is not None and now_ms < free_ms


def taken(old: OrderState | None, offsets: Sequence[int], attempt_id: str | None, times: tuple[int, int]) -> OrderState:
    """Return the state after messages were popped. `times`: pop time and invisible time."""
    counts: dict[int, int] = {}
    if old is not None:
        is_same = old.attempt_id is not None and old.attempt_id == attempt_id
        came = set(old.offsets)
        for offset in offsets:
            if offset in came:
                count = old.counts.get(offset, 0) + (not is_same)
                if count:
                    counts[offset] = count
    return OrderState(*times, attempt_id, list(offsets), counts=counts, used_ms=times[0])


def counts_of(state: OrderState, key: QueueKey) -> OrderCounts:
    """Return how often the messages of a queue were delivered before, in the form of a response."""
    flag, queue_id = key
    by_offset = {(flag, queue_id, offset): count for offset, count in state.counts.items()}
    return OrderCounts(by_offset, {key: min((state.counts.get(offset, 0) for offset in state.offsets), default=0)})


def acknowledged(state: OrderState, offset: int, pop_ms: int, now_ms: int) -> tuple[AckOutcome, OrderState]:
    """Return the outcome of an acknowledgement, and the state after it."""
    if state.pop_ms != pop_ms:
        return AckOutcome.IGNORED, state
    if offset not in state.offsets:
        return AckOutcome.ILLEGAL, state
    if offset in state.acked:
        return AckOutcome.COUNTED, state
    return AckOutcome.COUNTED, replace(state, acked=[*state.acked, offset], used_ms=now_ms)


def postponed(state: OrderState, offset: int, visible_ms: int, now_ms: int) -> OrderState:
    """Return the state after the visible time of a message was changed."""
    return replace(state, visible_ms={**state.visible_ms, offset: visible_ms}, used_ms=now_ms)


def offset_behind(state: OrderState) -> int:
    """Return the group's offset: that of the first message that isn't acknowledged, else that after the last one."""
    return next((offset for offset in state.offsets if offset not in state.acked), state.offsets[-1] + 1)
