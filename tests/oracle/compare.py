"""Finds the differences between two plays of a script and holds them against the explanations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.oracle.exchange import Reply
from tests.oracle.normal import normal

ABSENT = "<absent>"


@dataclass(frozen=True)
class Difference:
    """One part of one reply that isn't the same."""

    step: str
    part: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.step}: {self.part}\n    RocketMQ    {self.theirs!r}\n    staticfire  {self.ours!r}"


@dataclass(frozen=True)
class Explained:
    """Differences that are meant to be. `steps`, `parts`: shell patterns. `theirs`: only where RocketMQ says that."""

    steps: str
    parts: str
    why: str
    theirs: str = "*"

    def covers(self, difference: Difference) -> bool:
        return (
            fnmatchcase(difference.step, self.steps)
            and fnmatchcase(difference.part, self.parts)
            and fnmatchcase(str(difference.theirs), self.theirs)
        )


def differences(theirs: Mapping[str, Reply], ours: Mapping[str, Reply]) -> list[Difference]:
    """Return everything that differs, in the order of the script."""
    found = []
    for step, reply in theirs.items():
        one, other = normal(reply), normal(ours[step])
        for part in [*one, *(part for part in other if part not in one)]:
            if one.get(part, ABSENT) != other.get(part, ABSENT):
                found.append(Difference(step, part, one.get(part, ABSENT), other.get(part, ABSENT)))
    return found


def judge(
    found: Iterable[Difference], explanations: Sequence[Explained]
) -> tuple[list[Difference], dict[Explained, int]]:
    """Return the differences that nothing explains, and how many each explanation covers."""
    unexplained = []
    used = dict.fromkeys(explanations, 0)
    for difference in found:
        covering = next((one for one in explanations if one.covers(difference)), None)
        if covering is None:
            unexplained.append(difference)
        else:
            used[covering] += 1
    return unexplained, used


def tell(unexplained: Iterable[Difference], used: Mapping[Explained, int], only: str) -> bool:
    """Print what nothing explains, in steps like `only`, and what explains nothing; return whether there is neither."""
    found = list(unexplained)
    for difference in found:
        if fnmatchcase(difference.step, only):
            print(difference)
    stale = [one for one, count in used.items() if not count]
    for one in stale:
        print(f"nothing needs this explanation any more: {one.steps} {one.parts}: {one.why}")
    return not found and not stale
