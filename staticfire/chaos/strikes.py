"""One fault of a weather: as data, as a command line, and as Python. Pure.

Most faults are fault rules of a server with a position (`after`), so the server itself waits until they can hit. The
others begin after a number of deliveries, which the brokers' journals show.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from staticfire.protocol.durations import format_duration

RULE, MEMBER, CLIENT = "rule", "member", "client"
"""A fault rule; a member that joins and leaves; a fault rule about one client, whose id is known in a run only."""
CLIENT_PLACE = "CLIENT"
"""What a planned rule has in place of the client's id."""

Words = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Begin:
    """When a fault begins that is no plain rule: after this many deliveries to a group, or sends to a topic."""

    count: int
    group: str = ""
    topic: str = ""

    def __str__(self) -> str:
        if self.group:
            return f"after {self.count:,} deliveries to {self.group}"
        return f"after {self.count:,} sends to {self.topic}"


@dataclass(frozen=True)
class PlannedFault:
    """One planned fault."""

    kind: str
    words: Words = ()
    """The words of the fault rule."""
    begin: Begin | None = None
    """None: from the start of the program."""
    how: str = RULE
    group: str = ""
    """The group that a member joins, or whose first member is cut off."""
    stay_ms: int = 0
    number: int = 0
    """Its place in the plan."""

    @property
    def command(self) -> str:
        """The fault as a command line."""
        if self.how == MEMBER:
            line = f"staticfire member {shlex.quote(self.group)} --stay {format_duration(self.stay_ms)}"
        else:
            flags = [flag for name, value in self.words for flag in _flag(name, value)]
            line = f"staticfire fault add {shlex.join(flags)}"
        notes = [] if self.begin is None else [str(self.begin)]
        if self.how == CLIENT:
            notes.append(f"{CLIENT_PLACE}: the first member of {self.group}")
        return f"{line}  # {'; '.join(notes)}" if notes else line

    @property
    def call(self) -> str:
        """The fault rule as a call in Python."""
        given = ", ".join(f"{name.replace('-', '_')}={value!r}" for name, value in self.words)
        return f"cluster.faults.add({given})"


def rule(kind: str, **words: object) -> PlannedFault:
    """Return a fault that is a rule from the start of the program. Words that are None are left out."""
    return PlannedFault(kind, tuple((name, value) for name, value in words.items() if value is not None))


def numbered(strikes: Sequence[PlannedFault]) -> list[PlannedFault]:
    """Return the faults with their places in the plan, from 1 on."""
    return [
        PlannedFault(one.kind, one.words, one.begin, one.how, one.group, one.stay_ms, number)
        for number, one in enumerate(strikes, 1)
    ]


def _flag(name: str, value: object) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    return [flag] if value is True else [flag, str(value)]
