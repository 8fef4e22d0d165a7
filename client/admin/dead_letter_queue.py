"""The dead letters of one group: list, export, resend. Works with RocketMQ's brokers as well as staticfire's.

    async with DeadLetterQueue("billing", namesrv="127.0.0.1:9876") as dlq:
        for letter in await dlq.letters():
            print(letter.id, letter.origin_topic, letter.message.body)
        await dlq.resend()

Dead letters are stored in `%DLQ%billing`, on each broker where a message has died. They are kept there: a resend
creates new messages (resending.py). After each one, the broker stores the progress, as the offset of TOOLS_CONSUMER in
that topic: all letters before it were sent. Before each one, its broker is queried by unique id whether the message has
arrived already. So an interrupted resend continues where it was, even if its broker was killed and lost the last
offsets. One program at a time resends all (resend_claim.py).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from staticfire.client.admin.admin import ADMIN_TIMEOUT_MS, Admin
from staticfire.client.admin.dead_letters import DeadLetter, LetterPlace
from staticfire.client.admin.letter_pages import chosen_part, letter_range
from staticfire.client.admin.resend_claim import ResendClaim
from staticfire.client.admin.resend_run import ResendRun
from staticfire.client.admin.resend_targets import ResendTargets
from staticfire.client.admin.resending import ResendReport
from staticfire.client.cluster.blocking import BlockingFace, blocking, iterating
from staticfire.client.cluster.client_service import ClientService
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.pull_answers import PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import (
    ClientError,
    GroupNotFound,
    NetworkError,
    StaticfireError,
    TopicNotFound,
    UsageError,
    broker_answer,
)
from staticfire.protocol.names import TOOLS_GROUP, dead_letter_topic, group_fault
from staticfire.protocol.permissions import readable
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

log = logger("client")

# A RocketMQ's broker returns at most 32 of them.
PULL_MESSAGES = 512
# The time between two looks for new dead letters.
FOLLOW_MS = 200


class _Span(msgspec.Struct):
    """A queue of dead letters: its oldest offset, its end, and the offset up to which all letters were sent again."""

    queue: MessageQueue
    first: int
    end: int
    resent_to: int


class _Begin(NamedTuple):
    """The oldest offset of a queue, and when its message was stored; None: it has none."""

    first: int
    stored_ms: int | None

    def is_of_another_queue(self, before: "_Begin | None") -> bool:
        """Return whether the cluster was reset since an earlier look: then its offsets begin again."""
        if before is None or self.first != before.first:
            return before is not None and self.first < before.first
        return None not in (self.stored_ms, before.stored_ms) and self.stored_ms != before.stored_ms


class LettersPart(NamedTuple):
    """Some dead letters of a group, and the number of all."""

    letters: list[DeadLetter]
    total: int


class DeadLetterQueue(ClientService):
    """The messages that a group couldn't consume. Methods raise GroupNotFound, BrokerAnswer (refused), NetworkError."""

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        settings: ClientSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
        timeout_ms: int = ADMIN_TIMEOUT_MS,
    ) -> None:
        """`client`: a shared client, instead of `namesrv`. Raises: UsageError, ClientError."""
        super().__init__(namesrv, settings or ClientSettings(), machine, client)
        fault = group_fault(group)
        if fault is not None:
            raise ClientError(fault)
        self.group = group
        self.topic = dead_letter_topic(group)
        """The topic of the dead letters."""
        self._timeout_ms = timeout_ms
        self._admin = Admin(client=self.client, timeout_ms=timeout_ms)
        self._reader = PullConsumer(TOOLS_GROUP, client=self.client)

    def __enter__(self) -> "BlockingDeadLetterQueue":
        return BlockingDeadLetterQueue.enter(self)

    # -- looking -------------------------------------------------------------------------------------------------

    async def count(self) -> int:
        """Return the number of dead letters."""
        return sum(span.end - span.first for span in await self._spans())

    async def letters(self, limit: int = 1_000, newest: bool = False, skip: int = 0) -> list[DeadLetter]:
        """Return the oldest dead letters, or the newest, in the order in which they died.

        `skip`: leave out this many first.
        """
        return (await self.part(limit, newest, skip)).letters

    async def part(self, limit: int, newest: bool = False, skip: int = 0) -> LettersPart:
        """Return what `letters` returns, and the number of all dead letters."""
        spans = [span for span in await self._spans() if span.end > span.first]
        ends = [(span.first, span.end) for span in spans]
        total = sum(end - first for first, end in ends)
        begin, count = chosen_part(total, limit, skip, newest)
        if not count:
            return LettersPart([], total)

        async def offsets_at(time_ms: int) -> list[int]:
            return list(await asyncio.gather(*(self._reader.search_offset(span.queue, time_ms) for span in spans)))

        async def time_at(queue: int, offset: int) -> int | None:
            async for letter in self._read(spans[queue], offset, offset + 1):
                return letter.died_ms
            return None

        part = await letter_range(ends, begin, count, offsets_at, time_at)
        places = zip(spans, part.starts, part.stops, strict=True)
        read = await asyncio.gather(*(self._read_all(*place) for place in places))
        found = sorted(chain.from_iterable(read), key=lambda letter: (letter.died_ms, letter.place))
        return LettersPart(found[part.skip : part.skip + part.wanted], total)

    async def _read_all(self, span: _Span, start: int, stop: int) -> list[DeadLetter]:
        return [letter async for letter in self._read(span, start, stop)]

    async def read(self) -> AsyncIterator[DeadLetter]:
        """Yield all current dead letters, queue by queue, however many."""
        for span in await self._spans():
            async for letter in self._read(span, span.first, span.end):
                yield letter

    async def find(self, letter_id: str) -> DeadLetter:
        """Return a letter by its id: its place, or the id of its message. Raises: ClientError (not found)."""
        (letter,) = await self._find_all([letter_id])
        return letter

    async def follow(self, from_start: bool = False) -> AsyncIterator[DeadLetter]:
        """Yield each message that dies, for ever: those from now on, or all. It waits for unreachable brokers."""
        next_offsets: dict[MessageQueue, int] = {}
        begins: dict[MessageQueue, _Begin] = {}
        is_late = from_start
        while True:
            try:
                for span in await self._spans(must_be_known=False):
                    begin = _Begin(span.first, await self._reader.earliest_stored_ms(span.queue))
                    if begin.is_of_another_queue(begins.get(span.queue)):
                        next_offsets[span.queue] = span.first
                    begins[span.queue] = begin
                    start = next_offsets.get(span.queue, span.first if is_late else span.end)
                    start = start if span.first <= start <= span.end else span.first  # The topic was created again.
                    async for letter in self._read(span, start, span.end):
                        next_offsets[span.queue] = letter.place.queue_offset + 1
                        yield letter
                    next_offsets[span.queue] = span.end
                is_late = True
            except NetworkError as error:
                log.info("dead_letters_out_of_reach", group=self.group, reason=str(error))
            await self.pause_for(FOLLOW_MS)

    # -- sending again -------------------------------------------------------------------------------------------

    async def resend(
        self,
        ids: Sequence[str] = (),
        *,
        to: str | None = None,
        only_group: bool = False,
        again: bool = False,
        start: str | None = None,
    ) -> ResendReport:
        """Send one letter or several again; without ids all that weren't resent yet, or all with `again`.

        They go to the topic that they came from, where all its groups get them, or to the topic `to`. `only_group`: to
        this group's retry topic, so that only this group gets them. Messages that die meanwhile aren't included.
        `start`: with `again`, leave out the letters before this place, as `next_id` of an interrupted resend has it.

        Raises: ClientError (an unknown id, or not possible as requested), ResendRunning (another resend of all is
        running), ResendInterrupted (a broker refused, or can't be reached). A CancelledError has a note that says where
        to continue.
        """
        ids = [ids] if isinstance(ids, str) else ids
        if start is not None and (ids or not again):
            raise UsageError("resend: a start needs again, and no ids")
        targets = ResendTargets(self._admin, self.group, to, only_group)
        await targets.check()
        run = ResendRun(self.client, targets, self.group, self._timeout_ms)
        if ids:
            await run.send_each(await self._find_all(ids))
        else:
            queues = await self._queues()
            async with ResendClaim(self.client, self.group, queues, self._timeout_ms) as claim:
                # They are read after the claim: another resend may have ended in the meantime.
                spans = list(await asyncio.gather(*map(self._span, queues)))
                for span, begin in _begins(spans, again, start):
                    await self._resend_span(run, claim, span, begin, again)
        return await run.end()

    async def _resend_span(self, run: ResendRun, claim: ResendClaim, span: _Span, begin: int, again: bool) -> None:
        """Send the letters of a queue from an offset on. Raises: ResendInterrupted.

        The broker stores the progress up to the first letter that is left. Those after it are sent nevertheless: the
        next resend looks them up, and finds that they were sent.
        """
        place = LetterPlace(span.queue.broker_name, span.queue.queue_id, begin)
        is_gapless = begin <= span.resent_to
        try:
            async for letter in self._read(span, begin, span.end):
                place = letter.place
                await claim.keep()
                is_sent = await run.send(letter, once=not again)
                is_gapless = is_gapless and (is_sent or place.queue_offset < span.resent_to)
                place = place._replace(queue_offset=place.queue_offset + 1)
                if is_gapless and place.queue_offset > span.resent_to:
                    span.resent_to = place.queue_offset
                    await self._reader.commit(span.queue, span.resent_to)
        except StaticfireError as error:
            raise run.interrupted(str(place), error, run.way_out(place, again)) from error
        except asyncio.CancelledError as cancelled:
            sent = f"{self.group}: sent {run.report.count} dead letters, up to {place}."
            cancelled.add_note(f"{sent} {run.way_out(place, again)}")
            raise

    # -- reading -------------------------------------------------------------------------------------------------

    async def _find_all(self, ids: Sequence[str]) -> list[DeadLetter]:
        """Return the letters with these ids, each once, in the order of the ids. Raises: ClientError."""
        spans = await self._spans()
        found: dict[str, DeadLetter] = {}
        wanted = dict.fromkeys(ids)
        for letter_id in wanted:
            place = LetterPlace.parse(letter_id)
            if place is not None:
                found[letter_id] = await self._letter_at(place, spans)
        by_message = {letter_id for letter_id in wanted if letter_id not in found}
        if by_message:
            async for letter in self.read():
                for name in (letter.message.message_id, letter.message.offset_message_id):
                    if name in by_message:
                        found[name] = letter  # The newest, if it is stored twice.
        missing = [letter_id for letter_id in wanted if letter_id not in found]
        if missing:
            words = (
                f"{self.topic} has no dead letter {', '.join(missing)}: `staticfire dlq list {self.group}` shows the "
                "ids"
            )
            raise ClientError(words)
        return list({letter.place: letter for letter in (found[letter_id] for letter_id in wanted)}.values())

    async def _letter_at(self, place: LetterPlace, spans: Sequence[_Span]) -> DeadLetter:
        """Return the letter at a place. Raises: ClientError (there is none, or it was deleted)."""
        queue = MessageQueue(self.topic, place.broker_name, place.queue_id)
        span = next((one for one in spans if one.queue == queue), None)
        if span is None:
            raise ClientError(f"{place}: {self.topic} has no such queue; it has {_shown(spans)}")
        if place.queue_offset < span.first:
            raise ClientError(
                f"{place} of {self.topic} no longer exists: retention has removed everything before {span.first}"
            )
        if place.queue_offset >= span.end:
            raise ClientError(f"{place}: the queue ends before {span.end}")
        async for letter in self._read(span, place.queue_offset, place.queue_offset + 1):
            return letter
        raise ClientError(f"{place} of {self.topic} can't be read: its record is damaged or was removed")

    async def _read(self, span: _Span, start: int, end: int) -> AsyncIterator[DeadLetter]:
        """Yield the letters of a queue from offset `start` to before `end`."""
        offset = start
        while offset < end:
            result = await self._reader.pull(span.queue, offset, max_messages=min(PULL_MESSAGES, end - offset))
            for message in result.messages:
                if offset <= message.queue_offset < end:
                    yield DeadLetter(self.group, message, message.queue_offset < span.resent_to)
            is_over = result.next_offset <= offset
            offset = result.next_offset
            if is_over or (result.status is PullStatus.NO_NEW_MSG and offset >= result.max_offset):
                return

    async def _spans(self, must_be_known: bool = True) -> list[_Span]:
        """Return the queues with their offsets, sorted. Raises: as `_queues`."""
        return list(await asyncio.gather(*map(self._span, await self._queues(must_be_known))))

    async def _queues(self, must_be_known: bool = True) -> list[MessageQueue]:
        """Return the queues, sorted; none for a group without dead letters. Raises: GroupNotFound, NoPermission."""
        try:
            route = await self.client.routes.fetch(self.topic)
        except TopicNotFound:
            if must_be_known and not await self._admin.has_group(self.group):
                words = f"no broker knows group {self.group}; `staticfire dlq list` shows the groups with dead letters"
                raise GroupNotFound(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, words) from None
            return []
        for queues in route.queue_datas:
            if not readable(queues.perm):
                words = (
                    f"{self.topic} can't be read on {queues.broker_name}: its permission is {queues.perm} (dlqPerm); "
                    f"`staticfire change {self.topic} --perm 6` makes it readable"
                )
                raise broker_answer(ResponseCode.NO_PERMISSION, words)
        return await self._reader.queues(self.topic)

    async def _span(self, queue: MessageQueue) -> _Span:
        reader = self._reader
        pending = reader.min_offset(queue), reader.max_offset(queue), reader.committed(queue)
        first, end, committed = await asyncio.gather(*pending)
        resent_to = committed or 0
        if resent_to > end:
            resent_to = 0  # The topic was deleted and created again.
        return _Span(queue, first, end, max(resent_to, first))


