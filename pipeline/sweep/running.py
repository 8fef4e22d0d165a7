"""One run of a sweep as a row, on an executor. It never raises an exception: errors are in the row.

An executor may be on another machine. So the workload file is sent as text, and written once per worker.
"""

import hashlib
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from staticfire.pipeline.sweep.plan import SweepRun
from staticfire.simulation.runs.measures import RunMeasures, RunMeter
from staticfire.simulation.runs.play import Play, freeze_for_good, play
from staticfire.simulation.runs.seeds import made_for
from staticfire.simulation.runs.swarm import maker_of
from staticfire.simulation.workload.loading import WorkloadMaker
from staticfire.simulation.workload.varying import varied

if TYPE_CHECKING:
    import pyarrow as pa

MEASURES = RunMeasures.__struct_fields__
ERROR_FRAMES_MAX = 3
_ALL_TAGS = "*"

RESULT_TYPES = {
    **dict.fromkeys(MEASURES, "bigint"),
    "passed": "boolean",
    "violations": "int",
    "violation": "string",
    "faults": "int",
    "virtual_ms": "bigint",
    "cpu_s": "double",
    "fingerprint": "string",
    "error": "string",
    "command": "string",
    "workload": "string",
}
"""The columns after the run's number, seed and values. `violation`: the text of the first one; `error`: why there is no
run; `workload`: SweepPlan.digest."""


@dataclass(frozen=True, slots=True)
class SweepRunner:
    """The data that an executor needs for any row."""

    path: str
    text: str
    hours: float
    names: tuple[str, ...]

    def rows(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Run the rows of a partition; yield each when it is done. `mapInArrow` calls this."""
        import pyarrow as pa

        freeze_for_good()
        schema = _arrow_schema(self.names)
        for batch in batches:
            for row in batch.to_pylist():
                run = SweepRun(row["run"], row["seed"], tuple(row["values"]))
                result = self.result(run) | {"command": row["command"], "workload": row["workload"]}
                known = {"run": run.run, "seed": run.seed, **dict(zip(self.names, run.values, strict=True))}
                yield pa.RecordBatch.from_pylist([known | result], schema)

    def result(self, run: SweepRun) -> dict[str, Any]:
        """Return the result of a run, or the reason why it failed."""
        try:
            return self._played(run)
        except Exception:  # noqa: BLE001 (one row of thousands: the others must still be run)
            return {"error": traceback.format_exc(limit=-ERROR_FRAMES_MAX).strip()}

    def _played(self, run: SweepRun) -> dict[str, Any]:
        changes = dict(zip(self.names, run.values, strict=True))
        workload = varied(made_for(_maker(self.path, self.text), run.seed), changes)
        outcome = play(workload, Play(run.seed, self.hours, keeps_events=True))
        whole = {group.name: group.topics for group in workload.groups if group.expression == _ALL_TAGS}
        meter = RunMeter(whole)
        for event in outcome.events:
            meter.see(event)
        measures = meter.measures(outcome.virtual_ms)
        return {name: getattr(measures, name) for name in MEASURES} | {
            "passed": outcome.passed,
            "violations": len(outcome.violations),
            "violation": str(outcome.violations[0]) if outcome.violations else None,
            "faults": len(outcome.strikes),
            "virtual_ms": outcome.virtual_ms,
            "cpu_s": outcome.cpu_s,
            "fingerprint": outcome.fingerprint,
        }


def result_schema(names: tuple[str, ...]) -> str:
    """Return the columns of the results, as Spark's DDL."""
    columns: Mapping[str, str] = {
        "run": "int", "seed": "bigint", **dict.fromkeys(names, "string"), **RESULT_TYPES,
    }  # fmt: skip
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def _arrow_schema(names: tuple[str, ...]) -> "pa.Schema":
    import pyarrow as pa

    kinds = {"bigint": pa.int64(), "boolean": pa.bool_(), "int": pa.int32(), "string": pa.string(),
             "double": pa.float64()}  # fmt: skip
    columns = [("run", pa.int32()), ("seed", pa.int64()), *((name, pa.string()) for name in names)]
    return pa.schema([*columns, *((name, kinds[kind]) for name, kind in RESULT_TYPES.items())])


@cache
def _maker(path: str, text: str) -> WorkloadMaker:
    """Return a maker of workloads, from the file if it is the same here, else from its text. Raises: UsageError."""
    here = Path(path)
    if not path or (here.is_file() and here.read_text(encoding="utf-8") == text):
        return maker_of(path)
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    folder = Path(tempfile.mkdtemp(prefix=f"staticfire-sweep-{digest}-"))
    (folder / here.name).write_text(text, encoding="utf-8")
    return maker_of(str(folder / here.name))
