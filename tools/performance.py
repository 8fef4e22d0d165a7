"""The generated parts of docs/performance.md: the last recorded run of `make bench`, and `make bench ARGS=--curves`.

The charts use Mermaid, which GitHub and most Markdown viewers render, so no image has to be stored.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.goals import GOALS
from benchmarks.history import is_quiet, read
from benchmarks.report import number
from tools.generated import markdown_table

RECORDED = Path(__file__).resolve().parent.parent / "benchmarks" / "recorded" / "curves.json"


def performance_figures() -> str:
    """Return the figures of the last run that had the machine to itself, beside the goals."""
    quiet = [line for line in read() if is_quiet(line)]
    if not quiet:
        return "No run was recorded yet that had the machine to itself (`make bench ARGS=--record`)."
    line = quiet[-1]
    head = (
        f"Measured on {line['day']} at {line['commit']}: {line['cpu']}, {line['cores']} cores, "
        f"Python {line['python']}; the CRC-32 of 1 KiB took the standard library {line['crc32_1k_ns']} ns (266 where "
        "the goals were set)."
    )
    rows = []
    for goal in GOALS:
        value = line["figures"].get(goal.key)
        if value is not None:
            verdict = goal.verdict({key: figure for key, figure in line["figures"].items() if figure is not None})
            rows.append([goal.what, f"{number(value)} {goal.unit}", goal.words, verdict.value, goal.rocketmq])
    return f"{head}\n\n{markdown_table(['', 'figure', 'goal', '', 'RocketMQ 5.3.3'], rows)}"


def performance_curves() -> str:
    """Return a section per curve: a table, and a chart of its first column."""
    document = json.loads(RECORDED.read_text())
    machine = document["machine"]
    head = (
        f"Measured on {document['day']}: {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}; "
        f"the CRC-32 of 1 KiB took the standard library {machine['crc32_1k_ns']} ns."
    )
    return "\n\n".join([head, *(_section(curve) for curve in document["curves"].values())])


def _section(curve: dict[str, Any]) -> str:
    points = list(curve["values"])
    rows = []
    for key, words in curve["columns"].items():
        steep = curve["exponents"][key]
        values = [number(curve["values"][point][key]) for point in points]
        rows.append([words, *values, "" if steep is None else f"x^{steep:.2f}"])
    parts = [
        f"### {_capital(curve['what'])}",
        markdown_table(["", *(f"{int(point):,}" for point in points), "grows like"], rows),
        _chart(curve, points),
    ]
    if curve["note"]:
        parts.insert(1, curve["note"])
    return "\n\n".join(parts)


def _chart(curve: dict[str, Any], points: list[str]) -> str:
    key, words = next(iter(curve["columns"].items()))
    values = [curve["values"][point][key] for point in points]
    names = ", ".join(f'"{int(point):,}"' for point in points)
    return "\n".join(
        [
            "```mermaid",
            "xychart-beta",
            f'  x-axis "{curve["what"]}" [{names}]',
            f'  y-axis "{words}" 0 --> {_above(max(values))}',
            f"  bar [{', '.join(f'{value:g}' for value in values)}]",
            "```",
        ]
    )


def _above(value: float) -> str:
    return f"{value * 1.1:.3g}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
