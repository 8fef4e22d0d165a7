"""What has been pulled and not yet polled: the messages of each pull, in the order in which the pulls were answered.

RocketMQ: DefaultLitePullConsumerImpl.consumeRequestCache. To the queues it is what listeners are to a push consumer.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from staticfire.client.consume.queues.instructions import GiveBack
from staticfire.client.consume.queues.queue_driver import Queue
from staticfire.protocol.messages import ReceivedMessage

Batch = tuple[Queue, Sequence[ReceivedMessage]]
"""What one pull brought."""


class PollBuffer:
    """That of one consumer."""

    def __init__(self) -> None:
        self.messages = 0
        """How many wait to be polled."""
        self._batches: deque[Batch] = deque()
        self._filled = asyncio.Event()
        self._is_over = False

    # -- as the queues see it ------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many pulls have not been polled."""
        return len(self._batches)

    @property
    def threads(self) -> int:
        """None: whoever polls consumes."""
        return 0

    def resize(self, threads: int) -> None:
        """Do nothing: there are no listeners."""

    def submit(self, queue: Any, messages: Sequence[ReceivedMessage]) -> None:
        """Take in what a pull brought."""
        self._batches.append((queue, messages))
        self.messages += len(messages)
        self._filled.set()

    def give_back(self, queue: Any, overdue: GiveBack) -> None:
        """Do nothing: a program takes what it takes."""

    def settle(self) -> None:
        """Do nothing: what is polled is counted at once."""

    async def leave(self) -> None:
        """Have nothing any more; polls that wait end."""
        self._is_over = True
        self._batches.clear()
        self.messages = 0
        self._filled.set()

    # -- as polls see it -----------------------------------------------------------------------------------------

    def take(self) -> Batch | None:
        """Return what is next; what came of a queue that was lost since, or where somebody went elsewhere, isn't."""
        while self._batches:
            queue, messages = self._batches.popleft()
            self.messages -= len(messages)
            if not queue.is_dropped:
                return queue, messages
        return None

    async def wait(self, timeout_s: float) -> None:
        """Wait until there is more, or for that long."""
        if self._is_over:
            return
        self._filled.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._filled.wait()
