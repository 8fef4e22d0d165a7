"""Hooks that a program can add around its sends. RocketMQ: CheckForbiddenHook, SendMessageHook, EndTransactionHook.

    class Audit(ProducerHook):
        def check_forbidden(self, call: SendCall) -> None:
            if not call.message.keys:
                raise ClientError("a message without a key")

        def after_send(self, call: SendCall) -> None:
            print(call.message.topic, call.result or call.error, call.took_ms)

    producer.add_hook(Audit())

If `check_forbidden` raises, the send raises the same, and nothing is sent. What the other methods raise is logged, and
the send continues; this includes SystemExit, CancelledError and what `pytest.fail()` raises. Only KeyboardInterrupt is
raised. Hooks are called once per message, before its first attempt and after its last (RocketMQ: around each attempt).
With hooks, the messages of `send_many` are posted one by one.
"""

import asyncio
from functools import partial

from staticfire.client.cluster.program_errors import place_of, words_of
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.messages import Message
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("client")


class SendCall:
    """A send. Its results are set after it has ended. RocketMQ: SendMessageContext."""

    __slots__ = ("began_ms", "error", "group", "message", "queue", "result", "took_ms")

    def __init__(self, group: str, message: Message, queue: MessageQueue | None, began_ms: UptimeMs) -> None:
        self.group = group
        self.message = message
        """The message; of a batch, the first one."""
        self.queue = queue
        """The queue that the program chose; None if it didn't."""
        self.result: SendResult | None = None
        """None before the end, after a failure, and for a one-way send."""
        self.error: BaseException | None = None
        self.began_ms = began_ms
        self.took_ms = 0


class EndTransactionCall:
    """The end of a transaction, before its broker is notified. RocketMQ: EndTransactionContext."""

    __slots__ = ("from_check", "group", "message_id", "state", "topic")

    def __init__(self, group: str, topic: str, message_id: str, state: str, from_check: bool) -> None:
        self.group = group
        self.topic = topic
        self.message_id = message_id
        self.state = state
        """The name of a TransactionState."""
        self.from_check = from_check
        """Whether the state was requested by the broker."""


class ProducerHook:
    """Override the methods that you need."""

    def check_forbidden(self, call: SendCall) -> None:
        """Raise an exception to forbid a send."""

    def before_send(self, call: SendCall) -> None:
        """Called before a message is sent."""

    def after_send(self, call: SendCall) -> None:
        """Called after a send, with its result or error."""

    def end_transaction(self, call: EndTransactionCall) -> None:
        """Called at the end of a transaction."""


class ProducerHooks:
    """All hooks of one producer."""

    def __init__(self, group: str, clock: Clock) -> None:
        self._group = group
        self._clock = clock
        self._hooks: list[ProducerHook] = []

    def add(self, hook: ProducerHook) -> None:
        """Add a hook, after earlier ones."""
        self._hooks.append(hook)

    def begin(self, message: Message, queue: MessageQueue | None) -> SendCall:
        """Check that a message may be sent, and call `before_send`. Raises: what a hook forbids it with."""
        call = SendCall(self._group, message, queue, self._clock.uptime_ms())
        for hook in self._hooks:
            hook.check_forbidden(call)
        for hook in self._hooks:
            self._tell("before_send", hook, call)
        return call

    def end(self, call: SendCall, result: SendResult | None, error: BaseException | None) -> None:
        """Call `after_send` with the outcome."""
        call.result, call.error = result, error
        call.took_ms = self._clock.uptime_ms() - call.began_ms
        for hook in self._hooks:
            self._tell("after_send", hook, call)

    def follow(self, call: SendCall, future: "asyncio.Future[SendResult]") -> None:
        """Call `after_send` when the future has its outcome."""
        future.add_done_callback(partial(self._settled, call))

    def _settled(self, call: SendCall, future: "asyncio.Future[SendResult]") -> None:
        if future.cancelled():
            self.end(call, None, asyncio.CancelledError())
            return
        error = future.exception()
        self.end(call, future.result() if error is None else None, error)

    def end_transaction(self, call: EndTransactionCall) -> None:
        """Call `end_transaction`."""
        for hook in self._hooks:
            self._tell("end_transaction", hook, call)

    def _tell(self, name: str, hook: ProducerHook, call: SendCall | EndTransactionCall) -> None:
        try:
            getattr(hook, name)(call)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (nothing in a plain function is the end of a send)
            log.warning("hook_raised", group=self._group, hook=name, error=words_of(error), at=place_of(error))
