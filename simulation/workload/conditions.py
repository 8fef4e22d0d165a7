"""Conditions over properties (SQL92) that a workload's groups choose messages by, and what each of them means.

A condition has two faces: `text`, which brokers get, and `holds`, which says what it is for given properties. The
second shares no line with the brokers' own evaluation (`protocol/sql92/`), so that the two can be compared. Only what
is beyond dispute is in here: numbers are whole ones, and a missing property makes a comparison unknown (None).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from staticfire.protocol.errors import UsageError

Properties = Mapping[str, str]


class Condition:
    """What a message's properties have to fulfil."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The condition as brokers read it."""
        raise NotImplementedError

    def holds(self, properties: Properties) -> bool | None:
        """Return whether it is fulfilled; None: unknown, as something is missing."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Between(Condition):
    """A property that is a whole number from `low` to `high`."""

    name: str
    low: int
    high: int

    @property
    def text(self) -> str:
        return f"{self.name} BETWEEN {self.low} AND {self.high}"

    def holds(self, properties: Properties) -> bool | None:
        value = properties.get(self.name)
        return None if value is None else self.low <= int(value) <= self.high


@dataclass(frozen=True, slots=True)
class Above(Condition):
    """A property that is a whole number above a limit."""

    name: str
    limit: int

    @property
    def text(self) -> str:
        return f"{self.name} > {self.limit}"

    def holds(self, properties: Properties) -> bool | None:
        value = properties.get(self.name)
        return None if value is None else int(value) > self.limit


@dataclass(frozen=True, slots=True)
class OneOf(Condition):
    """A property that is one of some texts."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if any("'" in value for value in self.values):
            raise UsageError(f"OneOf({self.name!r}): a value contains a quote; leave it out")

    @property
    def text(self) -> str:
        values = ", ".join(f"'{value}'" for value in self.values)
        return f"{self.name} IN ({values})"

    def holds(self, properties: Properties) -> bool | None:
        value = properties.get(self.name)
        return None if value is None else value in self.values


@dataclass(frozen=True, slots=True)
class Missing(Condition):
    """A property that isn't there."""

    name: str

    @property
    def text(self) -> str:
        return f"{self.name} IS NULL"

    def holds(self, properties: Properties) -> bool | None:
        return self.name not in properties


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """What another condition is not; what is unknown stays unknown."""

    other: Condition

    @property
    def text(self) -> str:
        return f"NOT ({self.other.text})"

    def holds(self, properties: Properties) -> bool | None:
        value = self.other.holds(properties)
        return None if value is None else not value


@dataclass(frozen=True, slots=True)
class BothOf(Condition):
    """Two conditions at once: false if one is false, else unknown if one is unknown."""

    left: Condition
    right: Condition

    @property
    def text(self) -> str:
        return f"({self.left.text}) AND ({self.right.text})"

    def holds(self, properties: Properties) -> bool | None:
        values = self.left.holds(properties), self.right.holds(properties)
        if False in values:
            return False
        return None if None in values else True


@dataclass(frozen=True, slots=True)
class EitherOf(Condition):
    """One of two conditions: true if one is true, else unknown if one is unknown."""

    left: Condition
    right: Condition

    @property
    def text(self) -> str:
        return f"({self.left.text}) OR ({self.right.text})"

    def holds(self, properties: Properties) -> bool | None:
        values = self.left.holds(properties), self.right.holds(properties)
        if True in values:
            return True
        return None if None in values else False
