"""One broker of a set of a master and its slaves, as it has reported itself."""

from typing import NamedTuple

from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.replication import ReplicationState


class Replica(NamedTuple):
    """One broker of a set. `state` is None if it doesn't answer, and `silence` is the reason."""

    broker_name: str
    broker_id: int
    address: str
    state: ReplicationState | None
    silence: str = ""
    is_registered: bool = True
    """Whether the nameserver has it."""
    refusal: BrokerAnswer | None = None
    """Its answer, if it answers and refuses to describe itself."""
    is_slow: bool = False
    """Whether it accepts connections and doesn't answer: its process lives, but is frozen, or the machine is busy."""

    @property
    def name(self) -> str:
        """The name for commands: broker-a, broker-a-1."""
        return f"{self.broker_name}-{self.broker_id}" if self.broker_id else self.broker_name
