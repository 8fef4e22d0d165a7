"""Count the messages for a topic that wait: for a delay level, a time of their own, or the end of their transaction.

These messages are not counted by topic while they arrive and leave, so they are read for each request, up to a limit.
"""

from collections.abc import Iterable, Mapping

from staticfire.broker.delay.stored_form import real_place
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import ProtocolError, StorageError
from staticfire.protocol.record import decode_record
from staticfire.protocol.requests.group_state import WaitingState

# How many messages of each kind are read: some ten milliseconds in which the broker does nothing else.
READ_MAX = 2_000

Places = Iterable[tuple[int, int]]
"""Waiting messages: when each is due, and its position in the log."""


def count_waiting(store: MessageStore, kinds: Mapping[str, Places], topics: set[str]) -> list[WaitingState]:
    """Return how many messages wait for these topics, by kind and topic; topics without any are left out."""
    found: dict[tuple[str, str], WaitingState] = {}
    for kind, places in kinds.items():
        is_all = True
        for count, (due_ms, log_position) in enumerate(places):
            if count == READ_MAX:
                is_all = False
                break
            topic = _topic_of(store, log_position)
            if topic not in topics:
                continue
            state = found.setdefault((kind, topic), WaitingState(topic, kind, 0, due_ms))
            state.count += 1
            state.next_ms = min(state.next_ms, due_ms)
        for (of_kind, _), state in found.items():
            if of_kind == kind:
                state.is_all = is_all
    return list(found.values())


def _topic_of(store: MessageStore, log_position: int) -> str:
    """Return the topic of a waiting message; empty if the message can't be read."""
    try:
        data = store.record_at(log_position)
        place = None if data is None else real_place(decode_record(data).properties)
    except (OSError, ProtocolError, StorageError):
        return ""
    return "" if place is None else place[0]
