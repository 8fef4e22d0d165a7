"""A curve: what some values are for more and more of something."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log

from benchmarks.figures import Stand, Values

BENDS_ABOVE = 1.15
# Twice as many cost more than twice as much: n log n is about n ** 1.1 between the points that are measured here.


@dataclass(frozen=True)
class Curve:
    """What is counted, at which numbers, and what is printed of each."""

    name: str
    what: str
    """Of the axis."""
    points: tuple[int, ...]
    columns: Mapping[str, str]
    """A value's key, and what it is called, with its unit."""
    measure: Callable[[int, Stand], Values]
    note: str = ""
    """What a reader has to know to understand the figures."""

    def points_of(self, stand: Stand) -> tuple[int, ...]:
        """The points that are measured; a quick round leaves out the last one."""
        return self.points[:-1] if stand.is_quick else self.points


def exponent(values: Mapping[int, float]) -> float | None:
    """Return e of values that grow like x ** e, between the last point and the one before; None of fewer than two.

    0 is a cost that doesn't depend on the number, 1 one that is in proportion to it.
    """
    points = sorted(point for point, value in values.items() if value > 0 and point > 0)
    if len(points) < 2:
        return None
    before, last = points[-2:]
    return log(values[last] / values[before]) / log(last / before)
