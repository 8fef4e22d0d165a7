"""Report topics, groups and waiting messages of the whole broker in one response each. Specific to staticfire.

Behaviour
- GET_TOTALS: unknown names are left out. The lag of a group is that of its metrics, over all of its topics.
- GET_CONSUMPTION: all groups of a topic, for one message.
- GET_WAITING: the messages that are due next, of all topics; at most READ_MAX of a kind are searched for them.
"""

from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from staticfire.broker.delay.stored_form import real_place
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.broker.waiting import WaitingMessages
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import ProtocolError, StorageError
from staticfire.protocol.names import group_of_topic
from staticfire.protocol.properties import KEYS, PGROUP, TAGS, TRANSACTION_CHECK_TIMES, UNIQ_KEY, text_property
from staticfire.protocol.record import decode_record
from staticfire.protocol.requests.totals import (
    BrokerWaiting,
    ConsumptionAnswer,
    GetConsumption,
    GetWaiting,
    GroupPlace,
    PoppedPlace,
    Totals,
    TotalsAnswer,
    WaitingAnswer,
    WaitingMessage,
    WantedTotals,
)
from staticfire.runtime.dispatcher import Call, Dispatcher

if TYPE_CHECKING:
    from staticfire.broker.totals import BrokerTotals

# How many places of a kind are searched for those that are due next: some ten milliseconds.
READ_MAX = 20_000
MESSAGES_MAX = 1_000
POPPED = "popped"


class TotalsHandlers:
    """Handles requests for what the broker holds."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        pops: LazyPopService,
        waiting: WaitingMessages,
    ) -> None:
        self._store = state.store
        self._groups = groups
        self._pops = pops
        self._waiting = waiting
        self._parts = state, topics, groups, pops
        self._totals: BrokerTotals | None = None

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.GET_TOTALS, self.totals)
        dispatcher.handle(RequestCode.GET_WAITING, self.waiting)
        dispatcher.handle(RequestCode.GET_CONSUMPTION, self.consumption)

    def totals(self, call: Call) -> Answer:
        """Return topics and groups."""
        wanted: WantedTotals = call.request.body or WantedTotals()
        if self._totals is None:
            # Imported here, because few brokers are looked at.
            from staticfire.broker.totals import BrokerTotals

            self._totals = BrokerTotals(*self._parts)
        topics = self._totals.of_topics(wanted.topics)
        groups = {} if wanted.groups == [] else self._totals.of_groups(wanted.groups)
        return TotalsAnswer(body=Totals(topics, groups))

    def consumption(self, call: Call) -> Answer:
        """Return where the groups of a topic are, compared with a message."""
        request: GetConsumption = call.request
        online = self._groups.consumers.consumer_table
        names = {
            *self._groups.offsets.groups_of(request.topic),
            *(group.name for group in online.values() if request.topic in group.subscriptions),
        }
        return ConsumptionAnswer(body=[self._place_of(name, request) for name in sorted(names)])

    def _place_of(self, group: str, request: GetConsumption) -> GroupPlace:
        topic, queue_id, offset = request.topic, request.queue_id, request.queue_offset
        online = self._groups.consumers.consumer_table.get(group)
        is_popped = bool(self._pops.in_flight(group, topic, queue_id)[0]) and any(
            first <= offset <= last
            for one in self._pops.taken_by(group)
            if (one.topic, one.queue_id) == (topic, queue_id)
            for first, last in one.offsets
        )
        subscription = None if online is None else online.subscriptions.get(topic)
        return GroupPlace(group, self._groups.offsets.committed(group, topic, queue_id), is_popped, subscription)

    def waiting(self, call: Call) -> Answer:
        """Return what waits."""
        request: GetWaiting = call.request
        kinds = request.kinds.split(",")
        limit = min(max(request.messages_max, 1), MESSAGES_MAX)
        found = BrokerWaiting(popped=self._popped() if POPPED in kinds else [])
        for kind, places in self._waiting.places().items():
            if kind not in kinds:
                continue
            some = list(islice(places, READ_MAX + 1))
            found.is_all = found.is_all and len(some) <= READ_MAX
            found.counts[kind] = len(some)
            found.messages += filter(None, (self._message(kind, *place) for place in nsmallest(limit, some)))
        found.messages = nsmallest(limit, found.messages, key=lambda one: (one.due_ms, one.log_position))
        return WaitingAnswer(body=found)

    def _popped(self) -> list[PoppedPlace]:
        names = dict.fromkeys([*self._groups.configs.groups, *self._groups.consumers.consumer_table])
        return [
            PoppedPlace(**msgspec.structs.asdict(one), group=group)
            for group in names
            for one in self._pops.taken_by(group)
        ]

    def _message(self, kind: str, due_ms: int, log_position: int) -> WaitingMessage | None:
        """Return a waiting message; None if it can't be read."""
        try:
            data = self._store.record_at(log_position)
            record = None if data is None else decode_record(data)
            place = None if record is None else real_place(record.properties)
        except (OSError, ProtocolError, StorageError):
            return None
        if record is None or place is None:
            return None
        words = [text_property(record.properties, name) or "" for name in (UNIQ_KEY, TAGS, KEYS, PGROUP)]
        message_id, tags, keys, producers = words
        checks = text_property(record.properties, TRANSACTION_CHECK_TIMES) or ""
        return WaitingMessage(
            kind, place[0], message_id, due_ms, record.stored_ms, log_position, tags, keys.split(),
            producers if kind == "transaction" else group_of_topic(place[0]) or "",
            int(checks) if checks.isdecimal() else 0,
        )  # fmt: skip