def _begins(spans: Sequence[_Span], again: bool, start: str | None) -> list[tuple[_Span, int]]:
    """Return the queues to resend, and the offset to begin at in each. Raises: ClientError (no such queue)."""
    if start is None:
        return [(span, span.first if again else span.resent_to) for span in spans]
    place = LetterPlace.parse(start)
    queues = [(span.queue.broker_name, span.queue.queue_id) for span in spans]
    if place is None or place[:2] not in queues:
        raise ClientError(f"{start}: the dead letters have no such queue; they have {_shown(spans)}")
    first, *others = spans[queues.index(place[:2]) :]
    return [(first, max(first.first, place.queue_offset)), *((span, span.first) for span in others)]


def _shown(spans: Iterable[_Span]) -> str:
    return ", ".join(f"{span.queue.broker_name}/{span.queue.queue_id}" for span in spans) or "nothing"


class BlockingDeadLetterQueue(BlockingFace[DeadLetterQueue]):
    """The messages that a group could not consume. Any number of threads may use it."""

    count = blocking(DeadLetterQueue.count)
    letters = blocking(DeadLetterQueue.letters)
    part = blocking(DeadLetterQueue.part)
    read = iterating(DeadLetterQueue.read)
    find = blocking(DeadLetterQueue.find)
    follow = iterating(DeadLetterQueue.follow)
    resend = blocking(DeadLetterQueue.resend)
