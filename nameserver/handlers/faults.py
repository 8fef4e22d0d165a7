"""Faults that users inject into this nameserver. This is staticfire's own; docs/faults.md.

Behaviour: rules are added, shown and removed (`faults/administration.py`, imported with the first rule). A client sends
no client id to a nameserver, so rules match it by address here. Brokers state their names.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.faults import FaultRemovedAnswer, FaultRule, FaultsAnswer, FaultsThere
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher, Handler

if TYPE_CHECKING:
    from staticfire.faults.administration import FaultAdministration


class NameserverFaultHandlers:
    """The handlers of requests about fault rules."""

    def __init__(
        self, state: NameserverState, dispatcher: Dispatcher, connections: Callable[[], Iterable[Connection]]
    ) -> None:
        """`dispatcher`: the requests that rules apply to. `connections`: returns the open connections."""
        self._state = state
        self._dispatcher = dispatcher
        self._connections = connections
        self._opened: FaultAdministration | None = None

    def by_code(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.ADD_FAULT: self.add,
            RequestCode.GET_FAULTS: self.get,
            RequestCode.REMOVE_FAULT: self.remove,
        }

    def add(self, call: Call) -> Answer:
        """Add a fault rule."""
        return self._administration.add(call)

    def get(self, call: Call) -> Answer:
        """Return the rules and the brokers' addresses; assign a number for a new rule."""
        if self._opened is None and call.request.number_from <= 0:
            return FaultsAnswer(body=FaultsThere(brokers=self._brokers(call.connection)))
        return self._administration.get(call)

    def remove(self, call: Call) -> Answer:
        """Remove a fault rule."""
        return FaultRemovedAnswer() if self._opened is None else self._opened.remove(call)

    @property
    def _administration(self) -> "FaultAdministration":
        """The object that keeps the rules. It is created with the first one."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> "FaultAdministration":
        # Imported here because most nameservers never have a rule.
        from staticfire.faults.actions import NAMESERVER
        from staticfire.faults.administration import FaultAdministration
        from staticfire.faults.site import FaultSite

        state = self._state
        return FaultAdministration(
            FaultSite(
                name=NAMESERVER,
                clock=state.machine.clock,
                message_ms=state.clock.message_ms,
                dispatcher=self._dispatcher,
                connections=self._connections,
                waiting=lambda: (),
                switches={},
                unseen=self._unseen,
                note_hit=lambda rule, direction, subject: None,  # A nameserver has no journal.
                brokers=self._brokers,
            )
        )

    def _unseen(self, rule: FaultRule) -> list[str]:
        is_new_topic = bool(rule.topic) and rule.topic not in self._state.routes.topics
        return [
            name
            for name, is_unseen in (
                ("topic", is_new_topic), ("queue", bool(rule.topic) and rule.queue_id >= 0),
                ("group", bool(rule.group)), ("client", bool(rule.client)),
            )
            if is_unseen
        ]  # fmt: skip

    def _brokers(self, connection: Connection) -> dict[str, str]:
        """Return the addresses of masters and slaves (broker-a-1), as the client on this connection reaches them."""
        advertise = self._state.advertiser(connection)
        return {
            f"{name}-{broker_id}" if broker_id != MASTER_ID else name: advertise(address)
            for name, broker in self._state.routes.brokers.items()
            for broker_id, address in sorted(broker.broker_addrs.items())
        }
