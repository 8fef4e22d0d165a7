"""What somebody could get wrong about look-ups: what the key index lacks, and where isn't searched."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from staticfire.broker import key_index
from staticfire.broker.handlers.queries import KeyQuery
from staticfire.broker.key_index import KeyIndexer
from staticfire.client.admin import look_ups
from staticfire.protocol.properties import KEYS, UNIQ_KEY, find_property
from staticfire.protocol.sys_flag import TransactionKind

Patch = pytest.MonkeyPatch
COMPARED_BYTES = 12


def _first_key_only(patch: Patch) -> None:
    whole = key_index.keys_of

    def keys_of(properties: bytes) -> list[bytes]:
        unique_id = find_property(properties, UNIQ_KEY)
        return [*dict.fromkeys([*whole(properties)[:1], *([unique_id] if unique_id else [])])]

    patch.setattr(key_index, "keys_of", keys_of)


def _goes_on_at_the_end(patch: Patch) -> None:
    """A start forgets that a killed process hadn't written out what it had indexed."""
    whole = KeyIndexer._open

    async def opened(self: KeyIndexer) -> None:
        await whole(self)
        if self._index is not None:
            self._index.position = self._store.max_position

    patch.setattr(KeyIndexer, "_open", opened)


def _last_of_each_slice_missing(patch: Patch) -> None:
    whole = key_index.read_slice

    def read_slice(*given: Any) -> Any:
        part = whole(*given)
        return part._replace(entries=[entry for entry in part.entries if entry[1:] != part.last])

    patch.setattr(key_index, "read_slice", read_slice)


def _one_broker_searched(patch: Patch) -> None:
    whole = look_ups._joined

    def joined(parts: Sequence[Any], wanted: Any) -> Any:
        return whole([*parts][:1], wanted)

    patch.setattr(look_ups, "_joined", joined)


def _beginnings_compared(patch: Patch) -> None:
    whole = key_index.hashes_of
    patch.setattr(key_index, "hashes_of", lambda key: whole(key[:COMPARED_BYTES]))
    patch.setattr(KeyQuery, "has_key", lambda *_: True)


LOOK_UP_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "messages aren't indexed by their unique ids": lambda patch: patch.setattr(
        key_index, "keys_of", lambda properties: (find_property(properties, KEYS) or b"").split()
    ),
    "a message is found by its first key only": _first_key_only,
    "a start continues the key index at the end of the log": _goes_on_at_the_end,
    "the last record of what the key index reads is missing": _last_of_each_slice_missing,
    "committed messages aren't indexed": lambda patch: patch.setattr(
        key_index, "_ROLLBACK", int(TransactionKind.COMMIT)
    ),
    "a search in all topics finds the messages of one broker": _one_broker_searched,
    "keys with the same beginning are one key": _beginnings_compared,
}
