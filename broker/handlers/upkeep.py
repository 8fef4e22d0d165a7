"""Clean up, and report the broker's own data. RocketMQ: AdminBrokerProcessor.

Behaviour
- The files that replicas copy are generated from memory, with the content that will be saved.
- Cleaning is complete before its response is sent. It follows the rules of retention: what isn't old is kept.
"""

from collections.abc import Awaitable, Callable

import msgspec

from staticfire.broker.delay.service import DelayService
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.replication.lineage import is_slave
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.names import SYSTEM_TOPICS
from staticfire.protocol.requests.routes import TopicList, TopicListAnswer
from staticfire.protocol.requests.upkeep import (
    AllOffsetsAnswer,
    ConsumerOffsetFile,
    DelayOffsetFile,
    DelayOffsetsAnswer,
    HighAvailability,
    HighAvailabilityAnswer,
)
from staticfire.runtime.dispatcher import Call, Dispatcher


class UpkeepHandlers:
    """Handles requests to clean up, and requests for the files that replicas copy."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        offsets: OffsetTable,
        delays: DelayService,
        remove_old: Callable[[], Awaitable[None]],
    ) -> None:
        """`remove_old`: removes at once what retention allows to remove."""
        self._state = state
        self._topics = topics
        self._offsets = offsets
        self._delays = delays
        self._remove_old = remove_old

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, self.system_topics)
        dispatcher.handle(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, self.clean_queues)
        dispatcher.handle(RequestCode.CLEAN_UNUSED_TOPIC, self.clean_topics)
        dispatcher.handle(RequestCode.DELETE_EXPIRED_COMMITLOG, self.delete_expired)
        dispatcher.handle(RequestCode.GET_ALL_CONSUMER_OFFSET, self.all_offsets)
        dispatcher.handle(RequestCode.GET_ALL_DELAY_OFFSET, self.delay_offsets)
        dispatcher.handle(RequestCode.GET_BROKER_HA_STATUS, self.high_availability)

    def system_topics(self, call: Call) -> Answer:
        """Return the broker's system topics."""
        names = sorted(SYSTEM_TOPICS | self._topics.system)
        return TopicListAnswer(body=TopicList(names, None))

    def clean_queues(self, call: Call) -> Answer:
        """Do nothing: the old files of queues are removed together with those of the log."""
        return Answer()

    def clean_topics(self, call: Call) -> Answer:
        """Remove the queues of topics that don't exist any more; do nothing at a slave.

        A slave has messages of topics that are younger than its last copy of the topics. mqadmin sends this to all.
        Other folders among those of the topics have no queues.
        """
        if is_slave(self._state.settings):
            return Answer()
        store = self._state.store
        unused = [topic for topic in store.topics() if self._topics.get(topic) is None and store.queue_ids(topic)]
        if unused:
            store.delete_queues(*unused)
        return Answer()

    async def delete_expired(self, call: Call) -> Answer:
        """Remove at once what retention allows to remove."""
        await self._remove_old()
        return Answer()

    def all_offsets(self, call: Call) -> Answer:
        """Return the offsets of all groups."""
        offsets = self._offsets
        was_dirty = offsets.dirty
        snapshot = offsets.snapshot(self._state.store.max_position)
        offsets.dirty = was_dirty  # `snapshot` clears this flag, but nothing is saved here.
        return AllOffsetsAnswer(body=msgspec.json.decode(snapshot, type=ConsumerOffsetFile))

    def delay_offsets(self, call: Call) -> Answer:
        """Return how far each delay level has been delivered."""
        snapshot = self._delays.queue.snapshot(self._state.store.max_position)
        return DelayOffsetsAnswer(body=msgspec.json.decode(snapshot, type=DelayOffsetFile))

    def high_availability(self, call: Call) -> Answer:
        """Return the state of replication of a broker that never had a slave. Others: replication/member.py."""
        is_master = self._state.settings.broker_id == 0
        return HighAvailabilityAnswer(body=HighAvailability(is_master, self._state.store.max_position))
