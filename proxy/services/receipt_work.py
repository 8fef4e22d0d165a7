"""Requests to brokers about receipts (acknowledge, change the invisible time, dead letters), and renewals of messages.

A client may use the first handle of a renewed receipt; `find` returns the message with the newest one.
"""

import asyncio

from staticfire.protocol.codes import name_of_response
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.delay_levels import DEAD_LETTER_LEVEL
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.requests.pop import AckMessage, ChangeInvisibleAnswer, ChangeInvisibleTime
from staticfire.protocol.requests.send_back import SendBack
from staticfire.proxy.proto.rocketmq_v2_pb2 import Code
from staticfire.proxy.services.background import Background
from staticfire.proxy.services.client_settings import retry_delay_ms
from staticfire.proxy.services.client_table import ClientTable
from staticfire.proxy.services.held_messages import (
    RENEW_EVERY_MS,
    WORK_MS_MAX,
    HeldMessage,
    HeldMessages,
    renew_for_ms,
)
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.message_time import MessageTime
from staticfire.proxy.services.receipts import MessagePlace, Receipt
from staticfire.proxy.services.statuses import StatusError, invalid_handle, refused
from staticfire.runtime.log import logger
from staticfire.runtime.service import Pause

log = logger("proxy")

RETURNED_AFTER_MS = 1_000
"""When the messages of a client that is gone, or that it hasn't received, are visible again."""


