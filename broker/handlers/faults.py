"""Inject faults into this broker, by rules. Specific to staticfire, see docs/faults.md.

Behaviour
- Rules are added, listed and removed by `faults/administration.py`, which is imported when the first rule is added.
- Read-only: the broker's routes lose the write permission, and the broker refuses sends that still arrive.
- Disk full: the store refuses messages, as it does above diskSpaceWarningLevelRatio.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pulls.held_pulls import HeldPulls
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import StorageError
from staticfire.protocol.names import is_client
from staticfire.protocol.requests.faults import FaultRemovedAnswer, FaultRule, FaultsAnswer, FaultsThere
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher

if TYPE_CHECKING:
    from staticfire.broker.journal.events import EventJournal
    from staticfire.faults.administration import FaultAdministration
    from staticfire.faults.matching import Subject

CAUSE = "fault rule"


class FaultHandlers:
    """Handles requests about fault rules."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        held: HeldPulls,
        dispatcher: Dispatcher,
        connections: Callable[[], Iterable[Connection]],
        events: "EventJournal | None" = None,
    ) -> None:
        """`dispatcher`: the dispatcher that the rules apply to. `connections`: returns the open connections.

        `events`: None if the broker notes none.
        """
        self._state = state
        self._topics = topics
        self._groups = groups
        self._held = held
        self._dispatcher = dispatcher
        self._connections = connections
        self._events = events
        self._opened: FaultAdministration | None = None

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.ADD_FAULT, self.add)
        dispatcher.handle(RequestCode.GET_FAULTS, self.get)
        dispatcher.handle(RequestCode.REMOVE_FAULT, self.remove)

    def add(self, call: Call) -> Answer:
        """Add a rule."""
        return self._administration.add(call)

    def get(self, call: Call) -> Answer:
        """Return the rules."""
        return FaultsAnswer(body=FaultsThere()) if self._opened is None else self._opened.get(call)

    def remove(self, call: Call) -> Answer:
        """Remove a rule."""
        return FaultRemovedAnswer() if self._opened is None else self._opened.remove(call)

    def release(self) -> None:
        """Handle the requests now that rules delay."""
        if self._opened is not None:
            self._opened.release()

    @property
    def _administration(self) -> "FaultAdministration":
        """The object that keeps the rules. It is made for the first rule."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> "FaultAdministration":
        from staticfire.faults import actions  # imported here: most brokers never have a rule
        from staticfire.faults.administration import FaultAdministration
        from staticfire.faults.site import FaultSite

        state = self._state
        return FaultAdministration(
            FaultSite(
                name=state.settings.broker_name,
                clock=state.machine.clock,
                message_ms=state.clock.message_ms,
                dispatcher=self._dispatcher,
                connections=self._connections,
                waiting=lambda: (pull.call for pull in self._held),
                switches={actions.READ_ONLY: self._read_only, actions.DISK_FULL: self._disk_full},
                unseen=self._unseen,
                note_hit=self._note_hit,
                brokers=lambda _: {},
            )
        )

    def _note_hit(self, rule: FaultRule, direction: str, subject: "Subject") -> None:
        if self._events is not None:
            self._events.rule_hit(rule, direction, subject)

    def _read_only(self, is_on: bool) -> None:
        self._state.be_read_only(is_on)
        self._topics.touch()

    def _disk_full(self, is_on: bool) -> None:
        reason = StorageError("a fault rule makes the disk full; see `staticfire fault list`") if is_on else None
        self._state.store.refuse(reason, cause=CAUSE)

    def _unseen(self, rule: FaultRule) -> list[str]:
        unseen = []
        topic = self._topics.topics.get(rule.topic)
        if rule.topic and topic is None:
            unseen.append("topic")
        if rule.topic and (topic is None or rule.queue_id >= max(topic.read_queue_nums, topic.write_queue_nums)):
            unseen.append("queue")
        if rule.group and not self._groups.knows(rule.group):
            unseen.append("group")
        if (rule.client or rule.parties) and not self._knows_any([rule.client, *rule.parties]):
            unseen.append("client")
        return unseen

    def _knows_any(self, wanted: Sequence[str]) -> bool:
        """Return whether a client is connected. An address counts as connected: it may connect at any time."""
        ids = [connection.client_id for connection in self._connections() if connection.client_id]
        return any(":" in one or one.replace(".", "").isdecimal() for one in wanted) or any(
            is_client(client, one) for client in ids for one in wanted if one
        )
