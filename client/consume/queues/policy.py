"""The interface between a queue and its policy, which defines how messages are consumed."""

from typing import Protocol

from staticfire.client.consume.queues.instructions import Instructions
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs


class Policy(Protocol):
    """Defines how the messages of a queue are consumed."""

    @property
    def is_in_order(self) -> bool:
        """Whether no message may overtake one that isn't done."""

    @property
    def is_busy(self) -> bool:
        """Whether work is in progress that must end before another member may own the queue."""

    @property
    def due_ms(self) -> float:
        """When to call `time`; NEVER for not at all."""

    def is_trusted(self, uptime_ms: UptimeMs) -> bool:
        """Whether the queue may be pulled and consumed now."""

    def is_sure(self, uptime_ms: UptimeMs) -> bool:
        """Whether no other client can have owned the queue since it was taken: then its offset may be stored."""

    def pulled(self, new: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Accept new messages, which are in the cache already."""

    def revoked(self, uptime_ms: UptimeMs) -> None:
        """Note that the queue is being given away."""

    def time(self, uptime_ms: UptimeMs) -> Instructions:
        """Do the work that is due."""

    def limits_changed(self, uptime_ms: UptimeMs) -> None:
        """Apply changed time limits for messages."""

    def turn_ended(self, pause_ms: int | None, uptime_ms: UptimeMs, may_go_on: bool) -> Instructions:
        """Note that no worker is busy with the queue now. `pause_ms`: the pause that its listener requested."""
