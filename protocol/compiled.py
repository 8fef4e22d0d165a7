"""The compiled twin of a few hot functions, if there is one: what is built without a compiler has none.

Nothing but speed depends on it (docs/decisions/0019-compiled-parts.md). STATICFIRE_PURE_PYTHON=1 does without.
"""

import os  # house: known before the hot functions are chosen; no setting of a broker's
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from staticfire.protocol.record import Buffer

TakenTransactions: TypeAlias = tuple[dict[int, tuple[int, str, int, int]], dict[int, bytes], list[int]]
"""The half messages that have begun, by queue offset: log position, producer group, when it is asked about, 0; the
records of those that aren't too large to be kept, by log position; the queue offsets of those that have ended.
"""

Packed: TypeAlias = tuple[bytes, int, list[tuple[Any, bytes, int]]]
"""Records of the log, where the last begins; each queue with its new entries, and how large their records are."""

TakenSends: TypeAlias = tuple[int, Packed, bytes, TakenTransactions | None]
"""Where what wasn't taken begins, what was, answers; half messages and their ends, if there are any."""

Halves: TypeAlias = tuple[dict[int, Any], Callable[[], tuple[Any, bytes, int] | None], int]
"""The open half messages that are kept, by log position; the queue of half messages, as `FindPlace` has it; after how
many ms one is asked about. An end that is taken takes its half message out of the first.
"""

FindPlace: TypeAlias = Callable[[str, int], tuple[Any, bytes, int] | None]
"""Of a topic and a queue id the queue, the topic as records have it, and the next offset; None leaves it to Python."""

StoredFields: TypeAlias = tuple[bytes, bytes, bytes, int, int, int, int, int]
TopicFields: TypeAlias = tuple[bytes, bytes, bytes, dict[bytes, int]]
ReceivedHead: TypeAlias = Callable[[StoredFields, TopicFields, bytes, str, int], bytes | None]
"""`received_head` of the twin: what it is given of the record and of its topic, then digest, receipt and attempt."""

TextColumn: TypeAlias = tuple[bytes, bytes, bytes, int]
"""A column of texts as Arrow has it: where each begins, all of them, a bit for each that is there; how many aren't."""

PlainColumns: TypeAlias = tuple[
    int, bytes, bytes, bytes, bytes, bytes, bytes | None, bytes | None, tuple[TextColumn, ...]
]
"""How many rows; queue offsets (64 bits), when they were stored and born (microseconds, 64), flags and times of
consumption (32); where each body begins and all of them; properties, in the order of their names.
"""


class Twin(Protocol):
    """What the extension module `_compiled` has."""

    def rocketmq_records(
        self, slices: Sequence[Buffer], store_host: bytes, otherwise: Callable[[Buffer, bytes, int], bytes], /
    ) -> list[bytes]:
        """`rocketmq_record.rocketmq_records`; `otherwise` makes what isn't plain."""

    def pulled_frame(
        self, slices: Sequence[Buffer], store_host: bytes, header: bytes, frame_bytes_max: int, /
    ) -> bytes | None:
        """Return the frame of an answer over JSON: this header, and RocketMQ's records of the stored ones.

        The slices are bytes that don't change. None if one of the records isn't plain, or all are too many.
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
        """Return a batch's body as it lies in the log, its entries of the queue, and the position of each record.

        None if it isn't plain: a flag, an empty or broken message, a host of IPv6, a record beyond `record_bytes_max`.
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
        """Whether each record is whole, at its position, of that queue; their offsets go up, from first to before end.

        `slices`: one per record, or all in one. As strict as `record.proven_offset`.
        """

    def take_native_sends(  # house: called once per burst with what differs each time
        self,
        data: bytes,
        at: int,
        stop: int,
        forms: tuple[bytes, bytes, bytes, bytes],
        room: tuple[int, int, int],
        body_bytes_max: int,
        stored_ms: int,
        born_host: bytes,
        added: bytes,
        find: FindPlace,
        crc32: Callable[[Buffer], int],
        halves: Halves | None,
        /,
    ) -> TakenSends | None:
        """Take the plain sends from `at` on that begin before `stop`: all that broker/handlers/send_runs.py says.

        With `halves` half messages and their ends are plain, too.

        `forms`: what stands between opaque and fields in their headers; `hot_native.sent_forms`. `room`: position,
        where records have to end, and how large one may be. None: the first isn't plain.
        """

    def take_json_sends(  # house: called once per burst with what differs each time
        self,
        data: bytes,
        at: int,
        stop: int,
        forms: tuple[bytes, int, tuple[bytes, ...]],
        room: tuple[int, int, int],
        body_bytes_max: int,
        stored_ms: int,
        born_host: bytes,
        added: bytes,
        find: FindPlace,
        crc32: Callable[[Buffer], int],
        halves: Halves | None,
        /,
    ) -> TakenSends | None:
        """The same over JSON. `forms`: language and version of their headers; `hot_json.sent_parts`."""

    received_head: ReceivedHead
    """Returns an answer of the gRPC endpoint with a message, up to its body; None if it isn't plain.

    Of the record: properties, body, the field of the born host, sys flag, born and stored ms, queue id and offset.
    Of the topic: its field, the head of the digest, the field of the store host, what names of properties mean.
    """

    def record_columns(
        self, bodies: list[bytes], skip: int, names: tuple[bytes, ...], with_body: bool, /
    ) -> PlainColumns | None:
        """Return the columns of the stored records in these answers, each of which has `skip` bytes before the first.

        `names`: the properties that are wanted, 8 at most. None where one of the records isn't plain: its body is
        compressed, its properties aren't ASCII or aren't `name 01 value 02` over and over, or anything is broken.
        """


MADE_FOR = 10
"""Goes up, here and in the source of the twin, with each change of what one of the functions does."""


def usable_twin(name: str) -> Twin | None:
    """Return the extension module, if there is one that was built from the source as it is now."""
    try:
        module = import_module(name)
    except ImportError:
        return None
    return cast(Twin, module) if getattr(module, "MADE_FOR", 1) == MADE_FOR else None


twin = None if os.environ.get("STATICFIRE_PURE_PYTHON") else usable_twin("staticfire.protocol._compiled")
