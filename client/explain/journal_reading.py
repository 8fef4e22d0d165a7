"""Reads from brokers' journals what has happened to a group: who left, what was delivered, where the group began."""

from collections.abc import Mapping

from staticfire.client.admin.admin import Admin
from staticfire.client.admin.journal import read_journals
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.explain.facts import ALL_MESSAGES, GroupFacts
from staticfire.client.explain.of_places import is_local, local_brokers
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import BrokerAnswer, NetworkError
from staticfire.protocol.requests.journal import (
    BEGAN,
    DELIVERED,
    JOINED,
    LEFT,
    TLS_REFUSED,
    GetJournal,
    JournalAnswer,
    JournalRecord,
)

# The maximum number of queues whose next message is looked for.
STUCK_MAX = 8


class JournalReader:
    """Adds to the facts about one group what the journals show, once."""

    def __init__(self, admin: Admin, brokers: Mapping[str, str], facts: GroupFacts) -> None:
        self._admin = admin
        self._client = admin.client
        self._brokers = brokers
        self._facts = facts

    async def read(self) -> None:
        """Add what journals show, unless a broker keeps none. Raises: NetworkError."""
        facts = self._facts
        try:
            facts.left = await self._events(GetJournal(kinds=LEFT, group=facts.group))
            if not facts.members:
                await self._refused()
            if local_brokers(facts) and not facts.members:
                joined = await self._events(GetJournal(kinds=JOINED))
                addresses = {str(one.details.get("address", "")): one.client for one in joined}
                facts.elsewhere = sorted({client for address, client in addresses.items() if not is_local(address)})
            for queue in [one for one in facts.queues() if one.backlog and one.cached][:STUCK_MAX]:
                place = queue.queue
                wanted = GetJournal(
                    kinds=DELIVERED, group=facts.group, topic=place.topic, queue_id=place.queue_id,
                    queue_offset=max(0, queue.consumed),
                )  # fmt: skip
                delivered = [one for one in await self._events(wanted) if one.broker == place.broker_name]
                if facts.is_broadcast:
                    delivered = [one for one in delivered if one.client == queue.owners[0]]
                queue.delivered = delivered[-1] if delivered else None
            if not any(queue.backlog for queue in facts.queues()):
                await self._beginnings()
        except BrokerAnswer:
            return  # A RocketMQ, or a broker without a journal.

    async def _refused(self) -> None:
        """Read which connections nameservers and brokers have refused: their clients can't become members."""
        facts, wanted = self._facts, GetJournal(kinds=TLS_REFUSED)
        facts.refused_connections = await self._events(wanted)
        for address in self._client.nameservers.addresses:
            try:
                answer = await self._client.pool.ask(address, wanted, self._admin.timeout_ms)
            except NetworkError:
                continue
            if answer.code == SUCCESS and isinstance(answer, JournalAnswer) and answer.body is not None:
                facts.refused_connections += answer.body.records
        facts.refused_connections.sort(key=lambda one: one.real_ms)

    async def _events(self, wanted: GetJournal) -> list[JournalRecord]:
        return await read_journals(self._client, self._brokers, wanted, self._admin.timeout_ms)

    async def _beginnings(self) -> None:
        """Find the messages that were there when the group began at the end of queues, if it got none since.

        Only the event of the beginning proves it: the journal may be younger than the group.
        """
        wanted = GetJournal(kinds=BEGAN, group=self._facts.group)
        began = {MessageQueue(one.topic, one.broker, one.queue_id): one for one in await self._events(wanted)}
        places = [(queue, began[queue.queue]) for queue in self._facts.queues() if queue.queue in began]
        for name, address in self._brokers.items():
            here = [(queue, record) for queue, record in places if queue.queue.broker_name == name]
            if here and await self._was_delivered(address, min(record.number for _, record in here)):
                return
        for queue, record in places:
            if record.queue_offset < 0 and queue.end > queue.first:
                # A message of the same millisecond may have come later, and have been filtered out.
                is_filtered = bool(set(self._facts.subscribed().get(queue.queue.topic, ())) - ALL_MESSAGES)
                stored_ms = record.message_ms if is_filtered else record.message_ms + 1
                queue.began = await self._admin.offsets.search_offset(queue.queue, stored_ms)

    async def _was_delivered(self, address: str, first_number: int) -> bool:
        """Whether a broker has delivered messages to the group since an event; one page of its journal is enough."""
        wanted = GetJournal(kinds=DELIVERED, group=self._facts.group, first_number=first_number, records_max=1)
        answer = await self._client.pool.ask(address, wanted, self._admin.timeout_ms)
        return answer.code == SUCCESS and answer.body is not None and bool(answer.body.records or answer.body.dropped)
