"""The handles by which popped messages are acknowledged, and the strings of a response from which they are made.

A handle has eight parts, separated by spaces:

    start_offset pop_time invisible_time revive_queue flag broker_name queue_id queue_offset

    0 1795319639607 30000 4 0 broker-a 0 2

The info strings have entries separated by semicolons, in the order in which the queues were visited:

    startOffsetInfo   flag queue_id start_offset                    0 1 89;1 0 25
    msgOffsetInfo     flag queue_id offset,offset,...               0 0 0,2,4
    orderCountInfo    flag qo<queue_id>%<queue_offset> count        0 qo0%3 1;0 qo0%4 1;0 0 0
                      then flag queue_id count, for all other messages

`flag` identifies the topic of the queue: the requested topic, or the group's retry topic of it. Every text comes from
another program, so an invalid one is a ProtocolError with RocketMQ's text. RocketMQ: ExtraInfoUtil.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.names import is_retry_topic, pop_retry_topic
from staticfire.protocol.numbers import INT64_MAX, INT64_MIN

NORMAL, RETRY, RETRY_V2 = 0, 1, 2
"""Flags: the topic itself, `%RETRY%group_topic`, `%RETRY%group+topic`."""
K = TypeVar("K")
V = TypeVar("V")
QueueKey = tuple[int, int]
"""A flag and a queue id."""
# RocketMQ's brokers read no more parts of a handle. Queue and offset are in the request's header.
PARTS_MIN = 6
_FLAGS_KEPT_MAX = 4096
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


class PopHandle(NamedTuple):
    """One message in one pop. Its check-point is all that this pop took from that queue, from `start_offset` on."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    flag: int
    broker_name: str
    queue_id: int
    queue_offset: int

    def real_topic(self, topic: str, group: str) -> str:
        """Return the topic in which the message is stored, for a group that requested `topic`."""
        return topic if self.flag == NORMAL else pop_retry_topic(topic, group, self.flag)

    def changed(self, pop_time_ms: int, invisible_ms: int, revive_queue: int) -> "PopHandle":
        """Return the handle after a change of the invisible time. The message is then a check-point of its own."""
        return self._replace(
            start_offset=self.queue_offset, pop_time_ms=pop_time_ms, invisible_ms=invisible_ms,
            revive_queue=revive_queue,
        )  # fmt: skip


@lru_cache(maxsize=_FLAGS_KEPT_MAX)
def flag_of(topic: str) -> int:
    """Return the flag of a topic in handles. RocketMQ: ExtraInfoUtil.getRetry."""
    if not is_retry_topic(topic):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY


def format_handle(handle: PopHandle) -> str:
    """Return the handle as text."""
    return "%d %d %d %d %d %s %d %d" % handle  # noqa: UP031 (the parts are the tuple's, and nothing is as fast)


def parse_handle(text: str | None) -> PopHandle:
    """Parse a handle; queue and offset are -1 if they are missing. Raises: ProtocolError."""
    if not text:
        raise ProtocolError("java.lang.IllegalArgumentException: split extraInfo is null")
    parts = _java_split(text, " ")
    if len(parts) < PARTS_MIN:
        words = f"getBrokerName fail, extraInfoStrs length {len(parts)}"
        raise ProtocolError(f"java.lang.IllegalArgumentException: {words}")
    return PopHandle(
        _long(parts[0]), _long(parts[1]), _long(parts[2]), _int(parts[3]), _flag(parts[4]), parts[5],
        _int(parts[6]) if len(parts) > 6 else -1,
        _long(parts[7]) if len(parts) > 7 else -1,
    )  # fmt: skip


# -- the info strings of a response ------------------------------------------------------------------------------------


def format_start_offsets(start_offsets: Mapping[QueueKey, int]) -> str:
    """Return startOffsetInfo: the offset at which the read of each queue began."""
    return ";".join([f"{flag} {queue_id} {offset}" for (flag, queue_id), offset in start_offsets.items()])


