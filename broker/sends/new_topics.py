"""Topics that were created a moment ago, of which the nameservers don't know yet.

RocketMQ registers a new topic before it stores the message that it was created for. So whoever has sent the first
message of a topic can ask for its route at once: some clients ask once and give up. Invariants: sends to such a topic
wait in the order in which they came; a nameserver that doesn't answer delays them by ANNOUNCED_MS_MAX at most
(registration.py). RocketMQ: TopicConfigManager.createTopicInSendMessageMethod.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from staticfire.protocol.command import Answer
from staticfire.runtime.dispatcher import Call, failure
from staticfire.runtime.service import Spawn

Send = Callable[[Call], Answer | None]


class NewTopics:
    """Sends that wait until the nameservers know their topics."""

    def __init__(self, announced: Callable[[], Awaitable[None]], spawn: Spawn, settle: Callable[[], None]) -> None:
        """`announced` returns when the nameservers know what there is; `settle` writes what was sent."""
        self._announced = announced
        self._spawn = spawn
        self._settle = settle
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._waiting

    def add(self, topic: str) -> None:
        """Let sends to a topic wait from now on."""
        if topic not in self._waiting:
            self._waiting[topic] = []
            self._spawn(self._announce(topic), f"announcement of {topic}")

    def hold(self, topic: str, call: Call, send: Send) -> None:
        """Have a call sent when its topic is known."""
        self._waiting[topic].append(partial(_resume, call, send))

    async def _announce(self, topic: str) -> None:
        await self._announced()
        for resume in self._waiting.pop(topic):
            resume()
        self._settle()


def _resume(call: Call, send: Send) -> None:
    try:
        answer = send(call)
    except Exception as error:  # noqa: BLE001 (one request: its failure is its answer)
        answer = failure(error, call)
    if answer is not None:
        call.answer(answer)
