"""One message, or one batch, on its way to a broker."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.requests.send import ManyMessage
from staticfire.protocol.times import UptimeMs

if TYPE_CHECKING:
    from staticfire.client.produce.bundle import Bundle

NO_QUEUE = MessageQueue("", "", -1)

SEND_OVERHEAD_BYTES = 256
# Counted for a message beside its body: topic, properties, numbers.


class PendingSend(msgspec.Struct, gc=False, eq=False):
    """A message as it travels, and the future of whoever waits for its result."""

    wire: ManyMessage
    message_id: str
    queue: MessageQueue
    """NO_QUEUE until the topic's route is known."""
    future: asyncio.Future[SendResult]
    deadline_ms: UptimeMs
    attempts_left: int
    size: int
    """Bytes that count towards the limits of a SEND_MANY and of what may wait."""
    ordered: bool = False
    """The caller chose the queue: no other will do, and the queue's next message waits for this one's result."""
    alone: bool = False
    """It is a request by itself: a batch, or a retry, whose counts travel in the request's header."""
    batch: bool = False
    """The body is a batch body."""
    poor_result: SendResult | None = None
    """Of an attempt after which the message was stored less safely than promised, while another one goes on."""
    failures: list[str] | None = None
    """What went wrong with the attempts so far."""
    bundle: "Bundle | None" = None
    """The messages that it stands for, instead of one."""

    @property
    def count(self) -> int:
        """How many messages it is."""
        return 1 if self.bundle is None else len(self.bundle.rows)
