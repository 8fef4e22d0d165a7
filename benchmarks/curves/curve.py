"""A curve: some values measured for growing numbers of something."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log

from benchmarks.figures import Stand, Values

# The exponent from which a cost grows faster than in proportion. Between the points used here, n log n is about
# n ** 1.1.
BENDS_ABOVE = 1.15


@dataclass(frozen=True)
class Curve:
    """What is counted, the measured points, and the printed values."""

    name: str
    what: str
    """The label of the axis."""
    points: tuple[int, ...]
    columns: Mapping[str, str]
    """A value's key, and its label with the unit."""
    measure: Callable[[int, Stand], Values]
    note: str = ""
    """What readers need to know to understand the figures."""

    def points_of(self, stand: Stand) -> tuple[int, ...]:
        """Return the points to measure. A quick run leaves out the last one."""
        return self.points[:-1] if stand.is_quick else self.points


def exponent(values: Mapping[int, float]) -> float | None:
    """Return e of values that grow like x ** e between the last two points, or None if there are fewer than two.

    0 means that the cost doesn't depend on the number, 1 that it is in proportion to it.
    """
    points = sorted(point for point, value in values.items() if value > 0 and point > 0)
    if len(points) < 2:
        return None
    before, last = points[-2:]
    return log(values[last] / values[before]) / log(last / before)
