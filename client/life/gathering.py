"""Queries all facts about a message. It works with RocketMQ's brokers, too, which keep no journal.

A message is followed by its unique id, which delayed forms, its half message, retries and its dead letter share. A
message without one, which only some other clients send, has only its own record.
"""

from staticfire.client.admin.admin import FOREVER, Admin
from staticfire.client.admin.clock import ClusterClock
from staticfire.client.admin.journal import read_journals
from staticfire.client.admin.look_ups import FoundMessages, LookUp, find_by_key
from staticfire.client.cluster.pull_answers import packed_address, read_pull
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.life.facts import MessageFacts, MessageLife, StoredCopy
from staticfire.client.life.places import INNER_TOPICS, WAITING_TOPICS, is_final, is_recall
from staticfire.client.life.timeline import life_of
from staticfire.client.life.trace_reading import read_traces
from staticfire.protocol.clock_face import ClockFace
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.delay_levels import requested_time_ms
from staticfire.protocol.errors import BrokerAnswer, NetworkError, TopicNotFound
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TOOLS_GROUP, TRACE_TOPIC
from staticfire.protocol.properties import TIMER_OUT_MS, UNIQ_KEY
from staticfire.protocol.requests.clock import FROZEN
from staticfire.protocol.requests.journal import CLOCK_SET, DELIVERED, SENT_BACK, GetJournal, JournalRecord
from staticfire.protocol.requests.offsets import OffsetAnswer, SearchOffset
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.protocol.requests.queries import QueryConsumeQueue
from staticfire.protocol.trace import Trace

COPIES_MAX = 64
# The maximum number of records of ended transactions that are read for one half message, from its store time on.
ENDS_MAX = 20_000
ENDS_AT_ONCE = 512


async def message_lives(admin: Admin, text: str, trace_topic: str = TRACE_TOPIC) -> dict[str, MessageLife]:
    """Return the lives of the messages with an id or a key, by message id; empty if there is none.

    Raises: NetworkError, BrokerAnswer (refused).
    """
    return await LifeReader(admin, trace_topic).lives(text)


