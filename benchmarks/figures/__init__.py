"""Figures by family. A family has keys, and measures all of them once per round.

- `throughput.py`, `first_pull.py`, `pops.py`, `latency.py`, `producer.py`, `listeners.py`, `lite_pull.py`: sending and
  consuming messages
- `sync_flush.py`: messages that are on disk before the response
- `tracing.py`: the cost of traces; `transactions.py`: half messages, commits and rollbacks
- `delayed.py`, `delayed_kills.py`, `timers.py`, `dead_letter.py`: delayed messages; `redelivery.py`: redelivered ones
- `groups.py`: joining members
- `held.py`: pulls that wait; `conditions.py`: pulls with conditions
- `key_queries.py`: look-ups by key
- `many_topics.py`: ten thousand topics compared with ten; `clusters.py`: `Cluster()` in a test
- `testers.py`: waiting times of testers: imports, the fixture, explanations
- `starts.py`: the time of a start; `grpc.py`: the gRPC endpoint
- `scale_out.py`: two brokers instead of one; `simulation.py`: simulated clusters

Every round measures all families, so that changes in the machine's speed affect all of them. The bench uses the
median.
"""

from dataclasses import dataclass
from typing import Protocol

Values = dict[str, float]
"""Values by key. Keys that end in `_foreign` are the cores that other programs used meanwhile. They have no goals."""


@dataclass(frozen=True)
class Stand:
    """How to measure in a round."""

    seconds: float
    """The length of one window."""
    folder: str | None
    """The parent folder for stores."""
    is_quick: bool = False
    """Whether to use less data for slow measurements."""
    key_messages: int = 1_000_000
    """The number of messages for look-ups by key."""


class Family(Protocol):
    """Figures that are measured together."""

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its figures."""

    def measure(self, stand: Stand) -> Values:
        """Return the values of these keys, and related values."""
