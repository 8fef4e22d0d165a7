"""Empty a broker, so that it is like a new one. Specific to staticfire.

Behaviour
- All messages are removed, also delayed ones and those of system topics. Topics, groups, request modes and settings are
  those of a first start, and no group has an offset. Queues begin at offset 0 again.
- Held pulls are tried once more, so that pulls of a removed topic are answered that the topic doesn't exist.
- Clients stay connected and registered: the next send creates its topic again.
- The response is sent when all of it is on the disk.

Not done
- The records are still in the log; retention removes them with their segments.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from staticfire.broker.handlers.pull import PullHandlers
from staticfire.broker.pop.door import PopDoor
from staticfire.broker.sends.targets import TargetTable
from staticfire.broker.state import BrokerState
from staticfire.broker.store.outcomes import NotForGood
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.names import is_system_group
from staticfire.protocol.requests.reset import Forgotten, ResetAnswer
from staticfire.runtime.dispatcher import Call, Dispatcher


class ResetHandlers:
    """Handles requests to empty the broker."""

    def __init__(
        self,
        state: BrokerState,
        targets: TargetTable,
        pulls: PullHandlers,
        pops: PopDoor,
        forget_with: Mapping[str, Callable[[], None]],
        more: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        """`forget_with`: called when the messages of a topic are removed. `more`: called to empty everything else."""
        self._state = state
        self._targets = targets
        self._pulls = pulls
        self._pops = pops
        self._forget_with = forget_with
        self._more = more

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.RESET, self.reset)

    async def reset(self, call: Call) -> Answer:
        """Remove everything in one step, so that no other request sees a half-empty broker."""
        state = self._state
        forgotten = Forgotten(sorted(state.topics.user_topics()), self._user_groups())
        self._forget_messages(sorted(state.topics.topics))
        state.offsets.forget_all()
        state.surprises.forget()
        state.progress.forget_all()
        state.queue_locks.forget_all()
        state.consumers.forget_away()
        for topic in forgotten.topics:
            state.topics.delete(topic)
        for group in forgotten.groups:
            state.groups.delete(group)
        self._targets.forget()
        for pull in state.held.take_all():
            self._pulls.look_last(pull)
        state.config_files.changed("consumerOffset.json")
        for forget in self._more:
            await forget()
        await state.config_files.saved()
        return ResetAnswer(body=forgotten)

    def _forget_messages(self, topics: list[str]) -> None:
        """Remove the queues of all topics, and the data that refers to them, in one step.

        If the end of a transaction remained without its half message, a new half message would count as ended. And a
        removal per topic would replace a file each time. Raises: StorageError (nothing was removed, or the removal
        isn't durable).
        """
        trouble = None
        try:
            self._state.store.delete_queues(*topics)
        except NotForGood as error:
            trouble = error
        for topic in topics:
            self._state.offsets.forget_topic(topic)
            self._pops.forget_topic(topic)
        for topic, forget in self._forget_with.items():
            if topic in topics:
                forget()
        if trouble is not None:
            raise trouble

    def _user_groups(self) -> list[str]:
        return sorted(name for name in self._state.groups.groups if not is_system_group(name))