class LifeReader:
    """Collects the lives of messages. All methods raise NetworkError, and BrokerAnswer (refused)."""

    def __init__(self, admin: Admin, trace_topic: str = TRACE_TOPIC) -> None:
        self._admin = admin
        self._pool = admin.client.pool
        self._trace_topic = trace_topic

    async def lives(self, text: str, messages_max: int = 20) -> dict[str, MessageLife]:
        """Return the lives of the newest messages with an id or a key, by message id, oldest message first.

        Empty if neither a broker nor a trace has any.
        """
        found = await self._admin.find(text, messages_max=COPIES_MAX)
        found += await self._among_inner(text, await self._admin.readers())
        found.sort(key=lambda message: message.stored_ms)
        # A trace has the keys of its message, too.
        ids = list(dict.fromkeys(one.message_id for one in found if one.topic != self._trace_topic)) or [text]
        lives = {message_id: await self.life(message_id) for message_id in ids[-messages_max:]}
        if len(ids) > messages_max:
            for life in lives.values():
                life.notes.append(
                    f"{len(ids)} or more messages have the key {text}: only the newest {messages_max} are shown"
                )
        return {message_id: life for message_id, life in lives.items() if life.events}

    async def life(self, message_id: str) -> MessageLife:
        """Return the life of the message with a unique id, or of the record with an offset message id."""
        facts = await self.facts(message_id)
        return MessageLife(life_of(facts), facts.notes)

    async def facts(self, message_id: str) -> MessageFacts:
        """Return all facts about the message with a unique id, or about the record with an offset message id."""
        brokers = await self._admin.readers()
        found = await self._admin.find(message_id, messages_max=COPIES_MAX)
        gaps = list(found.gaps)
        if not found or found[0].get(UNIQ_KEY):
            inner = await self._among_inner(message_id, brokers)
            gaps += inner.gaps
            found += inner
        wanted = [one for one in found if message_id in (one.message_id, one.offset_message_id)]
        faces, unheard = await self._clock(brokers)
        copies = [await self._copy(one, brokers, unheard) for one in wanted]
        now_ms = faces[-1].at(self._wall_ms()) if faces else self._wall_ms()
        ends = await self._half_ends(copies, brokers)
        return MessageFacts(message_id, copies, ends, await self._traces(message_id), faces, now_ms, gaps, unheard)

    def _wall_ms(self) -> int:
        return self._admin.client.machine.clock.wall_ms()

    async def _among_inner(self, text: str, brokers: dict[str, str]) -> FoundMessages:
        places = [(topic, name, address) for topic in INNER_TOPICS for name, address in brokers.items()]
        wanted = LookUp(text, 0, FOREVER, COPIES_MAX)
        return await find_by_key(self._admin.client, places, wanted, self._admin.look_up_timeout_ms)

    async def _copy(self, message: ReceivedMessage, brokers: dict[str, str], unheard: list[str]) -> StoredCopy:
        topic, name = message.record.topic, message.broker_name
        if topic in INNER_TOPICS:
            return StoredCopy(message, await self._due_ms(message, brokers[name]))
        noted = [] if name in unheard else await self._noted(message, brokers[name])
        return StoredCopy(message, None, await self._admin.consumption(message), noted)

    # -- queries ------------------------------------------------------------------------------------------------

    async def _due_ms(self, message: ReceivedMessage, address: str) -> int | None:
        """Return until when a message waits. For a delay level, the entry in its queue contains that."""
        topic = message.record.topic
        if topic not in WAITING_TOPICS or is_recall(StoredCopy(message)):
            return None
        if topic != SCHEDULE_TOPIC:
            wanted_ms = requested_time_ms(message.record.properties, message.stored_ms)
            out_ms = message.get(TIMER_OUT_MS) or ""
            return wanted_ms if wanted_ms is not None else int(out_ms) if out_ms.isdecimal() else None
        request = QueryConsumeQueue(topic, message.queue_id, message.queue_offset, 1)
        answer = await self._pool.ask(address, request, self._admin.timeout_ms)
        entries = answer.body.queue_data if answer.code == SUCCESS and answer.body is not None else []
        return entries[0].tags_code if entries and entries[0].physic_offset == message.log_position else None

    async def _noted(self, message: ReceivedMessage, address: str) -> list[JournalRecord]:
        wanted = GetJournal(
            kinds=f"{DELIVERED},{SENT_BACK}",
            topic=message.record.topic,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
        )
        records = await read_journals(
            self._admin.client, {message.broker_name: address}, wanted, self._admin.timeout_ms
        )
        # A program that only looked at the message, such as `staticfire peek`, has nothing to do with its life.
        return [record for record in records if record.group != TOOLS_GROUP]

    async def _clock(self, brokers: dict[str, str]) -> tuple[list[ClockFace], list[str]]:
        """Return the settings of message time with their start, and the brokers without a journal."""
        unheard: list[str] = []
        sets: list[JournalRecord] = []
        for name, address in brokers.items():
            try:
                sets = await read_journals(
                    self._admin.client, {name: address}, GetJournal(kinds=CLOCK_SET), self._admin.timeout_ms
                )
            except (BrokerAnswer, NetworkError):
                unheard.append(name)  # If the broker is unreachable, the look-ups report it, too.
        if sets or len(unheard) < len(brokers):
            return [_face(record) for record in sets], unheard
        return await self._clock_now(), unheard

    async def _clock_now(self) -> list[ClockFace]:
        """Return the current clock as if it had never been moved; nothing if there is no such clock."""
        try:
            now = await ClusterClock(self._admin.client).now()
        except BrokerAnswer:
            return []
        rate = 0.0 if now.mode == FROZEN else now.rate
        return [ClockFace(1, now.mode, rate, now.message_ms - int(now.wall_ms * rate), 0)]

    async def _traces(self, message_id: str) -> list[Trace]:
        try:
            return await read_traces(self._admin, message_id, self._trace_topic)
        except TopicNotFound:
            return []

    # -- transactions --------------------------------------------------------------------------------------------

    async def _half_ends(self, copies: list[StoredCopy], brokers: dict[str, str]) -> dict[tuple[str, int], int]:
        """Return when half messages without a final form were ended."""
        found: dict[tuple[str, int], int] = {}
        committed = {(one.message.broker_name, one.message.prepared_position) for one in copies if is_final(one)}
        for copy in copies:
            message = copy.message
            if copy.topic != HALF_TOPIC or (message.broker_name, message.log_position) in committed:
                continue
            ended_ms = await self._ended_ms(message, brokers[message.broker_name])
            if ended_ms is not None:
                found[message.broker_name, message.queue_offset] = ended_ms
        return found

    async def _ended_ms(self, half: ReceivedMessage, address: str) -> int | None:
        """Return when a half message was ended: the records of ends contain their halves' offsets."""
        search = SearchOffset(topic=OP_HALF_TOPIC, queue_id=0, timestamp=half.stored_ms)
        answer = await self._pool.ask(address, search, self._admin.timeout_ms)
        offset = answer.offset if answer.code == SUCCESS and isinstance(answer, OffsetAnswer) else 0
        queue, wanted = MessageQueue(OP_HALF_TOPIC, half.broker_name, 0), str(half.queue_offset)
        last = offset + ENDS_MAX
        while offset < last:
            request = PullMessage(
                consumer_group=TOOLS_GROUP, topic=queue.topic, queue_id=0, queue_offset=offset,
                max_msg_nums=ENDS_AT_ONCE, sys_flag=FLAG_SUBSCRIPTION, suspend_timeout_millis=0, subscription="*",
                expression_type="TAG",
            )  # fmt: skip
            result = read_pull(
                await self._pool.ask(address, request, self._admin.timeout_ms), queue, None, packed_address(address)
            )
            for one in result.messages:
                if wanted in one.body.decode("latin-1").split(","):
                    return one.stored_ms
            if result.next_offset <= offset or not result.messages:
                return None
            offset = result.next_offset
        return None


def _face(record: JournalRecord) -> ClockFace:
    mode = str(record.details.get("mode", ""))
    rate = 0.0 if mode == FROZEN else float(record.details.get("rate", 1.0))
    return ClockFace(1, mode, rate, record.message_ms, record.real_ms)
