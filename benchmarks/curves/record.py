"""Measure and print the curves, and store them for docs/performance.md in benchmarks/recorded/curves.json."""

import json
import resource
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.curves.curve import BENDS_ABOVE, Curve, exponent
from benchmarks.curves.numbers import NUMBERS
from benchmarks.curves.sizes import SIZES
from benchmarks.curves.stored import STORED
from benchmarks.figures import Stand, Values
from benchmarks.report import number

CURVES: list[Curve] = [*NUMBERS, *SIZES, *STORED]
RECORDED = Path(__file__).parent.parent / "recorded" / "curves.json"

Measured = dict[int, Values]


def draw(console: Console, stand: Stand, only: str) -> None:
    """Measure the curves that `only` names (all if it is empty), print each, and store them."""
    _allow_many_connections()
    words = [word for word in only.split(",") if word]
    chosen = [curve for curve in CURVES if not words or curve.name in words]
    if not chosen:
        raise SystemExit(f"bench: no curve is called {only}; there are: {', '.join(curve.name for curve in CURVES)}")
    document = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"curves": {}}
    for curve in chosen:
        measured: Measured = {}
        for point in curve.points_of(stand):
            machine.wait_until_quiet()
            measured[point] = curve.measure(point, stand)
            shown = "  ".join(f"{key} {number(value)}" for key, value in measured[point].items())
            console.print(f"[dim]{curve.name} {point:,}  {shown}")
        _show(console, curve, measured)
        document["curves"][curve.name] = _kept(curve, measured)
    document["machine"] = machine.describe() | {"crc32_1k_ns": round(machine.crc32_ns())}
    document["day"] = datetime.now(UTC).date().isoformat()
    RECORDED.write_text(json.dumps(document, indent=1) + "\n")
    console.print(f"written: {RECORDED}; `make docs` writes docs/performance.md of it")


def _kept(curve: Curve, measured: Measured) -> dict[str, object]:
    return {
        "what": curve.what,
        "note": curve.note,
        "columns": dict(curve.columns),
        "values": {
            str(point): {key: round(values[key], 3) for key in curve.columns} for point, values in measured.items()
        },
        "exponents": {key: _exponent(measured, key) for key in curve.columns},
    }  # fmt: skip


def _exponent(measured: Measured, key: str) -> float | None:
    found = exponent({point: values[key] for point, values in measured.items()})
    return None if found is None else round(found, 2)


def _show(console: Console, curve: Curve, measured: Measured) -> None:
    table = Table(title=curve.what, title_justify="left")
    table.add_column("")
    for point in measured:
        table.add_column(f"{point:,}", justify="right")
    table.add_column("grows like", justify="right")
    for key, words in curve.columns.items():
        steep = _exponent(measured, key)
        bends = steep is not None and steep > BENDS_ABOVE
        grows = "" if steep is None else f"[{'red' if bends else 'green'}]x^{steep:.2f}"
        table.add_row(words, *(number(values[key]) for values in measured.values()), grows)
    console.print(table)


def _allow_many_connections() -> None:
    """Raise the limit of open files for this process, and for the brokers that it starts, to the system's maximum."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
