"""The generated part of docs/performance.md: the results of `make bench ARGS=--curves`, as tables and charts.

The charts use Mermaid, which GitHub and most Markdown viewers render, so no image has to be stored.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.report import number
from tools.generated import markdown_table

RECORDED = Path(__file__).resolve().parent.parent / "benchmarks" / "recorded" / "curves.json"


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
