"""A program that sends at some rate, as a process of the simulated world."""

from collections.abc import Container
from typing import NamedTuple

from staticfire.client import (
    ClientSettings,
    Message,
    Producer,
    ProducerSettings,
    SendResult,
    SendStatus,
    TransactionProducer,
    TransactionState,
    by_hash,
)
from staticfire.client.cluster.namespaces import Namespace
from staticfire.protocol.checksums import crc32
from staticfire.protocol.delay_levels import DelayLevels
from staticfire.protocol.errors import (
    BrokerAnswer,
    ClientError,
    MessageIllegal,
    NoPermission,
    StaticfireError,
    UsageError,
)
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.messages import ReceivedMessage
from staticfire.runtime.service import Service
from staticfire.simulation.checkers.events import (
    RecallBegan,
    RecallEnded,
    ReplyReceived,
    SendAcknowledged,
    SendBegan,
    SendFailed,
    TransactionEnded,
    WentWrong,
)
from staticfire.simulation.runs.record import Seat
from staticfire.simulation.workload.description import Producers, Transactions, namespace_of
from staticfire.simulation.workload.own_code import OWN_ERRORS, words_of_error
from staticfire.simulation.world.chance import number_from, source_of_chance

NAME_PROPERTY = "simulated_name"
# The maximum of sends in flight of one program. Above it, the program waits for its next turn.
UNDER_WAY_MAX = 200
# Errors of the workload itself: the next send fails, too, even without faults.
NEVER_SENT = (UsageError, ClientError, MessageIllegal, NoPermission)
# Some recalls are sent after the message's time of delivery.
LATE_RECALLS = 1.2
_SHARES = 1 << 20


class _BegunSend(NamedTuple):
    """A message that is about to be sent."""

    name: str
    body: bytes | UsageError
    """The error: why it has none."""
    key: int
    """-1: none."""


