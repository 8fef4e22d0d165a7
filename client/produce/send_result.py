"""The result of a send. RocketMQ: SendResult, SendStatus."""

from enum import Enum

import msgspec

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.message_ids import offset_id


class SendStatus(Enum):
    """How safely the message is stored. With each status the broker has it."""

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
    """Details that only single sends and batches return."""

    offset_ids: str = ""
    transaction_id: str | None = None
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    recall_handle: str | None = None


class SendResult(msgspec.Struct, gc=False, frozen=True):
    """Where a message is stored. `message_id`: the unique id that consumers see; of a batch, all ids with commas."""

    status: SendStatus
    message_id: str
    queue: MessageQueue
    queue_offset: int
    log_position: int = -1
    """The position of the record in the broker's log; -1 if the broker returned an id instead."""
    broker_prefix: str = ""
    """The prefix of that broker's offset message ids."""
    details: SendDetails = SendDetails()

    @property
    def offset_message_id(self) -> str:
        """The id that contains broker and log position: a broker finds the message by it."""
        return self.details.offset_ids or offset_id(self.broker_prefix, self.log_position)

    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction that the message is part of, or what the broker returns instead."""
        return self.details.transaction_id

    @property
    def recall_handle(self) -> str | None:
        """The handle to recall a delayed message with."""
        return self.details.recall_handle
