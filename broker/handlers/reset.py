"""Empty a broker, so that it is like a new one. Specific to staticfire.

A reset of a group's offsets is another request: reset_offset.py.

Behaviour
- All messages are removed, also delayed ones and those of system topics. Topics, groups, request modes and settings are
  those of a first start, and no group has an offset. Queues begin at offset 0 again.
- Requests that fault rules still delay are handled first, so that what they store and create is removed, too.
- Held pulls are tried once more, so that pulls of a removed topic are answered that the topic doesn't exist.
- A slave restores only its settings: it copies all else from its master.
- Clients stay connected and registered: the next send creates its topic again.
- The response is sent when all of it is on the disk.

Not done
- The records are still in the log; retention removes them with their segments.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from staticfire.broker.config_files import OFFSETS_FILE, ConfigFiles
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.store.outcomes import NotForGood
from staticfire.broker.store.store import MessageStore
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.names import is_system_group
from staticfire.protocol.requests.reset import Forgotten, Reset, ResetAnswer
from staticfire.runtime.dispatcher import Call, Dispatcher


class Forget(NamedTuple):
    """What else a reset empties."""

    first: Callable[[], None]
    """Handles the requests that fault rules still delay, so that none of them stores or changes anything after it."""
    announced: Callable[[], None]
    """Stores what waits for the announcement of its topic, so that it doesn't create the topic again."""
    with_topic: Mapping[str, Callable[[], None]]
    """Called when the messages of a topic are removed."""
    at_once: Sequence[Callable[[], None]]
    """Called after topics and groups are removed, in the same step."""
    later: Callable[[], Awaitable[None]]
    """Called after that step."""
    settings: Callable[[], Awaitable[None]]
    """Restores the settings of the start."""


class ResetHandlers:
    """Handles requests to empty the broker."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTables,
        config_files: ConfigFiles,
        pops: LazyPopService,
        forget: Forget,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._config_files = config_files
        self._pops = pops
        self._forget = forget

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.RESET, self.reset)

    async def reset(self, call: Call) -> Answer:
        """Remove everything in one step, so that no other request sees a half-empty broker."""
        self._forget.first()
        # Requests that create topics and the like are handled in tasks, which apply the change in their first step.
        await asyncio.sleep(0)
        self._forget.announced()
        request: Reset = call.request
        if request.only_settings:
            await self._forget.settings()
            return ResetAnswer(body=Forgotten())
        forgotten = Forgotten(sorted(self._topics.user_topics()), self._user_groups())
        self._forget_messages(sorted({*self._topics.topics, *self._deleted_topics_with_messages()}))
        self._groups.offsets.forget_all()
        self._groups.progress.forget_all()
        self._groups.queue_locks.forget_all()
        self._groups.consumers.forget_away()
        for topic in forgotten.topics:
            self._topics.delete(topic)
        for group in forgotten.groups:
            self._groups.configs.delete(group)
        for forget in self._forget.at_once:
            forget()
        self._config_files.changed(OFFSETS_FILE)
        await self._forget.later()
        await self._forget.settings()
        await self._config_files.saved()
        return ResetAnswer(body=forgotten)

    def _deleted_topics_with_messages(self) -> list[str]:
        """Return the deleted topics in whose queues messages were stored later, which had waited. Raises: OSError."""
        names = [topic for topic in self._store.topics() if topic not in self._topics.topics]
        return [topic for topic in names if self._store.queue_ids(topic)]  # The others aren't topics.

    def _forget_messages(self, topics: list[str]) -> None:
        """Remove the queues of all topics, and the data that refers to them, in one step.

        If the end of a transaction remained without its half message, a new half message would count as ended. And a
        removal per topic would replace a file each time. Raises: StorageError (nothing was removed, or the removal
        isn't durable).
        """
        trouble = None
        try:
            self._store.delete_queues(*topics)
        except NotForGood as error:
            trouble = error
        for topic in topics:
            self._groups.offsets.forget_topic(topic)
            self._pops.forget_topic(topic)
        for topic, forget in self._forget.with_topic.items():
            if topic in topics:
                forget()
        if trouble is not None:
            raise trouble

    def _user_groups(self) -> list[str]:
        return sorted(name for name in self._groups.configs.groups if not is_system_group(name))
