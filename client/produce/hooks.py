"""What a program can have called around its sends. RocketMQ: CheckForbiddenHook, SendMessageHook, EndTransactionHook.

    class Audit(ProducerHook):
        def check_forbidden(self, call: SendCall) -> None:
            if not call.message.keys:
                raise ClientError("a message without a key")

        def after_send(self, call: SendCall) -> None:
            print(call.message.topic, call.result or call.error, call.took_ms)

    producer.add_hook(Audit())

What `check_forbidden` raises is what the send raises, and nothing leaves. What the others raise is logged, and the send
goes on: SystemExit, a CancelledError and the outcome that `pytest.fail()` raises. Only KeyboardInterrupt is raised.
They are called once for each message, before its first attempt and after its last (RocketMQ: around each attempt). With
hooks, the messages of `send_many` are posted one by one.
"""

import asyncio
from functools import partial

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.results.listener_errors import place_of, words_of
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.messages import Message
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("client")


class SendCall:
    """A message on its way. Before it, nothing is known of its end. RocketMQ: SendMessageContext."""

    __slots__ = ("began_ms", "error", "group", "message", "queue", "result", "took_ms")

    def __init__(self, group: str, message: Message, queue: MessageQueue | None, began_ms: UptimeMs) -> None:
        self.group = group
        self.message = message
        """Of a batch the first one."""
        self.queue = queue
        """The one that the program chose."""
        self.result: SendResult | None = None
        """None of a one-way send, too."""
        self.error: BaseException | None = None
        self.began_ms = began_ms
        self.took_ms = 0


class EndTransactionCall:
    """How a transaction ended, before its broker is told. RocketMQ: EndTransactionContext."""

    __slots__ = ("from_check", "group", "message_id", "state", "topic")

    def __init__(self, group: str, topic: str, message_id: str, state: str, from_check: bool) -> None:
        self.group = group
        self.topic = topic
        self.message_id = message_id
        self.state = state
        """The name of a TransactionState."""
        self.from_check = from_check
        """The broker had asked."""


class ProducerHook:
    """Override what you want to hear of."""

    def check_forbidden(self, call: SendCall) -> None:
        """Raise something to forbid a send."""

    def before_send(self, call: SendCall) -> None:
        """Hear of a message that leaves."""

    def after_send(self, call: SendCall) -> None:
        """Hear what became of it."""

    def end_transaction(self, call: EndTransactionCall) -> None:
        """Hear how a transaction ended."""


class ProducerHooks:
    """All hooks of one producer."""

    def __init__(self, group: str, clock: Clock) -> None:
        self._group = group
        self._clock = clock
        self._hooks: list[ProducerHook] = []

    def add(self, hook: ProducerHook) -> None:
        """Call it, behind the hooks that are there."""
        self._hooks.append(hook)

    def begin(self, message: Message, queue: MessageQueue | None) -> SendCall:
        """Ask whether a message may be sent, and tell that it is. Raises: what a hook forbids it with."""
        call = SendCall(self._group, message, queue, self._clock.uptime_ms())
        for hook in self._hooks:
            hook.check_forbidden(call)
        for hook in self._hooks:
            self._tell("before_send", hook, call)
        return call

    def end(self, call: SendCall, result: SendResult | None, error: BaseException | None) -> None:
        """Tell what became of it."""
        call.result, call.error = result, error
        call.took_ms = self._clock.uptime_ms() - call.began_ms
        for hook in self._hooks:
            self._tell("after_send", hook, call)

    def follow(self, call: SendCall, future: "asyncio.Future[SendResult]") -> None:
        """Tell what becomes of it, when that is known."""
        future.add_done_callback(partial(self._settled, call))

    def _settled(self, call: SendCall, future: "asyncio.Future[SendResult]") -> None:
        if future.cancelled():
            self.end(call, None, asyncio.CancelledError())
            return
        error = future.exception()
        self.end(call, future.result() if error is None else None, error)

    def end_transaction(self, call: EndTransactionCall) -> None:
        """Tell how a transaction ended."""
        for hook in self._hooks:
            self._tell("end_transaction", hook, call)

    def _tell(self, name: str, hook: ProducerHook, call: SendCall | EndTransactionCall) -> None:
        try:
            getattr(hook, name)(call)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (nothing in a plain function is the end of a send)
            log.warning("hook_raised", group=self._group, hook=name, error=words_of(error), at=place_of(error))
