"""The brokers' records as Parquet files: journals, one file per broker and start, and the offsets of groups.

A journal starts empty with its broker, and its size is limited. So records that were written here are kept, and new
ones are added to the file of this start. A start is identified by its records, not only by its message time, which may
be frozen: a journal whose record has another real time than the file's with that number is of another start.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
# A broker computes a record's real time from its uptime at each request, so two responses may differ by a moment.
REAL_MS_APART_MAX = 100
_US = 1_000

Progress = tuple[str, str, str, int, int, int]


def newest_journal(folder: Path, broker: str, started_ms: int) -> Path:
    """Return the path of the newest file for a broker that was started at that message time; it may not exist."""
    path = folder / f"{broker}-{started_ms}.parquet"
    while (following := _following(path)).exists():
        path = following
    return path


def _following(path: Path) -> Path:
    """Return the path for the next start at the same message time."""
    broker_and_start, _, number = path.stem.partition("+")
    return path.with_name(f"{broker_and_start}+{int(number or 1) + 1}.parquet")


class LastRecord(NamedTuple):
    """The newest record in a file."""

    number: int
    real_ms: int
    kind: str

    def continues(self, found: Sequence[JournalRecord]) -> bool:
        """Return whether a journal is of the same start. `found`: its records from this record's number on.

        If the journal has dropped that record, its later ones count as those of the same start.
        """
        if self.number == 0:
            return True
        if not found or found[0].number != self.number:
            return bool(found)
        return found[0].kind == self.kind and abs(found[0].real_ms - self.real_ms) <= REAL_MS_APART_MAX


NO_RECORD = LastRecord(0, 0, "")


def last_record(path: Path) -> LastRecord:
    """Return the newest record in a file; numbers are 0 if there is no file."""
    if not path.exists():
        return NO_RECORD
    table = parquet.ParquetFile(path).read(columns=["number", "realAt", "kind"])
    row = table.sort_by([("number", "descending")]).slice(0, 1)
    number, real_at = row["number"][0].as_py(), row["realAt"].cast(pa.int64())[0].as_py()
    return LastRecord(int(number), int(real_at) // _US, str(row["kind"][0].as_py()))


def path_of_next_start(path: Path) -> Path:
    """Return the path for a broker's next start at the same message time."""
    return _following(path) if path.exists() else path


def add_journal(path: Path, records: Sequence[JournalRecord]) -> None:
    """Add records at the end of a file."""
    rows = [_row(record) for record in records]
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
