"""Where queues must end, after what a test has sent. For a cluster of Apache RocketMQ.

Its broker responds to a send when the message is in the commit log. It puts the message into its queue a millisecond
later, or many on a busy machine: a test that reads the queue at once doesn't find it. RocketMQ: ReputMessageService.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from staticfire.client import Message, MessageQueue, SendResult
from staticfire.runtime.machine import Clock
from staticfire.testing.waits import NotYet, comes_true

if TYPE_CHECKING:
    from staticfire.client import PullConsumer

IN_QUEUE_S_MAX = 30.0
"""How long such a broker may take."""


class SentEnds:
    """The ends that queues must have reached before a test reads them."""

    def __init__(self) -> None:
        self._ends: dict[MessageQueue, int] = {}

    def note(self, message: Message, result: SendResult) -> None:
        """Note a message that was sent. A delayed one is in another queue until it is due."""
        is_delayed = message.delay_level > 0 or message.delay_ms is not None or message.deliver_ms is not None
        if not is_delayed:
            self._ends[result.queue] = max(self._ends.get(result.queue, 0), result.queue_offset + 1)

    async def wait_in_queues(
        self, topic: str, reader: "PullConsumer", clock: Clock, pause: Callable[[float], Awaitable[None]]
    ) -> None:
        """Wait until the messages sent to a topic are in their queues. `pause`: sleeps for seconds. Raises: NotYet."""
        wanted = {queue: end for queue, end in self._ends.items() if queue.topic == topic}
        if not wanted:
            return
        found: dict[MessageQueue, int] = {}

        async def are_there() -> bool:
            nonlocal found
            found = dict(zip(wanted, await asyncio.gather(*map(reader.max_offset, wanted)), strict=True))
            return all(found[queue] >= end for queue, end in wanted.items())

        try:
            if not await comes_true(are_there, IN_QUEUE_S_MAX, clock, pause):
                late = [queue for queue, end in wanted.items() if found[queue] < end]
                words = "; ".join(
                    f"{queue.broker_name}/{queue.queue_id} ends at {found[queue]}, and the last message sent is at "
                    f"{wanted[queue] - 1}"
                    for queue in late
                )
                raise NotYet(f"{topic}: sent messages aren't in their queues after {IN_QUEUE_S_MAX:g} s: {words}")
        finally:
            # The queues have reached these ends, or never will: nothing waits for them again.
            for queue in wanted:
                self._ends.pop(queue, None)
