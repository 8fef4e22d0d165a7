"""`Cluster.dlq(group)`: the dead letters of a group.

    for letter in cluster.dlq("billing").letters():
        print(letter.id, letter.origin_topic, letter.message.body)
    cluster.dlq("billing").resend()
    stop = cluster.dlq("billing").on_death(lambda letter: died.append(letter.message.body))

All raise GroupNotFound, BrokerAnswer and NetworkError; see DeadLetterQueue.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from staticfire.cluster.cluster_calls import Face, awaiting, waiting
from staticfire.cluster.running_cluster import RunningCluster
from staticfire.runtime.log import logger
from staticfire.runtime.loop_thread import LoopThread

if TYPE_CHECKING:
    from staticfire.client import DeadLetter, DeadLetterQueue, ResendReport

T = TypeVar("T")

log = logger("cluster")

# Each thousand letters takes seconds. The caller can interrupt it; the next call continues after the last one sent.
RESEND_TIMEOUT_S = 3_600


class RunningDeadLetters:
    """A group's dead letters. Runs inside the cluster's event loop."""

    def __init__(self, cluster: RunningCluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self.hook_error: Exception | None = None
        """Why `follow` has ended, if it wasn't requested to."""

    async def count(self) -> int:
        """Return the number of dead letters."""
        return await self._with_dead_letters(lambda queue: queue.count())

    async def letters(self, limit: int = 1_000, newest: bool = False) -> "list[DeadLetter]":
        """Return the oldest letters, or the newest, in the order in which they died."""
        return await self._with_dead_letters(lambda queue: queue.letters(limit, newest))

    async def find(self, letter_id: str) -> "DeadLetter":
        """Return the letter with an id: its position, or the id of its message. Raises: ClientError (not found)."""
        return await self._with_dead_letters(lambda queue: queue.find(letter_id))

    async def resend(
        self,
        ids: Sequence[str] = (),
        *,
        to: str | None = None,
        only_group: bool = False,
        again: bool = False,
        start: str | None = None,
    ) -> "ResendReport":
        """Resend the letters with these ids. Without ids: all that weren't resent before, or all if `again` is set.

        `start`: with `again`, leave out the letters before this place.

        Raises: as `DeadLetterQueue.resend`.
        """
        return await self._with_dead_letters(
            lambda queue: queue.resend(ids, to=to, only_group=only_group, again=again, start=start)
        )

    async def follow(self, hook: "Callable[[DeadLetter], object]", from_start: bool) -> None:
        """Call a hook in a thread with each message that dies. An exception of the hook is logged."""
        try:
            async with self._queue() as queue:
                async for letter in queue.follow(from_start):
                    try:
                        await queue.client.machine.workers.run_foreign(hook, letter)
                    except Exception as error:  # noqa: BLE001 (a user's function: later deaths are still reported)
                        log.error("hook_failed", group=self._group, letter=letter.id, error=repr(error))
        except Exception as error:
            self.hook_error = error
            log.error("hook_ended", group=self._group, error=repr(error))
            raise

    async def _with_dead_letters(self, call: "Callable[[DeadLetterQueue], Awaitable[T]]") -> T:
        async with self._queue() as queue:
            return await call(queue)

    def _queue(self) -> "DeadLetterQueue":
        from staticfire.client import DeadLetterQueue

        return DeadLetterQueue(self._group, self._cluster.cluster.namesrv, self._cluster.client_settings)


class ClusterDeadLetters(Face[RunningDeadLetters]):
    """What the blocking and the awaited class share: a cluster, a group, and a hook."""

    def __init__(self, cluster: Face[RunningCluster], group: str) -> None:
        self._cluster = cluster
        self.group = group

    def on_death(self, hook: "Callable[[DeadLetter], object]", from_start: bool = False) -> Callable[[], object]:
        """Call a plain function, in a thread, with each message that dies from now on, or with all dead letters.

        Return a function that ends this. It raises the error that has ended it before, if there was one: then the hook
        wasn't called with later deaths. The end of the cluster ends it, too.
        """
        thread, target = self._thread_and_object()
        following = thread.submit(target.follow(hook, from_start))
        ends = self._cluster._thread_and_object()[1].hook_ends
        ends[following.cancel] = None
        following.add_done_callback(lambda _: ends.pop(following.cancel, None))

        def stop() -> None:
            following.cancel()
            if target.hook_error is not None:
                raise target.hook_error

        return stop

    def _thread_and_object(self) -> tuple[LoopThread, RunningDeadLetters]:
        thread, running = self._cluster._thread_and_object()
        return thread, RunningDeadLetters(running, self.group)


class BlockingDeadLetters(ClusterDeadLetters):
    """The dead letters of a group. All methods block."""

    count = waiting(RunningDeadLetters.count)
    letters = waiting(RunningDeadLetters.letters)
    find = waiting(RunningDeadLetters.find)
    resend = waiting(RunningDeadLetters.resend, RESEND_TIMEOUT_S)


class AwaitedDeadLetters(ClusterDeadLetters):
    """The dead letters of a group. All methods but `on_death` are awaited."""

    count = awaiting(RunningDeadLetters.count)
    letters = awaiting(RunningDeadLetters.letters)
    find = awaiting(RunningDeadLetters.find)
    resend = awaiting(RunningDeadLetters.resend)
