"""How far the brokers' clocks are ahead of this machine's: versions of subscriptions are times of theirs. Pure.

It is real time, whatever message time is. What matters is that all members of a group have the same notion of it, so
they all go by the same broker: the first by address of those that have told.
"""

from staticfire.protocol.times import MessageMs


class BrokerTime:
    """What heartbeat answers have told of the time."""

    def __init__(self) -> None:
        self.is_settled = False
        """A broker has answered, with its time or, as RocketMQ's do, without."""
        self._ahead_ms: dict[str, int] = {}

    def learn(self, address: str, told_ms: int | None, asked_ms: MessageMs, answered_ms: MessageMs) -> None:
        """Take in an answer: told at some time between this machine's `asked_ms` and `answered_ms`."""
        self.is_settled = True
        if told_ms is not None:
            self._ahead_ms[address] = told_ms - (asked_ms + answered_ms) // 2

    @property
    def ahead_ms(self) -> int:
        """What to add to this machine's wall clock."""
        return self._ahead_ms[min(self._ahead_ms)] if self._ahead_ms else 0