def parse_start_offsets(text: str | None) -> dict[QueueKey, int]:
    """Return the offset at which the read of each queue began. Raises: ProtocolError, also for a repeated queue."""
    offsets: dict[QueueKey, int] = {}
    for key, queue_id, offset in _entries(text, "startOffsetInfo"):
        _put_once(offsets, (key, _int(queue_id)), _long(offset), "startOffsetInfo")
    return offsets


def format_message_offsets(message_offsets: Mapping[QueueKey, Iterable[int]]) -> str:
    """Return msgOffsetInfo: the offsets that were taken from each queue."""
    entries = []
    for (flag, queue_id), offsets in message_offsets.items():
        entries.append(f"{flag} {queue_id} {','.join([str(offset) for offset in offsets])}")
    return ";".join(entries)


def parse_message_offsets(text: str | None) -> dict[QueueKey, list[int]]:
    """Return the offsets that were taken from each queue. Raises: ProtocolError, also for a repeated queue."""
    taken: dict[QueueKey, list[int]] = {}
    for flag, queue_id, offsets in _entries(text, "msgOffsetInfo"):
        numbers = [_long(offset) for offset in _java_split(offsets, ",")]
        _put_once(taken, (flag, _int(queue_id)), numbers, "msgOffsetInfo")
    return taken


class OrderCounts(NamedTuple):
    """How often messages of ordered consumption were delivered before.

    `by_offset`: by queue and offset, if it was at least once; `by_queue`: the minimum of each queue.
    """

    by_offset: dict[tuple[int, int, int], int]
    by_queue: dict[QueueKey, int]

    def of(self, flag: int, queue_id: int, queue_offset: int) -> int:
        """Return how often a message was delivered before."""
        count = self.by_offset.get((flag, queue_id, queue_offset))
        return self.by_queue.get((flag, queue_id), 0) if count is None else count


def format_order_counts(counts: OrderCounts) -> str:
    """Return orderCountInfo."""
    entries = [f"{flag} qo{queue_id}%{offset} {count}" for (flag, queue_id, offset), count in counts.by_offset.items()]
    entries += [f"{flag} {queue_id} {count}" for (flag, queue_id), count in counts.by_queue.items()]
    return ";".join(entries)


def parse_order_counts(text: str | None) -> OrderCounts:
    """Return how often messages were delivered before. Raises: ProtocolError, also for a repeated entry."""
    counts = OrderCounts({}, {})
    for flag, place, count in _entries(text, "orderCountInfo"):
        if place.startswith("qo"):
            queue_id, _, offset = place[2:].partition("%")
            _put_once(counts.by_offset, (flag, _int(queue_id), _long(offset)), _int(count), "orderCountInfo")
        else:
            _put_once(counts.by_queue, (flag, _int(place)), _int(count), "orderCountInfo")
    return counts


def _entries(text: str | None, name: str) -> list[tuple[int, str, str]]:
    entries = []
    for entry in _java_split(text, ";") if text else ():
        parts = _java_split(entry, " ")
        if len(parts) != 3:
            raise ProtocolError(f"java.lang.IllegalArgumentException: parse {name} error, {text}")
        entries.append((_flag(parts[0]), parts[1], parts[2]))
    return entries


def _put_once(table: dict[K, V], key: K, value: V, name: str) -> None:
    if key in table:
        raise ProtocolError(f"java.lang.IllegalArgumentException: parse {name} error, duplicate {key}")
    table[key] = value


# -- texts and numbers as Java parses them -----------------------------------------------------------------------------


def _java_split(text: str, separator: str) -> list[str]:
    """Split like String.split: empty parts at the end are dropped."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _flag(text: str) -> int:
    if text not in ("0", "1", "2"):
        raise ProtocolError("java.lang.IllegalArgumentException: getRetry fail, format is wrong")
    return int(text)


def _int(text: str) -> int:
    return _long(text, _INT_MIN, _INT_MAX)


def _long(text: str, least: int = INT64_MIN, most: int = INT64_MAX) -> int:
    if _NUMBER.fullmatch(text) is None or not least <= (number := int(text)) <= most:
        raise ProtocolError(f'java.lang.NumberFormatException: For input string: "{text}"')
    return number
