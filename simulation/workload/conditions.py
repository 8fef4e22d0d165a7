"""Conditions over properties (SQL92) by which a workload's groups filter messages.

A condition has two parts: `text`, which brokers get, and `holds`, which evaluates it for given properties. `holds`
shares no code with the brokers' evaluation (`protocol/sql92/`), so that the two can be compared. Only undisputed rules
are used: numbers are integers, and a missing property makes a comparison unknown (None).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from staticfire.protocol.errors import UsageError

Properties = Mapping[str, str]


class Condition:
    """A condition on the properties of a message."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The condition in the brokers' syntax."""
        raise NotImplementedError

    def holds(self, properties: Properties) -> bool | None:
        """Return whether the properties fulfil the condition; None: unknown, because a property is missing."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Between(Condition):
    """A property that is an integer from `low` to `high`."""

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
    """A property that is an integer above a limit."""

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
    """A property whose value is one of some texts."""

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
    """A property that doesn't exist."""

    name: str

    @property
    def text(self) -> str:
        return f"{self.name} IS NULL"

    def holds(self, properties: Properties) -> bool | None:
        return self.name not in properties


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """The negation of another condition; unknown remains unknown."""

    other: Condition

    @property
    def text(self) -> str:
        return f"NOT ({self.other.text})"

    def holds(self, properties: Properties) -> bool | None:
        value = self.other.holds(properties)
        return None if value is None else not value


@dataclass(frozen=True, slots=True)
class BothOf(Condition):
    """Both of two conditions: false if one is false, otherwise unknown if one is unknown."""

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
    """At least one of two conditions: true if one is true, otherwise unknown if one is unknown."""

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
