"""The card of an ingest: a small file in its output folder and its checkpoint, which shows that they belong together.

Spark's file sink writes each batch exactly once only while the same checkpoint and output folder are used together.
Spark doesn't check that. With a new checkpoint it numbers its batches from 0, and the sink skips numbers that it has,
so messages would be missing. The same happens with an emptied folder and an old checkpoint. The card detects both.
Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from staticfire.protocol.errors import UsageError

CARD_NAME = "_staticfire_ingest.json"
VERSION = 1


class Card(msgspec.Struct, rename="camel", frozen=True):
    """The ingest that a folder belongs to."""

    ingest_id: str
    topics: tuple[str, ...]
    partition_by: tuple[str, ...]
    columns: str = ""
    """The table's schema as Spark's JSON, so that a reader doesn't have to guess the types of partition columns."""
    version: int = VERSION

    def schema_json(self) -> dict[str, Any]:
        """Return the table's schema in the form that Spark's StructType.fromJson accepts."""
        fields: dict[str, Any] = msgspec.json.decode(self.columns)
        return fields

    def encode(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self).decode(), indent=2) + "\n"

    @classmethod
    def decode(cls, text: str, place: str) -> "Card":
        """Read a card. Raises: UsageError (it is damaged, or from a newer version)."""
        try:
            card = msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise UsageError(
                f"{place}/{CARD_NAME} is damaged ({error}); this file identifies the ingest that wrote the folder"
            ) from None
        if card.version > VERSION:
            raise UsageError(f"{place} was written by a newer staticfire (its card has version {card.version})")
        return card


@dataclass(frozen=True, slots=True)
class FolderState:
    """The state of a folder before a start. `names`: its entries without the card, the lock and Spark's checksums."""

    place: str
    card: Card | None = None
    names: Sequence[str] = ()
    has_batches: bool = False
    """Whether a batch was ever committed. Spark commits first to the sink's log (output), then to the checkpoint."""
    inside: str = ""
    """The folder of another ingest that contains this one."""


def check(wanted: Card, output: FolderState, checkpoint: FolderState) -> Card:
    """Return the card to continue with; `wanted` itself for a new ingest. Raises: UsageError."""
    if output.card is None:
        _check_new(output, checkpoint)
        return wanted
    known = output.card
    if checkpoint.card is not None and checkpoint.card.ingest_id != known.ingest_id:
        raise UsageError(f"checkpoint {checkpoint.place} belongs to another ingest, not to {output.place}")
    if checkpoint.card is None and (output.has_batches or checkpoint.names):
        raise UsageError(
            f"{output.place} was written with another checkpoint than {checkpoint.place}: use that checkpoint; if it "
            "is lost, ingest into a new folder, because a new checkpoint would cause gaps in this one"
        )
    if checkpoint.has_batches and not output.has_batches:
        raise UsageError(
            f"{output.place} has lost files that were written with checkpoint {checkpoint.place}: ingest into a new "
            "folder "
            "with a new checkpoint"
        )
    gone = [topic for topic in known.topics if topic not in wanted.topics]
    if gone:
        raise UsageError(
            f"{output.place} and its checkpoint are of {', '.join(known.topics)}, not of {', '.join(wanted.topics)}: "
            "topics can be added, but not removed; use another folder"
        )
    if known.partition_by != wanted.partition_by:
        raise UsageError(
            f"{output.place} is partitioned by {','.join(known.partition_by) or 'nothing'}, not by "
            f"{','.join(wanted.partition_by) or 'nothing'}: use the same columns, or another folder"
        )
    return msgspec.structs.replace(wanted, ingest_id=known.ingest_id)


def _check_new(output: FolderState, checkpoint: FolderState) -> None:
    """Check that neither folder is in use. Raises: UsageError."""
    if checkpoint.card is not None:
        raise UsageError(
            f"checkpoint {checkpoint.place} belongs to an ingest of {', '.join(checkpoint.card.topics)} into another "
            f"folder than {output.place}: use that folder, or another checkpoint"
        )
    if output.inside:
        raise UsageError(
            f"{output.place} is inside of {output.inside}, which another ingest writes: use a folder outside of it, "
            "because readers of that table would read this one, too"
        )
    if output.names:
        raise UsageError(
            f"{output.place} contains other files ({output.names[0]}): use an empty or a new folder, or the folder of "
            "an earlier ingest"
        )
    if checkpoint.names:
        raise UsageError(f"checkpoint {checkpoint.place} contains other files ({checkpoint.names[0]}): use another one")
