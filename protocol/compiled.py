"""The compiled twin of a few hot functions, if there is one: what is built without a compiler has none.

Nothing but speed depends on it (docs/decisions/0019-compiled-parts.md). STATICFIRE_PURE_PYTHON=1 does without.
"""

import os  # house: known before the hot functions are chosen; no setting of a broker's
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from staticfire.protocol.record import Buffer

TakenSends: TypeAlias = tuple[int, bytes, int, list[tuple[Any, bytes]], bytes]
"""Where what wasn't taken begins, records of the log, where the last of them begins, each queue with its new entries,
answers.
"""

FindPlace: TypeAlias = Callable[[str, int], tuple[Any, bytes, int] | None]
"""Of a topic and a queue id the queue, the topic as records have it, and the next offset; None leaves it to Python."""


class Twin(Protocol):
    """What the extension module `_compiled` has."""

    def rocketmq_records(
        self, slices: Sequence[Buffer], store_host: bytes, otherwise: Callable[[Buffer, bytes, int], bytes], /
    ) -> list[bytes]:
        """`rocketmq_record.rocketmq_records`; `otherwise` makes what isn't plain."""

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
        forms: tuple[bytes, bytes, bytes],
        room: tuple[int, int, int],
        body_bytes_max: int,
        stored_ms: int,
        born_host: bytes,
        added: bytes,
        find: FindPlace,
        crc32: Callable[[Buffer], int],
        /,
    ) -> TakenSends | None:
        """Take the plain sends from `at` on that begin before `stop`: all that broker/handlers/send_runs.py says.

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
        /,
    ) -> TakenSends | None:
        """The same over JSON. `forms`: language and version of their headers; `hot_json.sent_parts`."""


MADE_FOR = 5
"""Goes up, here and in the source of the twin, with each change of what one of the functions does."""


def usable_twin(name: str) -> Twin | None:
    """Return the extension module, if there is one that was built from the source as it is now."""
    try:
        module = import_module(name)
    except ImportError:
        return None
    return cast(Twin, module) if getattr(module, "MADE_FOR", 1) == MADE_FOR else None


twin = None if os.environ.get("STATICFIRE_PURE_PYTHON") else usable_twin("staticfire.protocol._compiled")
