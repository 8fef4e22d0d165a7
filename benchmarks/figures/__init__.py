"""Figures by family: each knows its keys and measures all of them once, in a round.

- `throughput.py`, `first_pull.py`, `pops.py`, `latency.py`, `producer.py`, `listeners.py`, `lite_pull.py`: messages on
  their way
- `sync_flush.py`: messages that are on the disk when they are answered
- `tracing.py`: what traces cost; `transactions.py`: half messages and their ends
- `delayed.py`, `delayed_kills.py`, `timers.py`, `dead_letter.py`: messages that wait; `redelivery.py`: that come again
- `groups.py`: members that come
- `held.py`: pulls that wait; `conditions.py`: pulls that choose
- `key_queries.py`: messages looked up by key
- `many_topics.py`: ten thousand topics beside ten; `clusters.py`: `Cluster()` in a test
- `testers.py`: what a tester waits for: imports, the fixture, explanations
- `starts.py`: how long a start takes; `grpc.py`: the gRPC endpoint
- `scale_out.py`: two brokers instead of one; `simulation.py`: simulated clusters

A family is measured in every round, so that a machine that changes its mind meets all of them; the bench takes the
median.
"""

from dataclasses import dataclass
from typing import Protocol

Values = dict[str, float]
"""Values by key. Keys that end in `_foreign` are cores that others used meanwhile; they are shown, not judged."""


@dataclass(frozen=True)
class Stand:
    """How a round measures."""

    seconds: float
    """Of one window."""
    folder: str | None
    """The folder in which stores are made."""
    is_quick: bool = False
    """What takes long by nature is done with less."""
    key_messages: int = 1_000_000
    """Among how many messages a broker looks for keys."""


class Family(Protocol):
    """Some figures that are measured together."""

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> tuple[str, ...]:
        """What it is asked for."""

    def measure(self, stand: Stand) -> Values:
        """Return the family's values, and others that belong to them."""
