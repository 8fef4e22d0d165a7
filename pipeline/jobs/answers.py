"""The results of an analysis as plain values. Pure: a page is made of these, and tests create them directly."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latency:
    """The time from stored to handled, of messages that were handled at the first attempt."""

    measured: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    curve_ms: tuple[float, ...]
    """Quantiles at equal steps, from the shortest time (first) to the longest (last)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time span of the run."""

    after_ms: int
    """The start of the span, since the first message was stored."""
    stored: int
    handled: int
    p50_ms: float | None
    """Of the messages that were stored in this span."""
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Series:
    """The run in time spans of equal length."""

    began_ms: int
    span_ms: int
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Consumer:
    """One process of the group."""

    name: str
    handled: int
    failed: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Try:
    """The attempts on messages that had failed `times` times before."""

    times: int
    stored: int
    """Messages that the broker stored in the group's retry topic; for 0 times, in the topic itself."""
    messages: int
    """The number of different messages among them."""
    handled: int | None
    failed: int | None
    after_ms: float | None
    """The median (p50) of the message time since they were first stored."""


@dataclass(frozen=True, slots=True)
class Dead:
    """The dead letters."""

    letters: int
    messages: int
    """The number of different messages among the letters."""
    after_ms: float | None
    """The median (p50) of the message time since they were first stored."""


@dataclass(frozen=True, slots=True)
class Answers:
    """All results. Without ledgers, those that need them are None or empty."""

    stored: int
    messages: int
    latency: Latency | None
    series: Series | None
    consumers: tuple[Consumer, ...]
    tries: tuple[Try, ...]
    dead: Dead
    handled_again: int
