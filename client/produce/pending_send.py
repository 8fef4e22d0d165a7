"""One message, or one batch, that is being sent to a broker."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.requests.send import ManyMessage
from staticfire.protocol.times import UptimeMs

if TYPE_CHECKING:
    from staticfire.client.produce.bundle import Bundle

NO_QUEUE = MessageQueue("", "", -1)

# Counted for each message in addition to its body: topic, properties, numbers.
SEND_OVERHEAD_BYTES = 256


class PendingSend(msgspec.Struct, gc=False, eq=False):
    """An encoded message, and the future of its result."""

    wire: ManyMessage
    message_id: str
    queue: MessageQueue
    """NO_QUEUE until the topic's route is known."""
    future: asyncio.Future[SendResult]
    deadline_ms: UptimeMs
    attempts_left: int
    size: int
    """The bytes that count towards the limits of a SEND_MANY and of waiting messages."""
    ordered: bool = False
    """The caller chose the queue: no other one may be used, and the queue's next message waits for this one's result.
    """
    alone: bool = False
    """It is sent in a request of its own: a batch, or a retry, whose counts are in the request's header."""
    batch: bool = False
    """Whether the body is a batch body."""
    poor_result: SendResult | None = None
    """The result of an attempt that stored the message less safely than promised, while another attempt is made."""
    failures: list[tuple[str, StaticfireError]] | None = None
    """The broker and the error of each attempt so far."""
    bundle: "Bundle | None" = None
    """The messages of a bundle, if this isn't a single message."""
    retried_ms: UptimeMs = UptimeMs(0)
    """When the current attempt began; 0 for the first one."""
    extension_ms: int = 0
    """How much later its deadline is than it was, because the program couldn't run."""

    @property
    def count(self) -> int:
        """The number of messages."""
        return 1 if self.bundle is None else len(self.bundle.rows)
