"""Acknowledge messages, change their invisible time, or forward them to the dead letters.

RocketMQ: AckMessageActivity, ChangeInvisibleDurationActivity, ForwardMessageToDLQActivity.

Behaviour
- Brokers check almost nothing: a second acknowledgement, one with another message's id, or one by a group that never
  had the message is OK. An expired handle, or one of an unknown broker, is refused here.
- The first handle of a message that is held for its client is replaced by the newest one.
- A held message stays held until its broker has done the request or its handle has expired. So a client may retry with
  its first handle what a broker has refused or left without a response.
- The request of a held message is completed even if the client cancels its call, for example because its deadline has
  passed: the broker may have done it already, and an acknowledged message must not be renewed. An acknowledgement or a
  change is repeated for that: once it is done, its handle refers to nothing. A dead letter would be stored twice, so
  its request continues instead.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeVar

from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ClientType,
    Code,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
    Status,
)
from staticfire.proxy.services.background import Background
from staticfire.proxy.services.callers import Caller
from staticfire.proxy.services.client_table import ClientTable
from staticfire.proxy.services.held_messages import HeldMessage
from staticfire.proxy.services.names import group_of, topic_of
from staticfire.proxy.services.pb_times import millis
from staticfire.proxy.services.receipt_work import ReceiptWork
from staticfire.proxy.services.receipts import LOG_POSITION_UNKNOWN, MessagePlace, Receipt, read_receipt
from staticfire.proxy.services.receiving import check_invisible_max
from staticfire.proxy.services.statuses import StatusError, invalid_handle, ok, overall, status_of

T = TypeVar("T")
Work = Callable[[str, str, Receipt], Awaitable[T]]
"""A function of topic, group and receipt."""


class _Found(NamedTuple):
    """A message that a request names."""

    topic: str
    group: str
    receipt: Receipt
    message_id: str
    client_id: str

    @property
    def place(self) -> MessagePlace:
        return self.receipt.place(self.topic)


class AckCalls:
    """AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue."""

    def __init__(self, clients: ClientTable, work: ReceiptWork, background: Background) -> None:
        self._clients = clients
        self._work = work
        self._background = background

    async def ack(self, request: AckMessageRequest, caller: Caller) -> AckMessageResponse:
        """Acknowledge messages, each independently. Raises: StaticfireError."""
        topic, group = topic_of(request.topic), group_of(request.group)
        if not request.entries:
            raise StatusError(Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
        if len(request.entries) == 1:  # Official clients send one entry, which needs no task.
            results = [await self._ack(topic, group, request.entries[0], caller)]
        else:
            entries = [self._ack(topic, group, entry, caller) for entry in request.entries]
            results = list(await asyncio.gather(*entries))
        return AckMessageResponse(status=overall([result.status for result in results]), entries=results)

    async def _ack(self, topic: str, group: str, entry: AckMessageEntry, caller: Caller) -> AckMessageResultEntry:
        try:
            found = _Found(topic, group, read_receipt(entry.receipt_handle), entry.message_id, caller.client_id)
            await self._settle(found, self._work.ack)
            status = ok()
        except Exception as error:  # noqa: BLE001 (one message of a call: its failure is its answer)
            status = status_of(error)
        return AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status)

    async def change(self, request: ChangeInvisibleDurationRequest, caller: Caller) -> ChangeInvisibleDurationResponse:
        """Change how long a message remains invisible to other consumers. Raises: StaticfireError."""
        topic, group = topic_of(request.topic), group_of(request.group)
        invisible_ms = millis(request.invisible_duration)
        if invisible_ms < 0:
            raise StatusError(Code.ILLEGAL_INVISIBLE_TIME, "the invisibleTime is too small. min is 0")
        check_invisible_max(invisible_ms)
        self._check_known(request.receipt_handle, caller)
        found = _Found(topic, group, read_receipt(request.receipt_handle), request.message_id, caller.client_id)
        client = self._clients.get(caller.client_id)
        # A push consumer sends this only when its listener has failed: while it works, the endpoint renews for it.
        is_given_back = client is not None and client.settings.client_type == ClientType.PUSH_CONSUMER
        changed = await self._settle(
            found, partial(self._work.change, invisible_ms=invisible_ms, is_given_back=is_given_back)
        )
        return ChangeInvisibleDurationResponse(status=ok(), receipt_handle=str(changed))

    async def forward(
        self, request: ForwardMessageToDeadLetterQueueRequest, caller: Caller
    ) -> ForwardMessageToDeadLetterQueueResponse:
        """Move a message to the dead letters. Raises: StaticfireError."""
        topic, group = topic_of(request.topic), group_of(request.group)
        self._check_known(request.receipt_handle, caller)
        receipt = read_receipt(request.receipt_handle)
        if receipt.log_position == LOG_POSITION_UNKNOWN:
            raise invalid_handle("commit log offset is empty")
        found = _Found(topic, group, receipt, request.message_id, caller.client_id)
        held = self._work.find(found.client_id, group, found.place, request.message_id)
        buried = self._settle(found, partial(self._work.bury, message_id=request.message_id, held=held))
        words = await asyncio.shield(self._background.start(buried, "a dead letter that a client forwards"))
        return ForwardMessageToDeadLetterQueueResponse(status=Status(code=Code.OK, message=words))

    async def _settle(self, found: "_Found", work: "Work[T]") -> T:
        """Call `work` with the newest handle of a message. The message is no longer held if that succeeds.

        Raises: StaticfireError.
        """
        held = self._work.find(found.client_id, found.group, found.place, found.message_id)
        if held is None:
            await self._work.check(found.receipt, found.topic)
            return await work(found.topic, found.group, found.receipt)
        try:
            return await self._settle_held(held, found, work)
        except asyncio.CancelledError:
            # Not a task from the start: acknowledgements are frequent, and cancelled ones are rare.
            self._background.start(self._settle_held(held, found, work), "a request whose call was cancelled")
            raise

    async def _settle_held(self, held: HeldMessage, found: "_Found", work: "Work[T]") -> T:
        held.settling += 1
        try:
            if held.renewing is not None:
                await asyncio.wait([held.renewing])
            await self._work.check(held.receipt, found.topic, is_held=True)
            done = await work(found.topic, found.group, held.receipt)
        except StatusError as error:
            if error.code == Code.INVALID_RECEIPT_HANDLE:
                self._work.let_go(held)
            raise
        finally:
            held.settling -= 1
        self._work.let_go(held)
        return done

    def _check_known(self, handle: str, caller: Caller) -> None:
        """Check that the handle can be parsed and that the client has sent settings. Raises: StatusError."""
        read_receipt(handle)
        if self._clients.get(caller.client_id) is None:
            words = f"client {caller.client_id} has no settings here: it must send them over Telemetry first"
            raise StatusError(Code.INTERNAL_SERVER_ERROR, words)
