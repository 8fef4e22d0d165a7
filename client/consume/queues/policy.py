"""How the messages of a queue are consumed, as far as the queue has to know: what a policy is asked and told."""

from typing import Protocol

from staticfire.client.consume.queues.instructions import Instructions
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs


class Policy(Protocol):
    """How the messages of a queue are consumed."""

    @property
    def is_in_order(self) -> bool:
        """Whether no message passes one that isn't done."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody works on it whose end has to be waited for before another member may have the queue."""

    @property
    def due_ms(self) -> float:
        """When `time` should be told, NEVER for not at all."""

    def is_trusted(self, uptime_ms: UptimeMs) -> bool:
        """Whether more may be pulled and consumed now."""

    def is_sure(self, uptime_ms: UptimeMs) -> bool:
        """Whether nobody else can have had the queue since it was taken: then its offset may be stored."""

    def pulled(self, new: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Take in new messages, which are in the cache already."""

    def revoked(self, uptime_ms: UptimeMs) -> None:
        """Know that the queue is given away."""

    def time(self, uptime_ms: UptimeMs) -> Instructions:
        """Do what is due."""

    def limits_changed(self, uptime_ms: UptimeMs) -> None:
        """Know that messages may take another time than before."""

    def turn_ended(self, pause_ms: int | None, uptime_ms: UptimeMs, may_go_on: bool) -> Instructions:
        """Know that nobody works on the queue now. `pause_ms`: how long its listener wants it to wait."""
