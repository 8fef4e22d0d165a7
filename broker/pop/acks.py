"""Acknowledge messages, or change their invisible time. RocketMQ: AckMessageProcessor, ChangeInvisibleTimeProcessor.

An acknowledgement has an effect if its handle refers to a check-point that contains the message. All others have no
effect and get the same response. In order, a handle whose pop is forgotten still moves the group, as in RocketMQ, but
not if it is older than the message that has its offset now. A change of the invisible time has an effect under the same
condition as an acknowledgement: it moves its message to a new check-point.
"""

from collections.abc import Sequence
from typing import NamedTuple

from staticfire.broker.clock.quiescence import PUSH
from staticfire.broker.pop.events import NO_OFFSET, GroupQueue, OrderState, mask_of
from staticfire.broker.pop.fetching import REVIVE_QUEUE
from staticfire.broker.pop.in_flight import DUE_MS_MAX, GIVEN_BACK, CheckPoint, PoppedQueue
from staticfire.broker.pop.orders import AckOutcome, acknowledged, free_at_ms, offset_behind, postponed
from staticfire.broker.pop.tables import PopTables
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.numbers import INT64_MAX, INT64_MIN
from staticfire.protocol.pop_handles import PopHandle, flag_of
from staticfire.protocol.requests.pop import ORDERLY_REVIVE_QUEUE
from staticfire.runtime.connection import Connection


class InvisibleTimeChange(NamedTuple):
    """A change of the invisible time: from now on, in ms. `for_push`: see ChangeInvisibleTime."""

    invisible_ms: int
    connection: Connection | None
    """The owner's from now on; None if no client has the message."""
    for_push: bool = False


class Changed(NamedTuple):
    """The values in the response to a change of the invisible time."""

    pop_ms: int = 0
    invisible_ms: int = 0
    revive_queue: int = 0


