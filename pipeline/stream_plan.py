"""The plan of a streaming query: what it reads next. One per query, in the process where Spark plans it.

Offsets never go back unless the queue itself does. A queue whose broker is away keeps its offset, and is read again
when the broker is back. A new queue, of a known topic or of a new topic that matches the pattern, is read from its
earliest message. With Trigger.AvailableNow, messages after the queues' ends at the start of the query are ignored.
A queue whose known message is another one now (known_messages.py) ends the query, or is read from its first message.
"""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline.batch_plan import Survey, starting_offsets, survey, tell_losses
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.known_messages import Known, KnownMessages
from staticfire.pipeline.link import ClusterLink
from staticfire.pipeline.offsets import LATEST, Checkpoint, Offsets, from_checkpoint, known_in, to_checkpoint
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.pace import PollPace
from staticfire.pipeline.planning import QueueRange, limit_ends, plan_reads, split
from staticfire.pipeline.survey import find_ends, patiently, wanted_queues
from staticfire.protocol.errors import NetworkError, TopicNotFound
from staticfire.runtime.log import logger

log = logger("pipeline")


class StreamPlan:
    """Follows the ends of all queues."""

    def __init__(self, options: SourceOptions, link: ClusterLink) -> None:
        self._options = options
        self._link = link
        self._messages = KnownMessages(options, link)
        self._pace = PollPace()
        self._queues: list[MessageQueue] = []
        self._there: Survey = {}
        self._gone: set[MessageQueue] = set()
        self._target: Survey | None = None
        self._no_route = ""
        """Why a topic can't be looked at: it has no route."""
        self._may_miss = False
        """Whether topics without a route are left out. They are read again when they have one."""

    def initial(self) -> Checkpoint:
        """Return where a query without a checkpoint starts. Raises: StaticfireError."""

        async def ask(client: ClusterClient) -> tuple[Survey, Offsets]:
            there = await survey(client, self._options)
            return there, await starting_offsets(client, self._options, there, LATEST)

        there, offsets = self._link.ask(ask)
        return to_checkpoint(offsets, self._messages.of(offsets, offsets, there, {}))

    def freeze(self) -> None:
        """From now on, ignore messages after the current ends. Raises: StaticfireError."""
        self._look()
        self._target = self._there

    def latest(self, start: Checkpoint, offsets_max: int | None) -> Checkpoint:
        """Return the offsets to read up to; `start` itself if there is nothing new. Raises: StaticfireError."""
        starts = from_checkpoint(start)
        if self._target is None:
            self._look_for_news(starts)
        self._tell_gone(starts.keys() - self._there.keys())
        begins, known = self._without_foreign(starts, known_in(start))
        ends = self._ends(begins)
        if offsets_max is not None:
            first = {queue: self._there[queue].min_offset for queue in ends if queue not in begins}
            ends = limit_ends(first | begins, ends, offsets_max)
        if ends == starts == begins:
            return start
        return to_checkpoint(ends, self._messages.of(begins, ends, self._there, known))

    def _tell_gone(self, gone: set[MessageQueue]) -> None:
        """Warn once of each queue that was read, by this process or an earlier one, and can't be read now."""
        for queue in sorted(gone - self._gone):
            log.warning("queue_gone", queue=str(queue), reason="its broker is offline, or the topic has fewer queues")
        self._gone = gone

    def _without_foreign(self, starts: Offsets, known: Known) -> tuple[Offsets, Known]:
        """Return offsets and known messages without queues that aren't those that were read. Raises: DataLost."""
        foreign = self._messages.foreign(known, self._there)
        if not foreign:
            return starts, known
        return (
            {queue: offset for queue, offset in starts.items() if queue not in foreign},
            {queue: message for queue, message in known.items() if queue not in foreign},
        )

    def ranges(self, start: Checkpoint, end: Checkpoint) -> list[QueueRange]:
        """Return the ranges of one micro-batch. Raises: DataLost."""
        starts, ends = from_checkpoint(start), from_checkpoint(end)
        if not self._there:
            self._look()  # After a restart, Spark plans the last batch again before it calls anything else.
        begins, _ = self._without_foreign(starts, known_in(start))
        plan = plan_reads(begins, ends, self._there)
        tell_losses(self._options, plan.losses)
        return split(plan.ranges, self._options.min_partitions)

    def _ends(self, starts: Offsets) -> Offsets:
        """Return the ends to read up to. A known queue that doesn't exist any more keeps its offset."""
        there = self._there if self._target is None else self._target
        return starts | {
            queue: ends.max_offset for queue, ends in there.items() if not ends.may_lack(starts.get(queue, 0))
        }

    def _look_for_news(self, starts: Offsets) -> None:
        wait_ms = self._pace.wait_ms(self._link.uptime_ms())
        if wait_ms:
            self._link.pause(wait_ms)
        self._look()
        self._pace.queried(self._link.uptime_ms(), changed=self._ends(starts) != starts)

    def _look(self) -> None:
        fresh = self._pace.may_ask_routes(self._link.uptime_ms())

        async def ask(client: ClusterClient) -> Survey:
            nonlocal fresh

            async def attempt() -> Survey:
                nonlocal fresh
                if fresh:
                    await self._find_queues(client)
                fresh = True  # A broker that doesn't respond may be gone from the routes, so a retry fetches them.
                try:
                    return await find_ends(client, self._queues)
                except TopicNotFound as error:
                    self._messages.forget_checks()
                    raise NetworkError(str(error)) from None  # It was deleted after its route was fetched.
                except NetworkError:
                    self._messages.forget_checks()
                    raise

            try:
                return await patiently(client, self._options, attempt)
            except SourceUnreachable:
                if self._options.fail_on_data_loss or not self._no_route:
                    raise
                log.warning("topic_left_out", reason=self._no_route)
                self._may_miss = True
                return await patiently(client, self._options, attempt)

        self._there = self._link.ask(ask)

    async def _find_queues(self, client: ClusterClient) -> None:
        self._no_route = ""
        try:
            queues = await wanted_queues(client, self._options, self._may_miss)
        except SourceUnreachable as error:
            if not self._queues and self._options.fail_on_data_loss:
                raise  # The topic never existed.
            self._no_route = str(error)
            raise NetworkError(self._no_route) from None  # While a topic's only broker restarts, it has no route.
        if self._options.pattern is not None:
            for topic in sorted({queue.topic for queue in queues} - {queue.topic for queue in self._queues}):
                log.info("topic_matches", topic=topic, pattern=self._options.pattern.text)
        self._queues = queues
