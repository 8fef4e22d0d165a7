"""The results as plain values. The page is made of these, and tests create them directly."""

from dataclasses import dataclass

from staticfire.pipeline.jobs.answers import Answers


@dataclass(frozen=True, slots=True)
class Pair:
    """A group and a topic that it consumes."""

    group: str
    topic: str
    messages: int
    handled: int
    dead: int
    duplicates: int
    measured: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float | None


@dataclass(frozen=True, slots=True)
class QueueHolding:
    """A consumer had a queue for a while. Times are milliseconds since the first message was stored."""

    group: str
    queue: str
    consumer: str
    from_ms: int
    to_ms: int | None
    """None: until the end of the data."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Queues of a group changed their owners, at about the same time."""

    group: str
    at_ms: int
    queues: int
    members: int
    took_ms: int
    cause: str


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """How precisely the delay of a level was kept."""

    level: int
    delay_ms: int
    waits: int
    early: int
    p50_late_ms: float
    p99_late_ms: float
    max_late_ms: float


@dataclass(frozen=True, slots=True)
class LagMoment:
    """The backlog of a group in a topic at the end of a time span."""

    group: str
    topic: str
    after_ms: int
    stored: int
    handled: int
    waiting: int


@dataclass(frozen=True, slots=True)
class MemberShare:
    """The share of one process of a group."""

    group: str
    consumer: str
    attempts: int
    done: int
    failed: int
    open: int
    share_percent: float
    queues: int


@dataclass(frozen=True, slots=True)
class QueueShare:
    """The share of one queue of a topic, for a group."""

    group: str
    queue: str
    stored: int
    handled: int
    share_percent: float
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Stuck:
    """Messages that are neither handled nor dead."""

    group: str
    topic: str
    state: str
    messages: int
    oldest: str
    examples: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Why messages were handled again."""

    group: str
    topic: str
    cause: str
    count: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """Calls for a queue while another member's call for it still ran."""

    group: str
    queue: str
    calls: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class ConsumptionFindings:
    """All results."""

    told_by: str
    has_journal: bool
    began: str
    ended_ms: int
    pairs: tuple[Pair, ...]
    answers: dict[tuple[str, str], Answers]
    """For the pairs that the page describes in detail."""
    holdings: tuple[QueueHolding, ...]
    holdings_left_out: int
    rebalances: tuple[Rebalance, ...]
    delays: tuple[DelayLevel, ...]
    lag: tuple[LagMoment, ...]
    members: tuple[MemberShare, ...]
    queues: tuple[QueueShare, ...]
    stuck: tuple[Stuck, ...]
    causes: tuple[Cause, ...]
    overlaps: tuple[Overlap, ...]
    gaps: tuple[str, ...] = ()
    """What the data lacks, as sentences: results may be too low, or have no cause."""
