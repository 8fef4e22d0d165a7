"""The brokers' records as Parquet files: journals, one file per broker and start, and the offsets of groups.

A journal starts empty with its broker, and its size is limited. So records that were written here are kept, and new
ones are added to the file of this start. The broker chooses a random id for its journal at each start, and the file's
name contains it. Records are numbered, so one that is in the file already isn't added again.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import parquet

from staticfire.protocol.requests.journal import JournalRecord

JOURNAL_SCHEMA = pa.schema(
    [
        ("number", pa.int64()), ("brokerName", pa.string()), ("kind", pa.string()),
        ("at", pa.timestamp("us", "UTC")), ("realAt", pa.timestamp("us", "UTC")), ("client", pa.string()),
        ("groupName", pa.string()), ("topic", pa.string()), ("queueId", pa.int32()), ("queueOffset", pa.int64()),
        ("endOffset", pa.int64()), ("messageId", pa.string()), ("words", pa.string()), ("rate", pa.float64()),
        ("details", pa.string()),
    ]
)  # fmt: skip
PROGRESS_SCHEMA = pa.schema(
    [
        ("groupName", pa.string()), ("topic", pa.string()), ("brokerName", pa.string()), ("queueId", pa.int32()),
        ("committed", pa.int64()), ("endOffset", pa.int64()),
    ]
)  # fmt: skip
FROZEN = "frozen"
_US = 1_000

Progress = tuple[str, str, str, int, int, int]


def journal_path(folder: Path, broker: str, journal_id: str) -> Path:
    """Return the path of the file for a broker's journal; it may not exist."""
    return folder / f"{broker}-{journal_id}.parquet"


def last_number_in(path: Path) -> int:
    """Return the number of the newest record in a file; 0 if there is no file."""
    if not path.exists():
        return 0
    numbers: list[int] = parquet.ParquetFile(path).read(columns=["number"])["number"].to_pylist()
    return max(numbers)


def add_journal(path: Path, records: Sequence[JournalRecord]) -> None:
    """Add the records at the end of a file that are newer than those in it."""
    last = last_number_in(path)
    rows = [_row(record) for record in records if record.number > last]
    if not rows:
        return
    parts = [pa.Table.from_pylist(rows, JOURNAL_SCHEMA)]
    if path.exists():
        parts.insert(0, parquet.ParquetFile(path).read())
    _write(pa.concat_tables(parts), path)


def write_progress(folder: Path, rows: Sequence[Progress]) -> None:
    """Write the offsets of the groups."""
    named = [dict(zip(PROGRESS_SCHEMA.names, row, strict=True)) for row in rows]
    _write(pa.Table.from_pylist(named, PROGRESS_SCHEMA), folder / "progress.parquet")


def _write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partly = path.with_name(f".{path.name}.part")
    parquet.write_table(table, partly)
    partly.replace(path)


def _row(record: JournalRecord) -> dict[str, object]:
    details = record.details
    return {
        "number": record.number,
        "brokerName": record.broker,
        "kind": record.kind,
        "at": record.message_ms * _US,
        "realAt": record.real_ms * _US,
        "client": record.client,
        "groupName": record.group,
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "endOffset": details.get("endOffset", -1),
        "messageId": details.get("messageId", ""),
        "words": str(details.get("reason") or details.get("before") or ""),
        "rate": _rate(details),
        "details": msgspec.json.encode(details).decode(),
    }


def _rate(details: dict[str, object]) -> float | None:
    if "rate" not in details:
        return None
    return 0.0 if str(details.get("mode", "")).lower() == FROZEN else float(str(details["rate"]))
