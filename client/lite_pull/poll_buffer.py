"""The messages that are pulled and not yet polled, pull by pull, in the order of the responses.

RocketMQ: DefaultLitePullConsumerImpl.consumeRequestCache. For the queues it replaces a push consumer's listener.
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
"""The messages of one pull."""


class PollBuffer:
    """The buffer of one consumer."""

    def __init__(self) -> None:
        self.messages = 0
        """The number of messages that wait to be polled."""
        self._batches: deque[Batch] = deque()
        self._filled = asyncio.Event()
        self._is_over = False

    # -- as the queues see it ------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of pulls that have not been polled."""
        return len(self._batches)

    @property
    def threads(self) -> int:
        """Always 0: the polling program consumes."""
        return 0

    def resize(self, threads: int) -> None:
        """Do nothing: there are no listeners."""

    def submit(self, queue: Any, messages: Sequence[ReceivedMessage]) -> None:
        """Add the messages of a pull."""
        self._batches.append((queue, messages))
        self.messages += len(messages)
        self._filled.set()

    def give_back(self, queue: Any, overdue: GiveBack) -> None:
        """Do nothing: there is no time limit for a polling program."""

    def settle(self) -> None:
        """Do nothing: polled messages are counted at once."""

    async def leave(self) -> None:
        """Clear the buffer and end waiting polls."""
        self._is_over = True
        self._batches.clear()
        self.messages = 0
        self._filled.set()

    # -- as polls see it -----------------------------------------------------------------------------------------

    def take(self) -> Batch | None:
        """Return the next batch. Batches of queues that were lost, or moved to another offset, are skipped."""
        while self._batches:
            queue, messages = self._batches.popleft()
            self.messages -= len(messages)
            if not queue.is_dropped:
                return queue, messages
        return None

    async def wait(self, timeout_s: float) -> None:
        """Wait for the next batch, or until the timeout."""
        if self._is_over:
            return
        self._filled.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._filled.wait()