class Acknowledger:
    """Applies acknowledgements and changes of the invisible time."""

    def __init__(self, tables: PopTables) -> None:
        self._tables = tables
        self._state = tables.state
        self.freed: list[GroupQueue] = []
        """Queues that became free by acknowledgements in order. The caller that wakes the pops empties the list."""

    def ack(self, place: GroupQueue, handle: PopHandle, offsets: Sequence[int], peer: str) -> None:
        """Acknowledge messages. Raises: BrokerAnswer (in order, and a message isn't part of that pop)."""
        if handle.revive_queue == ORDERLY_REVIVE_QUEUE:
            for offset in offsets:
                self._ack_in_order(place, handle, offset, peer)
            return
        found = self._find(place, handle)
        if found is not None:
            self._remove(*found, offsets)

    def change(self, place: GroupQueue, handle: PopHandle, offset: int, change: InvisibleTimeChange) -> Changed:
        """Change until when a message is invisible."""
        invisible_ms = change.invisible_ms
        now_ms = self._state.clock.message_ms()
        visible_ms = min(now_ms + invisible_ms, DUE_MS_MAX)
        owner = self._owner_after(place.group, change)
        if handle.revive_queue == ORDERLY_REVIVE_QUEUE:
            return self._change_in_order(place, handle, offset, (visible_ms, owner))
        pop_ms = int(now_ms)
        found = self._find(place, handle)
        if found is not None and self._remove(*found, [offset]):
            queue = found[0]
            while queue.find(offset, pop_ms) is not None or (offset, pop_ms) == (handle.start_offset, found[1].pop_ms):
                pop_ms += 1  # Message time may be frozen, but each check-point needs a different name.
            self._put(queue, CheckPoint(offset, pop_ms, 1, visible_ms, owner))
        return Changed(pop_ms, invisible_ms, handle.revive_queue)

    # -- check-points --------------------------------------------------------------------------------------------

    def _find(self, place: GroupQueue, handle: PopHandle) -> tuple[PoppedQueue, CheckPoint] | None:
        """Return the check-point of a handle."""
        is_ours = handle.broker_name == self._state.settings.broker_name and handle.revive_queue == REVIVE_QUEUE
        if not is_ours or handle.flag != flag_of(place.topic):
            return None
        queue = self._tables.in_flight.find(place.group, place.topic, place.queue_id)
        found = None if queue is None else queue.find(handle.start_offset, handle.pop_time_ms)
        return None if queue is None or found is None else (queue, found)

    def _remove(self, queue: PoppedQueue, found: CheckPoint, offsets: Sequence[int]) -> bool:
        """Remove messages from a check-point; return whether it contained any of them."""
        size = found.messages.bit_length()
        messages = mask_of((offset for offset in offsets if 0 <= offset - found.start < size), found.start)
        removed = self._tables.remove(queue, found.start, found.pop_ms, messages)
        if not removed:
            return False
        self._tables.groups.progress.activity += 1
        in_flight = self._tables.in_flight

        def undo(is_written: bool) -> None:
            if not is_written:
                now = queue.find(found.start, found.pop_ms)
                left = 0 if now is None else now.messages
                in_flight.put(queue, found._replace(messages=left | removed))

        self._tables.log.when_written(undo)
        return True

    def _put(self, queue: PoppedQueue, new: CheckPoint) -> None:
        tables = self._tables
        tables.put(queue, new)

        def undo(is_written: bool) -> None:
            if not is_written:
                tables.in_flight.remove(queue, new.start, new.pop_ms, new.messages)

        tables.log.when_written(undo)

    def _owner_after(self, group: str, change: InvisibleTimeChange) -> int:
        """Return the number of the client that has a message after a change of its invisible time."""
        connection, owners = change.connection, self._tables.owners
        if connection is None:
            return GIVEN_BACK
        if change.for_push:
            return owners.push_number_of(connection, group)
        online = self._tables.groups.consumers.consumer_table.get(group)
        if online is not None and online.consume_type == PUSH:
            return GIVEN_BACK  # Push consumers send a change only when they have failed to consume the message.
        return owners.number_of(connection)

    # -- in order ------------------------------------------------------------------------------------------------

    def _ack_in_order(self, place: GroupQueue, handle: PopHandle, offset: int, peer: str) -> None:
        offsets, now_ms = self._tables.groups.offsets, self._state.clock.message_ms()
        committed = offsets.committed(place.group, place.topic, place.queue_id)
        if offset < committed:
            return
        old = self._tables.orders.find(place)
        if old is None:
            if committed >= 0 and self._was_stored(place, offset, handle.pop_time_ms):
                self._put_order(place, None, offset + 1)
            return
        outcome, state = acknowledged(old, offset, handle.pop_time_ms, now_ms)
        if outcome is AckOutcome.ILLEGAL:
            words = (
                f"offset is illegal, key:{place.topic}@{place.group}@{place.queue_id}, old:{committed}, "
                f"commit:{offset}, next:-1, /{peer}"
            )
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
        if outcome is AckOutcome.COUNTED:
            self._put_order(place, state, offset_behind(state))
            if free_at_ms(state) is None:
                self.freed.append(place)

    def _was_stored(self, place: GroupQueue, offset: int, pop_ms: int) -> bool:
        """Return whether a pop at this time can have taken the message that is at this offset now.

        If not, the topic was deleted and created again, and the handle is that of an earlier message.
        """
        store = self._state.store
        stored_ms = store.stored_ms_of(store.queue(place.topic, place.queue_id), offset)
        return stored_ms is not None and stored_ms <= pop_ms

    def _put_order(self, place: GroupQueue, state: OrderState | None, committed: int) -> None:
        tables, offsets = self._tables, self._tables.groups.offsets
        old, key = tables.orders.find(place), (place.group, place.topic, place.queue_id)
        stood = offsets.committed(*key)
        if offsets.has_reset(*key):
            committed = NO_OFFSET  # The next pop begins at the offset of the reset.
        tables.put_order(place, state, committed)
        if committed != NO_OFFSET:
            tables.commit(place, committed)

        def undo(is_written: bool) -> None:
            if not is_written:
                tables.orders.put(place, old)
                tables.commit(place, stood)

        tables.log.when_written(undo)

    def _change_in_order(self, place: GroupQueue, handle: PopHandle, offset: int, new: tuple[int, int]) -> Changed:
        """`new`: when the message is visible, and its owner."""
        visible_ms, owner = new
        committed = self._tables.groups.offsets.committed(place.group, place.topic, place.queue_id)
        if offset < committed:
            return Changed()
        state = self._tables.orders.find(place)
        if state is not None and state.pop_ms == handle.pop_time_ms and offset in state.offsets:
            now_ms = self._state.clock.message_ms()
            self._put_order(place, postponed(state, offset, visible_ms, now_ms), NO_OFFSET)
            self._tables.orders.change_owner(place, offset, owner)
        pop_ms = handle.pop_time_ms  # The client's: any 64 bits.
        left_ms = max(INT64_MIN, min(visible_ms - pop_ms, INT64_MAX))
        return Changed(pop_ms, left_ms, ORDERLY_REVIVE_QUEUE)
