"""What a page says, as plain values. `render.py` makes HTML of it.

Plots are plotly's own traces and layouts, with one exception: where a colour stands, `@1` ... `@4` (a series), `@muted`
(a guide line) and `@scale` (a colour scale) may stand as well. The page puts in what fits the reader's light or dark
theme, and changes it with the theme.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One number that the page opens with."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot. `name` is its id in the page; `told` says in words what it shows, for who can't see it."""

    name: str
    title: str
    caption: str
    traces: Sequence[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    told: str = ""
    height_px: int = 360


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. Numbers stand right-aligned, with separators between thousands."""

    name: str
    is_number: bool = False
    decimals: int = 0
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title; `folded` ones open with a click."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | None]]
    caption: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what there is to say, then plots and tables."""

    title: str
    words: str
    parts: Sequence[Plot | Table] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """All of it."""

    title: str
    subtitle: str
    figures: Sequence[KeyFigure]
    sections: Sequence[Section]
    foot: str = ""

    @property
    def plots(self) -> list[Plot]:
        return [part for section in self.sections for part in section.parts if isinstance(part, Plot)]


def number_text(value: float, decimals: int = 0) -> str:
    """Return a number as people read it: 336,776."""
    return f"{value:,.{decimals}f}"


def duration_text(duration_ms: float) -> str:
    """Return a span of time in the unit that suits it: 850 ms, 1.02 s, 4 h 45 min."""
    if duration_ms < 1_000:
        return f"{duration_ms:,.0f} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1_000:.{2 if duration_ms < 10_000 else 1}f} s"
    minutes = round(duration_ms / 60_000)
    hours, rest = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if rest else f"{hours} h"
