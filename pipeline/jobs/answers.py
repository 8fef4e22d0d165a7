"""What an analysis answers, as plain values. Pure: a page is made of these, and a test makes them by hand."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latency:
    """From stored to handled, of messages that were handled at the first attempt."""

    measured: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    curve_ms: tuple[float, ...]
    """Evenly spaced parts of the messages took at most this long: the first of them 0, the last all."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A span of the run."""

    after_ms: int
    """Its beginning, since the first message was stored."""
    stored: int
    handled: int
    p50_ms: float | None
    """Of the messages that were stored then."""
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Series:
    """The run in spans of equal length."""

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
    """Everything that happened to messages which had been tried `times` times before."""

    times: int
    stored: int
    """Into the group's retry topic, by the broker; 0 times: into the topic itself."""
    messages: int
    """Different ones among them."""
    handled: int | None
    failed: int | None
    after_ms: float | None
    """Message time since they were first stored, in the middle (p50)."""


@dataclass(frozen=True, slots=True)
class Dead:
    """The end of the road."""

    letters: int
    messages: int
    """Different ones among the letters."""
    after_ms: float | None
    """Message time since they were first stored, in the middle (p50)."""


@dataclass(frozen=True, slots=True)
class Answers:
    """All of it. What needs ledgers is None or empty without them."""

    stored: int
    messages: int
    latency: Latency | None
    series: Series | None
    consumers: tuple[Consumer, ...]
    tries: tuple[Try, ...]
    dead: Dead
    handled_again: int
