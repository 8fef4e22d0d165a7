"""What the data in a folder lacks: events that journals dropped, brokers without a journal. A small file beside it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from staticfire.pipeline.consumption.settings import ConsumptionSettings
from staticfire.pipeline.consumption.sources import Sources

GAPS = "gaps.json"


class Gaps(msgspec.Struct, rename="camel", frozen=True):
    """What is missing."""

    lost: dict[str, int] = {}
    """By file of a journal: the number of events that the broker had dropped before they were read."""
    journal_faults: tuple[str, ...] = ()
    """Brokers without a journal, with the reasons, at the last query."""

    @property
    def events_lost(self) -> int:
        """The number of lost events in all."""
        return sum(self.lost.values())


def write_gaps(settings: ConsumptionSettings, faults: Sequence[str], lost: Mapping[str, int]) -> None:
    """Add what was lost now, and replace the faults."""
    before = read_gaps(settings)
    total = {name: before.lost.get(name, 0) + lost.get(name, 0) for name in (*before.lost, *lost)}
    path = Path(settings.place(GAPS))
    path.parent.mkdir(parents=True, exist_ok=True)
    partly = path.with_name(f".{GAPS}.part")
    partly.write_bytes(msgspec.json.encode(Gaps({name: n for name, n in total.items() if n}, tuple(faults))))
    partly.replace(path)


def read_gaps(settings: ConsumptionSettings) -> Gaps:
    """Return what is missing; nothing if the folder isn't on this machine, or has no such file."""
    path = Path(settings.place(GAPS))
    if "://" in settings.folder or not path.exists():
        return Gaps()
    return msgspec.json.decode(path.read_bytes(), type=Gaps)


def sentences(gaps: Gaps, sources: Sources) -> tuple[str, ...]:
    """Return what the data lacks, as sentences for the page and the command's output."""
    found: list[str] = []
    if gaps.events_lost:
        found.append(
            f"Up to {gaps.events_lost:,} events are missing: brokers dropped them from their journals before they were "
            "read. Counts may be too low, and causes may be missing. Query more often, or raise journalSpillBytesMax."
        )
    if sources.has_journal:  # Without any, the page says so already.
        found += [f"There is no journal of {fault}." for fault in gaps.journal_faults]
    found += [
        f"{group} is left out: it is a broadcasting group, so each of its members consumes every message."
        for group in sources.broadcasting
    ]
    return tuple(found)
