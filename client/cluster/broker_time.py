"""How far the brokers' clocks are ahead of this machine's. Versions of subscriptions are brokers' times. Pure.

This is real time, not message time. All members of a group must use the same time. So they all use the same broker: of
those that have reported their time, the one with the smallest address.
"""

from staticfire.protocol.times import MessageMs


class BrokerTime:
    """The times that heartbeat responses contained."""

    def __init__(self) -> None:
        self.is_settled = False
        """Whether a broker has responded, with its time or (RocketMQ's brokers) without."""
        self._ahead_ms: dict[str, int] = {}

    def learn(self, address: str, broker_ms: int | None, requested_ms: MessageMs, answered_ms: MessageMs) -> None:
        """Process a response: the broker read its clock between `requested_ms` and `answered_ms` of this machine."""
        self.is_settled = True
        if broker_ms is not None:
            self._ahead_ms[address] = broker_ms - (requested_ms + answered_ms) // 2

    @property
    def ahead_ms(self) -> int:
        """The milliseconds to add to this machine's wall clock."""
        return self._ahead_ms[min(self._ahead_ms)] if self._ahead_ms else 0
