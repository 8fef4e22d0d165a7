"""What a producer tells of a message that a broker has. RocketMQ: SendResult, SendStatus."""

from enum import Enum

import msgspec

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.message_ids import offset_id


class SendStatus(Enum):
    """How safe the message is. All of them mean that the broker has it."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


STATUS_OF_CODE: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendDetails(msgspec.Struct, gc=False, frozen=True):
    """What only single sends and batches are told."""

    offset_ids: str = ""
    transaction_id: str | None = None
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    recall_handle: str | None = None


class SendResult(msgspec.Struct, gc=False, frozen=True):
    """Where a message is. `message_id` is the unique id that its consumers see, of a batch all ids joined by commas."""

    status: SendStatus
    message_id: str
    queue: MessageQueue
    queue_offset: int
    log_position: int = -1
    """Where the record lies in the broker's log; -1 when the broker told an id instead."""
    broker_prefix: str = ""
    """What the offset message ids of that broker begin with."""
    details: SendDetails = SendDetails()

    @property
    def offset_message_id(self) -> str:
        """The id that names broker and log position: what a broker finds the message by."""
        return self.details.offset_ids or offset_id(self.broker_prefix, self.log_position)

    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction that the message is part of, or what the broker tells in its place."""
        return self.details.transaction_id

    @property
    def recall_handle(self) -> str | None:
        """What a message with a delivery time can be called back by."""
        return self.details.recall_handle
