"""Offsets by queue, as options and checkpoints write them: `{"orders": {"broker-a": {"0": 23, "1": -2}}}`. Pure.

An offset is that of the next message to read. In options -2 means the earliest and -1 the latest; a checkpoint has
only actual offsets. Checkpoints are plain dicts, which Spark stores as JSON and returns. A checkpoint also has the
*known messages*, by queue: the offset of a message before the queue's offset, and when it was stored. They are below
`*known`, which can't be the name of a topic: `{"*known": {"orders": {"broker-a": {"0": [22, 1763800000000]}}}}`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.durations import MOMENT_MS_MAX
from staticfire.protocol.errors import UsageError

EARLIEST, LATEST = "earliest", "latest"
EARLIEST_NUMBER, LATEST_NUMBER = -2, -1

Checkpoint = dict[str, Any]
Offsets = dict[MessageQueue, int]

_EXAMPLE = '{"orders": {"broker-a": {"0": 23, "1": -2}}} (-2 is the earliest, -1 the latest)'
_TIMES_EXAMPLE = '{"orders": {"broker-a": {"0": 1763800000000}}} (milliseconds since 1970, of message time)'
_KNOWN = "*known"
_decode = msgspec.json.Decoder(dict[str, dict[str, dict[str, int]]]).decode


class KnownMessage(NamedTuple):
    """A message that was in a queue when its offset was written to the checkpoint."""

    queue_offset: int
    stored_ms: int


@dataclass(frozen=True, slots=True)
class GivenOffsets:
    """Offsets or times of single queues, from an option."""

    text: str
    offsets: Mapping[MessageQueue, int]

    @property
    def topics(self) -> list[str]:
        """The topics in it."""
        return list(dict.fromkeys(queue.topic for queue in self.offsets))

    def has(self, boundary: str) -> bool:
        """Return whether a queue starts or ends at the earliest, or latest, offset."""
        number = EARLIEST_NUMBER if boundary == EARLIEST else LATEST_NUMBER
        return number in self.offsets.values()


def parse_times(text: str) -> GivenOffsets:
    """Parse the times of an option, in milliseconds since 1970. Raises: UsageError."""
    times = _by_queue(text, f"write JSON like {_TIMES_EXAMPLE}; this text is not valid")
    for queue, stored_ms in times.items():
        if not 0 <= stored_ms <= MOMENT_MS_MAX:
            words = f"write milliseconds since 1970, at most {MOMENT_MS_MAX}"
            raise UsageError(f"the time of {queue} is {stored_ms}; {words}")
    return GivenOffsets(text, times)


def _by_queue(text: str, words: str) -> Offsets:
    try:
        return from_checkpoint(_decode(_offsets_alone(text)))
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"{words}: {error}") from None


def _offsets_alone(text: str) -> str | bytes:
    """Return the JSON without known messages, which a copied checkpoint has."""
    if f'"{_KNOWN}"' not in text:
        return text
    checkpoint = msgspec.json.decode(text, type=dict[str, Any])
    checkpoint.pop(_KNOWN, None)
    return msgspec.json.encode(checkpoint)


def parse_offsets(text: str) -> GivenOffsets:
    """Parse the offsets of an option. Raises: UsageError."""
    offsets = _by_queue(text, f"write earliest, latest or JSON like {_EXAMPLE}; this text is neither")
    for queue, offset in offsets.items():
        if offset < EARLIEST_NUMBER:
            raise UsageError(f"the offset of {queue} is {offset}; write 0 or more, -2 (earliest) or -1 (latest)")
    return GivenOffsets(text, offsets)


def to_checkpoint(offsets: Mapping[MessageQueue, int], known: Mapping[MessageQueue, KnownMessage] = {}) -> Checkpoint:
    """Return offsets in the form of a checkpoint, sorted by queue."""
    checkpoint: Checkpoint = _by_name(offsets)
    if known:
        checkpoint[_KNOWN] = _by_name({queue: list(message) for queue, message in known.items()})
    return checkpoint


def _by_name(values: Mapping[MessageQueue, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    named: dict[str, dict[str, dict[str, Any]]] = {}
    for queue in sorted(values):
        brokers = named.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = values[queue]
    return named


def from_checkpoint(checkpoint: Mapping[str, Any]) -> Offsets:
    """Return the offsets of a checkpoint. Raises: ValueError (a queue id isn't a number)."""
    return _by_queue_of({topic: brokers for topic, brokers in checkpoint.items() if topic != _KNOWN})


def known_in(checkpoint: Mapping[str, Any]) -> dict[MessageQueue, KnownMessage]:
    """Return the known messages of a checkpoint; none for one of an earlier version. Raises: ValueError."""
    known = _by_queue_of(checkpoint.get(_KNOWN, {}))
    return {queue: KnownMessage(*message) for queue, message in known.items()}


def _by_queue_of(named: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[MessageQueue, Any]:
    values: dict[MessageQueue, Any] = {}
    for topic, brokers in named.items():
        for broker_name, queues in brokers.items():
            for queue_id, value in queues.items():
                values[MessageQueue(topic, broker_name, _queue_id(queue_id))] = value
    return values


def _queue_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is not a queue id")
    return int(text)


def unknown_queues(wanted: Iterable[MessageQueue], known: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return the wanted queues that don't exist, sorted."""
    return sorted(set(wanted) - set(known))