class ReceiptWork:
    """Sends requests about receipts to their brokers, and renews held messages."""

    def __init__(self, cluster: KnownCluster, clients: ClientTable, time: MessageTime, background: Background) -> None:
        self._cluster = cluster
        self._clients = clients
        self._time = time
        self._background = background
        self._held = HeldMessages()

    # -- checks --------------------------------------------------------------------------------------------------

    async def check(self, receipt: Receipt, topic: str, is_held: bool = False) -> None:
        """Check that a receipt hasn't expired, and that its broker is known. Raises: StatusError.

        `is_held`: renewals have reached the broker, so it is only away, and the request's own error reports that.
        """
        try:
            receipt.check_held(await self._time.now_ms())
        except StatusError:
            receipt.check_held(await self._time.read())  # Message time may have been frozen since the last reading.
        if await self._cluster.find(receipt.pop.broker_name, topic) is None and not is_held:
            raise invalid_handle(f"cannot find broker {receipt.pop.broker_name}")

    # -- work ----------------------------------------------------------------------------------------------------

    async def ack(self, topic: str, group: str, receipt: Receipt) -> None:
        """Acknowledge a message. Raises: StaticfireError."""
        pop = receipt.pop
        request = AckMessage(
            consumer_group=group,
            topic=pop.real_topic(topic, group),
            queue_id=pop.queue_id,
            extra_info=str(receipt),
            offset=pop.queue_offset,
            bname=pop.broker_name,
        )
        answer = await self._cluster.ask(pop.broker_name, request)
        if answer.code != SUCCESS:
            log.info("ack_refused", topic=topic, group=group, code=answer.code, reason=answer.remark)
            raise StatusError(Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal")

    async def change(
        self,
        topic: str,
        group: str,
        receipt: Receipt,
        invisible_ms: int,
        is_given_back: bool = False,
        is_renewal: bool = False,
    ) -> Receipt:
        """Make a message invisible for this long from now on; return its new handle.

        `is_given_back`: no consumer has it any more. `is_renewal`: a push consumer works on it.
        Raises: StaticfireError.
        """
        pop = receipt.pop
        request = ChangeInvisibleTime(
            consumer_group=group,
            topic=pop.real_topic(topic, group),
            queue_id=pop.queue_id,
            extra_info=str(receipt),
            offset=pop.queue_offset,
            invisible_time=invisible_ms,
            bname=pop.broker_name,
            given_back=is_given_back or None,
            for_push=is_renewal or None,
        )
        answer = await self._cluster.ask(pop.broker_name, request)
        if answer.code != SUCCESS or not isinstance(answer, ChangeInvisibleAnswer):
            raise _refusal(answer)
        changed = pop.changed(answer.pop_time, answer.invisible_time, answer.revive_qid)
        return Receipt(changed, receipt.log_position)

    async def bury(
        self, topic: str, group: str, receipt: Receipt, message_id: str, held: HeldMessage | None = None
    ) -> str:
        """Move a message to the dead letters and acknowledge it; return the broker's message.

        A message that is held is stored only once: a call that is repeated meanwhile waits for the first one, and after
        a failed acknowledgement the next call repeats only that.
        Raises: StaticfireError; the message is redelivered then.
        """
        if held is None:
            words = await self._store_dead(topic, group, receipt, message_id)
        else:
            async with held.burying:
                words = held.dead_words or await self._store_dead(topic, group, receipt, message_id)
                held.dead_words = words
        await self.ack(topic, group, receipt)
        return words

    async def _store_dead(self, topic: str, group: str, receipt: Receipt, message_id: str) -> str:
        pop = receipt.pop
        request = SendBack(
            offset=receipt.log_position,
            group=group,
            delay_level=DEAD_LETTER_LEVEL,
            origin_msg_id=message_id,
            origin_topic=topic,
            max_reconsume_times=0,
            bname=pop.broker_name,
        )
        answer = await self._cluster.ask(pop.broker_name, request)
        if answer.code != SUCCESS:
            raise _refusal(answer)
        return answer.remark or str(answer.code)

    # -- held messages -------------------------------------------------------------------------------------------

    def hold(self, held: HeldMessage) -> None:
        """Renew the invisible time of a message while its client works on it."""
        if not self._held.hold(held):
            log.warning("message_not_held", client_id=held.client_id, group=held.group, held=len(self._held))

    def take(self, client_id: str, group: str, place: MessagePlace, message_id: str) -> HeldMessage | None:
        """Stop renewing a message; return it if it was held."""
        return self._held.take(client_id, group, place, message_id)

    def find(self, client_id: str, group: str, place: MessagePlace, message_id: str) -> HeldMessage | None:
        """Return a message if it is held. A renewal in flight may be about to replace its handle."""
        return self._held.find(client_id, group, place, message_id)

    def let_go(self, held: HeldMessage) -> None:
        """Stop renewing a message, if it is still held."""
        self._held.give_up(held)

    def client_gone(self, client_id: str, group: str) -> None:
        """Make the messages of a client visible again soon."""
        self._give_back_all(self._held.take_client(client_id, group))

    def stopping(self) -> None:
        """Make the renewed messages visible again soon, since the endpoint stops: no other one has their handles.

        The others remain with their clients, whose handles are valid at another endpoint, too.
        """
        self._give_back_all(self._held.take_renewed())

    def _give_back_all(self, messages: list[HeldMessage]) -> None:
        for held in messages:
            self._background.start(self.give_back_held(held), "the return of a held message")

    async def give_back_held(self, held: HeldMessage) -> None:
        """Make a message that isn't held any more visible again soon. Raises: StaticfireError."""
        if held.renewing is not None:
            await asyncio.wait([held.renewing])
        await self.give_back(held.topic, held.group, held.receipt)

    async def give_back(self, topic: str, group: str, receipt: Receipt) -> None:
        """Make a message that its client doesn't have, or doesn't work on any more, visible again soon.

        Raises: StaticfireError.
        """
        await self.change(topic, group, receipt, RETURNED_AFTER_MS, is_given_back=True)

    async def renew_loop(self, pause_for: Pause) -> None:
        """Renew expiring messages periodically. RocketMQ: ReceiptHandleManager.scheduleRenewTask."""
        while True:
            await pause_for(RENEW_EVERY_MS)
            self.return_left()
            if len(self._held):
                self.renew(self._held.expiring(await self._time.read()))

    def return_left(self) -> None:
        """Return the messages of clients that aren't known any more, or that consume for another group now."""
        for client_id, group in self._held.owners():
            if not self._clients.consumes(client_id, group):
                self.client_gone(client_id, group)

    def renew(self, expiring: list[HeldMessage]) -> None:
        """Start renewals of messages."""
        for held in expiring:
            held.renewing = self._background.start(self._renew(held), "the renewal of a receipt")

    async def _renew(self, held: HeldMessage) -> None:
        uptime_ms = self._cluster.client.machine.clock.uptime_ms()
        try:
            if uptime_ms - held.began_ms >= WORK_MS_MAX:
                self._held.give_up(held)
                config = await self._cluster.group(held.group)
                pause_ms = retry_delay_ms(config, held.reconsume_times)
                held.receipt = await self.change(held.topic, held.group, held.receipt, pause_ms, is_given_back=True)
                log.warning("receipt_given_up", group=held.group, message_id=held.message_id, worked_ms=WORK_MS_MAX)
                return
            invisible_ms = renew_for_ms(held.renewals)
            renewed = await self.change(held.topic, held.group, held.receipt, invisible_ms, is_renewal=True)
            self._held.renewed(held, renewed)
        except StaticfireError as error:
            if self._held.failed(held):
                log.warning("receipt_not_renewed", group=held.group, message_id=held.message_id, reason=str(error))
        finally:
            held.renewing = None


def _refusal(answer: Answer) -> StatusError:
    status = refused(answer.code, answer.remark or name_of_response(answer.code))
    return StatusError(status.code, status.message)
