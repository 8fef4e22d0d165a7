"""The compiled version ("twin") of a few hot functions. It doesn't exist if staticfire was built without a compiler.

Only speed depends on it (docs/decisions/0019-compiled-parts.md). STATICFIRE_PURE_PYTHON=1 disables it.
"""

import os  # house: known before the hot functions are chosen; no setting of a broker's
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from staticfire.protocol.record import Buffer

TakenTransactions: TypeAlias = tuple[dict[int, tuple[int, str, int, int]], dict[int, bytes], list[int]]
"""The half messages that have begun, by queue offset: log position, producer group, check time, 0; the records of those
that are small enough to be kept, by log position; the queue offsets of those that have ended.
"""

Packed: TypeAlias = tuple[bytes, int, list[tuple[Any, bytes, int]]]
"""Records for the log, the position of the last one, and the new entries of each queue with their records' size."""

TakenSends: TypeAlias = tuple[int, Packed, bytes, TakenTransactions | None]
"""The position of the first request not taken, the packed records, the responses; half messages and ends, if any."""

Halves: TypeAlias = tuple[dict[int, Any], Callable[[], tuple[Any, bytes, int] | None], int]
"""The open half messages that are kept, by log position; a function that returns the queue of half messages, like
`FindPlace`; the delay in ms before a half message is checked. Taking an end removes its half message from the first.
"""

FindPlace: TypeAlias = Callable[[str, int], tuple[Any, bytes, int] | None]
"""For a topic and queue id: the queue, the packed topic and the next offset; None if Python must handle the send."""

TakenCopies: TypeAlias = tuple[int, int, int, list[tuple[Any, bytes, int]]]
"""Where the first record begins that was not taken, the position and newest store time of those that were; their new
entries as in `Packed`.
"""

StoredFields: TypeAlias = tuple[bytes, bytes, bytes, int, int, int, int, int]
TopicFields: TypeAlias = tuple[bytes, bytes, bytes, dict[bytes, int]]
ReceivedHead: TypeAlias = Callable[[StoredFields, TopicFields, bytes, str, int], bytes | None]
"""The type of `received_head`: fields of the record and of its topic, then digest, receipt and attempt."""

TextColumn: TypeAlias = tuple[bytes, bytes, bytes, int]
"""A column of texts in Arrow's format: start offsets, bytes, a bit for each non-null text, the number of nulls."""

PlainColumns: TypeAlias = tuple[
    int, bytes, bytes, bytes, bytes, bytes, bytes | None, bytes | None, tuple[TextColumn, ...]
]
"""The number of rows; queue offsets (64 bits), store and born times (microseconds, 64), flags and reconsume times (32);
the start offsets of the bodies and their bytes; the properties, in the order of their names.
"""


class TakeSends(Protocol):
    """Takes runs of plain sends, for one codec."""

    def __call__(  # house: called once per burst with what differs each time
        self,
        data: bytes,
        at: int,
        stop: int,
        forms: tuple[Any, ...],
        room: tuple[int, int, int],
        body_bytes_max: int,
        stored_ms: int,
        born_host: bytes,
        added: bytes,
        find: FindPlace,
        crc32: Callable[[Buffer], int],
        halves: Halves | None,
        has_slaves: bool,
        /,
    ) -> TakenSends | None:
        """Take the plain sends that begin from `at` on and before `stop`, as described in broker/handlers/send_runs.py.

        With `halves`, half messages and their ends are plain, too. With `has_slaves`, sends wait for these, so that one
        whose WAIT isn't true isn't plain.

        `forms`: what the headers of the peer have in common, and the parts of the responses. `room`: the position, the
        end limit of the records, and the maximum size of one. None: the first send isn't plain.
        """


class Twin(Protocol):
    """The content of the extension module `_compiled`."""

    def rocketmq_records(
        self, slices: Sequence[Buffer], store_host: bytes, otherwise: Callable[[Buffer, bytes, int], bytes], /
    ) -> list[bytes]:
        """See `rocketmq_record.rocketmq_records`. `otherwise` converts a record that isn't plain."""

    def pulled_frame(
        self, slices: Sequence[Buffer], store_host: bytes, header: bytes, frame_bytes_max: int, /
    ) -> bytes | None:
        """Return the frame of a JSON response: this header, and the stored records converted to RocketMQ's format.

        The slices are immutable bytes. None if one of the records isn't plain, or the frame would be too large.
        """

    def pack_batch(  # house: called once per batch with numbers that differ each time
        self,
        batch: Buffer,
        added: bytes,
        log_position: int,
        queue_id: int,
        queue_offset: int,
        stored_ms: int,
        born_ms: int,
        born_host: bytes,
        packed_topic: bytes,
        record_bytes_max: int,
        crc32: Callable[[Buffer], int],
        /,
    ) -> tuple[bytes, bytes, list[int]] | None:
        """Return a batch's records as they are stored in the log, its queue entries, and the position of each record.

        None if it isn't plain: a flag, an empty or broken message, an IPv6 host, a record larger than
        `record_bytes_max`.
        """

    def are_proven(  # house: called once per pull with what the store has at hand
        self,
        slices: Sequence[bytes],
        positions: Sequence[int],
        sizes: Sequence[int],
        queue_id: int,
        packed_topic: bytes,
        first_offset: int,
        end_offset: int,
        crc32: Callable[[Buffer], int],
        /,
    ) -> bool:
        """Return whether each record is complete, at its position and of that queue, and whether the offsets rise.

        The offsets must be at least the first and below the end. `slices`: one per record, or all in one. It is as
        strict as `record.proven_offset`.
        """

    take_native_sends: TakeSends
    """`forms`: the bytes between opaque and fields in the headers, then those of `hot_native.sent_forms`."""
    take_json_sends: TakeSends
    """`forms`: language and version in the headers, then `hot_json.sent_parts`."""

    def take_copied(
        self, data: bytes, at: int, position: int, find: FindPlace, crc32: Callable[[Buffer], int], /
    ) -> TakenCopies | None:
        """Take the plain records of a piece of another log that begin from `at` on; `position` is that of `at`.

        Each is complete, at its position and the next one of its queue; its tags code is that of its properties. It is
        as strict as `record.check_record`. None: the first one isn't plain.
        """

    received_head: ReceivedHead
    """Returns a response of the gRPC endpoint with a message, up to its body; None if the message isn't plain.

    Of the record: properties, body, the born host's field, sys flag, born and store time in ms, queue id and offset. Of
    the topic: its field, the head of the digest, the store host's field, the meaning of property names.
    """

    def record_columns(
        self, bodies: list[bytes], skip: int, names: tuple[bytes, ...], with_body: bool, /
    ) -> PlainColumns | None:
        """Return the columns of the stored records in these responses; each has `skip` bytes before its first record.

        `names`: the requested properties, 8 at most. None if one of the records isn't plain: its body is compressed,
        its properties aren't ASCII or aren't repeated `name 01 value 02`, or anything is broken.
        """


MADE_FOR = 12
"""Increased, here and in the source of the compiled version, with each change of what one of the functions does."""


def usable_twin(name: str) -> Twin | None:
    """Return the extension module if there is one, built for this version of MADE_FOR."""
    try:
        module = import_module(name)
    except ImportError:
        return None
    return cast(Twin, module) if getattr(module, "MADE_FOR", 1) == MADE_FOR else None


twin = None if os.environ.get("STATICFIRE_PURE_PYTHON") else usable_twin("staticfire.protocol._compiled")
