"""Hooks that a program can add around pulls, rebalances and consumption. RocketMQ: ConsumeMessageHook.

    class Spans(ConsumerHook):
        def after_consume(self, call: ConsumeCall) -> None:
            print(call.queue, len(call.messages), call.outcome, call.took_ms)

    consumer.add_hook(Spans())

Only the methods that a hook overrides are called; the others cost nothing. What a hook raises is logged and ignored.
Hooks around consumption run where the listener runs: for a plain function that is a thread.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from staticfire.client.cluster.program_errors import is_logged, place_of, words_of
from staticfire.client.cluster.pull_answers import PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.results.consume_results import ConsumeStatus
from staticfire.client.consume.results.ordered_results import OrderedStatus
from staticfire.protocol.messages import ReceivedMessage
from staticfire.runtime.log import logger

log = logger("client")


class ConsumeReturnType(Enum):
    """How a call of a listener ended. RocketMQ: ConsumeReturnType."""

    SUCCESS = "SUCCESS"
    TIME_OUT = "TIME_OUT"
    """It took the consume timeout or longer, whatever it returned then."""
    EXCEPTION = "EXCEPTION"
    RETURNNULL = "RETURNNULL"
    FAILED = "FAILED"
    """It returned that its messages must be redelivered, or something that is no status."""


_SUCCESSES = (ConsumeStatus.CONSUME_SUCCESS, OrderedStatus.SUCCESS, OrderedStatus.COMMIT)


class ConsumeCall:
    """A call of the listener, or a poll. Its results are set after the call. RocketMQ: ConsumeMessageContext."""

    __slots__ = ("_statuses", "error", "group", "messages", "outcome", "queue", "status", "took_ms")

    def __init__(
        self,
        group: str,
        queue: MessageQueue,
        messages: Sequence[ReceivedMessage],
        statuses: type[ConsumeStatus] | type[OrderedStatus] = ConsumeStatus,
    ) -> None:
        """`statuses`: what this kind of listener returns. A status of the other kind counts as none."""
        self._statuses = statuses
        self.group = group
        self.queue = queue
        self.messages = messages
        self.outcome: ConsumeReturnType | None = None
        self.status: object = None
        """What the listener returned."""
        self.error: BaseException | None = None
        """What it raised."""
        self.took_ms = 0

    @property
    def is_success(self) -> bool:
        """Whether the listener reported success, however long it took."""
        return isinstance(self.status, self._statuses) and self.status in _SUCCESSES


def return_type(call: ConsumeCall, timeout_ms: int) -> ConsumeReturnType:
    """Return how a call ended, whose results are set."""
    if call.took_ms >= timeout_ms:
        return ConsumeReturnType.TIME_OUT
    if call.error is not None:
        return ConsumeReturnType.EXCEPTION
    if call.status is None:
        return ConsumeReturnType.RETURNNULL
    return ConsumeReturnType.SUCCESS if call.is_success else ConsumeReturnType.FAILED


class PullCall:
    """A pull and its result."""

    __slots__ = ("error", "group", "messages", "next_offset", "queue", "queue_offset", "status", "took_ms")

    def __init__(self, group: str, queue: MessageQueue, queue_offset: int) -> None:
        self.group = group
        self.queue = queue
        self.queue_offset = queue_offset
        """The offset that the pull starts at."""
        self.status: PullStatus | None = None
        """None before the response, and if there was none."""
        self.error: BaseException | None = None
        """Why there was no response, or an error one."""
        self.messages = 0
        self.next_offset = -1
        self.took_ms = 0


class RebalanceCall:
    """A change of the queues of a topic that this member owns."""

    __slots__ = ("dropped", "group", "owned", "queues", "taken", "topic")

    def __init__(self, group: str, topic: str, queues: Sequence[MessageQueue], owned: Sequence[MessageQueue]) -> None:
        self.group = group
        self.topic = topic
        self.queues = queues
        """All queues of the topic."""
        self.owned = owned
        """The queues that are owned: before the change the old ones, after it the new ones."""
        self.dropped: Sequence[MessageQueue] = ()
        self.taken: Sequence[MessageQueue] = ()
        """Before the change the queues to take, after it those that could be taken."""


class ConsumerHook:
    """Override the methods that you need."""

    def before_pull(self, call: PullCall) -> None:
        """Called before a pull is sent."""

    def after_pull(self, call: PullCall) -> None:
        """Called after the response to a pull, or its failure."""

    def before_rebalance(self, call: RebalanceCall) -> None:
        """Called before a change of queues that has been decided."""

    def after_rebalance(self, call: RebalanceCall) -> None:
        """Called after the change."""

    def before_consume(self, call: ConsumeCall) -> None:
        """Called before a call of the listener."""

    def after_consume(self, call: ConsumeCall) -> None:
        """Called after a call of the listener."""


Heard = Callable[[Any], None]
KINDS = ("pull", "rebalance", "consume")


class ConsumerHooks:
    """All hooks of one consumer."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._methods: dict[str, list[Heard]] = {}
        self._failed = 0

    def add(self, hook: ConsumerHook) -> None:
        """Add the methods that a hook overrides, after those of earlier hooks."""
        for kind in KINDS:
            for name in (f"before_{kind}", f"after_{kind}"):
                if getattr(type(hook), name) is not getattr(ConsumerHook, name) or name in vars(hook):
                    self._methods.setdefault(name, []).append(getattr(hook, name))

    def hears_of(self, kind: str) -> bool:
        """Whether any hook has methods for this kind of call."""
        return f"before_{kind}" in self._methods or f"after_{kind}" in self._methods

    def call(self, name: str, call: Any) -> None:
        """Call the hooks' methods of this name."""
        for method in self._methods.get(name, ()):
            try:
                method(call)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 (nothing in a plain function is this consumer's own end)
                self._failed = times = self._failed + 1
                if is_logged(times):
                    words, at = words_of(error), place_of(error)
                    log.warning("hook_raised", group=self._group, hook=name, error=words, times=times, at=at)

    def consumed(self, call: ConsumeCall, status: object, error: BaseException | None, limit_ms: int) -> None:
        """Report the end of a listener's call, whose `took_ms` is set."""
        call.status, call.error = status, error
        call.outcome = return_type(call, limit_ms)
        self.call("after_consume", call)
