"""Topics that were just created, and that the nameservers don't have yet.

RocketMQ registers a new topic before it stores the message that it was created for. So after the first send to a topic
a client can request its route at once: some clients request it only once and then give up. Invariants: sends to such a
topic wait, in the order of their arrival; a nameserver that doesn't respond delays them by ANNOUNCED_MS_MAX at most
(registration.py). RocketMQ: TopicConfigManager.createTopicInSendMessageMethod.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from staticfire.protocol.command import Answer
from staticfire.runtime.dispatcher import Call, failure
from staticfire.runtime.service import Spawn

Send = Callable[[Call], Answer | None]


class NewTopics:
    """Holds sends until the nameservers have their topics."""

    def __init__(self, announced: Callable[[], Awaitable[None]], spawn: Spawn, settle: Callable[[], None]) -> None:
        """`announced` returns when the nameservers have all topics; `settle` writes what was sent."""
        self._announced = announced
        self._spawn = spawn
        self._settle = settle
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._before: Callable[[Send], Send] | None = None

    def precede(self, before: Callable[[Send], Send]) -> None:
        """Run another handler first when a send is resumed, as `Dispatcher.precede` does when it arrives."""
        self._before = before

    def __contains__(self, topic: str) -> bool:
        return topic in self._waiting

    def add(self, topic: str) -> None:
        """Let sends to a topic wait from now on, until it is announced."""
        if topic not in self._waiting:
            self._waiting[topic] = []
            self._spawn(self._announce(topic), f"announcement of {topic}")

    def hold(self, topic: str, call: Call, send: Send) -> None:
        """Hold a send until its topic is announced."""
        self._waiting[topic].append(partial(_send_late, call, send if self._before is None else self._before(send)))

    def when_announced(self, topic: str, act: Callable[[], None]) -> None:
        """Call `act` when a topic is announced."""
        self._waiting[topic].append(act)

    def resume_all(self) -> None:
        """Resume what waits for any topic: this core ends."""
        for topic in list(self._waiting):
            self._resume(topic)

    async def _announce(self, topic: str) -> None:
        await self._announced()
        if topic in self._waiting:
            self._resume(topic)

    def _resume(self, topic: str) -> None:
        for resume in self._waiting.pop(topic):
            resume()
        self._settle()


def _send_late(call: Call, send: Send) -> None:
    try:
        answer = send(call)
    except Exception as error:  # noqa: BLE001 (one request: its failure is its answer)
        answer = failure(error, call)
    if answer is not None:
        call.answer(answer)
