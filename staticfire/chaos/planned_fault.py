"""A planned fault: as data, as a command line, and as Python. Pure.

Most faults are fault rules with a position (`after`): the server counts requests until the rule can hit. The others
begin after a number of deliveries or sends, which the brokers' journals show.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from staticfire.protocol.durations import format_duration
from staticfire.protocol.nouns import counted

RULE, MEMBER, CLIENT = "rule", "member", "client"
"""How a fault is carried out: by a fault rule; by a member that joins and leaves; by a fault rule about one client,
whose id is known only during a run."""
CLIENT_PLACE, GROUP_PLACE = "CLIENT", "GROUP"
"""Placeholders for a client's id, and for a group whose name differs from run to run."""

Words = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Begin:
    """When a fault begins that the server can't time: after this many deliveries to a group, or sends to a topic."""

    count: int
    group: str = ""
    topic: str = ""

    def __str__(self) -> str:
        if not self.topic:
            word = "delivery" if self.count == 1 else "deliveries"
            return f"after {self.count:,} {word} to {self.group or 'any group'}"
        return f"after {counted(self.count, 'send')} to {self.topic}"


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
        """The fault as a command line: its rule, its member, or both."""
        flags = [flag for name, value in self.words for flag in _flag(name, value)]
        commands = [f"staticfire fault add {shlex.join(flags)}"] if flags else []
        if self.how == MEMBER:
            stay = format_duration(self.stay_ms)
            commands.append(f"staticfire member {shlex.quote(self.group or GROUP_PLACE)} --stay {stay}")
        line = " && ".join(commands)
        notes = [] if self.begin is None else [str(self.begin)]
        if self.how == CLIENT:
            notes.append(f"{CLIENT_PLACE}: the first member of {self.group or 'a group'}")
        return f"{line}  # {'; '.join(notes)}" if notes else line

    @property
    def call(self) -> str:
        """The fault rule as a call in Python."""
        given = ", ".join(f"{name.replace('-', '_')}={value!r}" for name, value in self.words)
        return f"cluster.faults.add({given})"


def rule(kind: str, **words: object) -> PlannedFault:
    """Return a fault whose rule is added before the program starts. Words that are None are left out."""
    return PlannedFault(kind, tuple((name, value) for name, value in words.items() if value is not None))


def numbered(faults: Sequence[PlannedFault]) -> list[PlannedFault]:
    """Return the faults with their places in the plan, from 1 on."""
    return [
        PlannedFault(one.kind, one.words, one.begin, one.how, one.group, one.stay_ms, number)
        for number, one in enumerate(faults, 1)
    ]


def _flag(name: str, value: object) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    return [flag] if value is True else [flag, str(value)]