class SendingProgram(Service):
    """Sends messages with unique names, and records the result of each."""

    def __init__(
        self, description: Producers, seat: Seat, levels: DelayLevels, was_forbidden: Container[str] = ()
    ) -> None:
        """`was_forbidden`: topics that an administrator has closed at some time. A refused send there isn't an
        error."""
        super().__init__()
        self._was_forbidden = was_forbidden
        self._description = description
        machine, seed = seat.machine, seat.seed
        self._machine = machine
        self._seed = seed
        self._record = seat.record
        self._who = machine.identity.host_name
        self._life = machine.identity.pid
        self._chance = source_of_chance(seed, "sending", self._who, self._life)
        self._is_over = False
        self._under_way = 0
        self._number = 0
        self.stored_count = 0
        self.failure = ""
        """The error of the last failed send."""
        self.has_reported = False
        """Whether it was recorded that this program's messages can never be stored."""
        level = description.delay_level
        self._delay_ms = levels.delay_ms(levels.clamp(level)) if level else description.delay_ms
        self._producer: Producer
        self._namespace = Namespace(namespace_of(description.topic))
        group = self._namespace.unwrap(description.program)
        settings = ProducerSettings(ClientSettings(namespace=self._namespace.name)) if self._namespace.name else None
        if description.transactions is None:
            self._producer = Producer(group, seat.namesrv, settings, machine)
        else:
            self._producer = TransactionProducer(group, seat.namesrv, settings, machine, check=self._check)

    async def _start(self) -> None:
        await self._producer.__aenter__()
        self.spawn(self._send_loop(), f"sending of {self._who}")

    async def _stop(self) -> None:
        self._is_over = True
        await self._producer.__aexit__(None, None, None)

    def end(self) -> None:
        """Begin no more sends; those in flight continue."""
        self._is_over = True

    @property
    def is_idle(self) -> bool:
        return self._is_over and not self._under_way

    def _now(self) -> int:
        return self._machine.clock.uptime_ms()

    async def _send_loop(self) -> None:
        at_once = self._description.at_once
        mean_ms = 1_000 * self._description.clients * at_once / self._description.per_second
        while True:
            await self.pause_for(max(1, round(self._chance.expovariate(1 / mean_ms))))
            if self._is_over:
                return
            if self._under_way >= UNDER_WAY_MAX:
                continue
            first, self._number = self._number + 1, self._number + at_once
            self._under_way += at_once
            if at_once > 1:
                self.spawn(self._send_many(range(first, self._number + 1)), f"sends from {first} on of {self._who}")
            else:
                self.spawn(self._send(self._number), f"send {self._number} of {self._who}")

    def _begin(self, number: int) -> "_BegunSend":
        """Note that a message is sent."""
        name = f"{self._who}/{self._life}/{number}"
        due_ms = self._now() + self._delay_ms if self._delay_ms else 0
        tag, properties = self._chosen(name)
        is_half = self._transactions is not None
        topic, shown = self._description.topic, tuple(properties.items())
        body: bytes | UsageError
        try:
            body = self._body(name, number)
        except UsageError as error:
            body = error
        crc = crc32(body) if isinstance(body, bytes) else -1
        key = -1
        if self._description.keys and not is_half and self._description.at_once == 1 and not self._description.asks_ms:
            key = self._chance.randrange(self._description.keys)
        self._record.note(SendBegan(self._now(), name, topic, due_ms, is_half, tag, shown, crc, key))
        return _BegunSend(name, body, key)

    async def _send_many(self, numbers: range) -> None:
        begun = [self._begin(number) for number in numbers]
        names = [one.name for one in begun]
        results: list[SendResult | Exception]
        try:
            messages = [self._message(one) for one in begun]
            results = await self._producer.send_many(messages, return_exceptions=True)
        except StaticfireError as error:
            results = [error] * len(names)
        finally:
            self._under_way -= len(names)
        for name, result in zip(names, results, strict=True):
            if isinstance(result, StaticfireError):
                self._failed(name, result)
            elif isinstance(result, Exception):
                raise result
            else:
                self._acknowledged(name, result)

    async def _send(self, number: int) -> None:
        begun = self._begin(number)
        name = begun.name
        try:
            message = self._message(begun)
            if self._description.asks_ms:
                await self._ask(name, message)
                return
            result = await self._sent(message, begun)
            self._acknowledged(name, result)
            if self._description.recalls:
                await self._perhaps_recall(name, result)
        except StaticfireError as error:
            self._failed(name, error)
        finally:
            self._under_way -= 1

    async def _ask(self, name: str, message: Message) -> None:
        reply = await self._producer.request(message, self._description.asks_ms)
        self.stored_count += 1
        self._record.note(ReplyReceived(self._now(), name, reply.body.decode()))

    async def _perhaps_recall(self, name: str, result: SendResult) -> None:
        """Recall a message, if it was chosen for that, at some time until shortly after its delivery."""
        share = number_from(self._seed, "recall", name) % _SHARES / _SHARES
        if share >= self._description.recalls or result.recall_handle is None:
            return
        span_ms = round(self._delay_ms * LATE_RECALLS)
        await self.pause_for(number_from(self._seed, "recalled after", name) % span_ms)
        self._record.note(RecallBegan(self._now(), name))
        try:
            await self._producer.recall(self._namespace.unwrap(self._description.topic), result.recall_handle)
            outcome = "recalled"
        except StaticfireError as error:
            outcome = "refused" if isinstance(error, BrokerAnswer) else "unknown"
        self._record.note(RecallEnded(self._now(), name, outcome))

    def _failed(self, name: str, error: StaticfireError) -> None:
        words = self.failure = f"{type(error).__name__}: {error}"
        self._record.note(SendFailed(self._now(), name, words))
        is_ours = self._description.topic not in self._was_forbidden
        if isinstance(error, NEVER_SENT) and is_ours and not self.has_reported:
            self.has_reported = True
            self._record.note(WentWrong(self._now(), self._who, f"its messages can't be stored: {words}"))

    def _acknowledged(self, name: str, result: SendResult) -> None:
        self.stored_count += 1
        place = (result.queue.broker_name, self._namespace.wrap(result.queue.topic), result.queue.queue_id)
        is_safe = result.status is SendStatus.SEND_OK
        offset, position = result.queue_offset, result.log_position
        if position < 0:
            position = parse_offset_id(result.offset_message_id)[1]
        self._record.note(SendAcknowledged(self._now(), name, place, offset, position, is_safe, result.message_id))

    @property
    def _transactions(self) -> Transactions | None:
        return self._description.transactions

    def _chosen(self, name: str) -> tuple[str, dict[str, str]]:
        """Return the tag and the properties of a message, which are random but depend only on its name."""
        tags, all_values = self._description.tags, self._description.properties
        tag = tags[number_from(self._seed, "tag", name) % len(tags)] if tags else ""
        chosen = {key: values[number_from(self._seed, key, name) % len(values)] for key, values in all_values.items()}
        return tag, {key: value for key, value in chosen.items() if value}

    def _message(self, begun: "_BegunSend") -> Message:
        """Return a message to send. Raises: UsageError (it has no body)."""
        name, body, _ = begun
        if isinstance(body, UsageError):
            raise body
        description = self._description
        tag, properties = self._chosen(name)
        deliver_ms = self._machine.clock.wall_ms() + self._delay_ms if description.is_exact else None
        delay_ms = None if description.is_exact else description.delay_ms or None
        return Message(
            self._namespace.unwrap(description.topic), body, tag,
            (description.program, name) if description.has_keys else (),
            properties={NAME_PROPERTY: name, **properties},
            delay_level=description.delay_level, delay_ms=delay_ms, deliver_ms=deliver_ms,
        )  # fmt: skip

    def _body(self, name: str, number: int) -> bytes:
        """Return the body of a message. Raises: UsageError (the workload's own function returns none)."""
        make, owner = self._description.body, f"the body of Producers({self._description.topic!r})"
        if make is None:
            return name.encode()
        try:
            body = make(number)
        except (*OWN_ERRORS, KeyboardInterrupt) as error:  # Ctrl-C doesn't arrive here: asyncio handles it.
            raise UsageError(f"{owner}: {words_of_error(error, make)}") from None
        if not isinstance(body, bytes):
            raise UsageError(
                f"{owner} is {type(body).__name__} for message {number}; return bytes, as text.encode() is"
            )
        return body

    async def _sent(self, message: Message, begun: "_BegunSend") -> SendResult:
        if isinstance(self._producer, TransactionProducer):
            result = await self._producer.send_in_transaction(message, self._decide, begun.name)
            return result.sent
        if begun.key >= 0:
            return await self._producer.send(message, selector=by_hash, key=begun.key)
        return await self._producer.send(message)

    # -- transactions ----------------------------------------------------------------------------------------------

    def _decide(self, _: Message, name: str) -> TransactionState:
        shares = self._transactions or Transactions()
        share = number_from(self._seed, "transaction", name) % _SHARES / _SHARES
        if share >= shares.commit + shares.rollback:
            return TransactionState.UNKNOWN
        return self._ended(name, share < shares.commit)

    def _check(self, message: ReceivedMessage) -> TransactionState:
        """Respond to a check. A message always ends the same way, whichever program gets the check, and how often."""
        name = message.get(NAME_PROPERTY) or ""
        shares = self._transactions or Transactions()
        share = number_from(self._seed, "transaction", name) % _SHARES / _SHARES
        return self._ended(name, share < shares.commit or share >= (1 + shares.commit + shares.rollback) / 2)

    def _ended(self, name: str, is_commit: bool) -> TransactionState:
        self._record.note(TransactionEnded(self._now(), name, is_commit))
        return TransactionState.COMMIT if is_commit else TransactionState.ROLLBACK
