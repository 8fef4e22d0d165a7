"""The tables that the parts of POP share, and the clients that have popped messages."""

from typing import TYPE_CHECKING

import msgspec

from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pop.events import NO_OFFSET, Done, GroupQueue, Ordered, OrderState, Taken, pack_bits
from staticfire.broker.pop.in_flight import DUE_MS_MAX, GIVEN_BACK, NO_CLIENT, CheckPoint, InFlight, PoppedQueue
from staticfire.broker.pop.orders import OrderStates
from staticfire.broker.pop.pop_log import PopLog
from staticfire.broker.state import BrokerState
from staticfire.broker.statistics import Statistics
from staticfire.broker.topics import TopicTable
from staticfire.runtime.connection import Connection

if TYPE_CHECKING:
    from staticfire.broker.journal.events import PullNotes


class Owners:
    """Numbers for the connections that have popped messages."""

    def __init__(self) -> None:
        self._numbers: dict[Connection, int] = {}
        self._connections: dict[int, Connection] = {}
        # A gRPC endpoint pops for push consumers and for others over one connection, which then has two numbers.
        self._push_numbers: dict[Connection, int] = {}
        self._push_groups: dict[int, set[str]] = {}
        self._next = NO_CLIENT

    def number_of(self, connection: Connection) -> int:
        """Return the number of a connection; give it one if it has none."""
        number = self._numbers.get(connection)
        if number is None:
            number = self._numbers[connection] = self._new(connection)
        return number

    def push_number_of(self, connection: Connection, group: str) -> int:
        """Return the number that a connection has for the messages of push consumers of its own."""
        number = self._push_numbers.get(connection)
        if number is None:
            number = self._push_numbers[connection] = self._new(connection)
            self._push_groups[number] = set()
        self._push_groups[number].add(group)
        return number

    def is_push(self, number: int) -> bool:
        """Return whether a number is a connection's number for push consumers of its own."""
        return number in self._push_groups

    def push_groups(self) -> set[str]:
        """Return the groups of which connections have popped for push consumers of their own."""
        return set().union(*self._push_groups.values())

    def _new(self, connection: Connection) -> int:
        self._next = self._next % (GIVEN_BACK - 1) + 1
        self._connections[self._next] = connection
        return self._next

    def connection(self, number: int) -> Connection | None:
        """Return the connection with a number; None if it is closed."""
        return self._connections.get(number)

    def forget(self, connection: Connection) -> None:
        """Forget a closed connection."""
        for numbers in (self._numbers, self._push_numbers):
            number = numbers.pop(connection, None)
            if number is not None:
                self._connections.pop(number, None)
                self._push_groups.pop(number, None)


class PopTables(msgspec.Struct):
    """The tables and the log. Each method changes a table and notes the change for the log at once."""

    state: BrokerState
    topics: TopicTable
    groups: GroupTables
    statistics: Statistics
    journal: "PullNotes | None"
    """Notes what was delivered; None if the broker keeps no journal."""
    log: PopLog
    in_flight: InFlight = msgspec.field(default_factory=InFlight)
    orders: OrderStates = msgspec.field(default_factory=OrderStates)
    owners: Owners = msgspec.field(default_factory=Owners)
    before: "PopTables | None" = None
    """Those of the broker's last core, until this one has restored what is in flight."""

    def take_owners(self) -> None:
        """Take over which client has which message: the clients of the last core are still connected."""
        before, self.before = self.before, None
        if before is None:
            return
        self.owners = before.owners
        for queue in self.in_flight:
            known = before.in_flight.find(queue.place.group, queue.place.topic, queue.place.queue_id)
            for one in list(queue):
                old = None if known is None else known.find(one.start, one.pop_ms)
                if old is not None:
                    self.in_flight.put(queue, one._replace(owner=old.owner))
        self.orders.take_owners(before.orders)

    def put(self, queue: PoppedQueue, new: CheckPoint, committed: int = NO_OFFSET) -> None:
        """Add a check-point, and note it. `committed`: the group's new offset."""
        self.in_flight.put(queue, new)
        bits = pack_bits(new.messages)
        self.log.note(Taken(queue.place, new.start, new.pop_ms, min(new.due_ms, DUE_MS_MAX), bits, committed))

    def remove(self, queue: PoppedQueue, start: int, pop_ms: int, messages: int) -> int:
        """Remove messages from a check-point, and note it; return those that it contained."""
        found = self.in_flight.remove(queue, start, pop_ms, messages)
        if found:
            self.log.note(Done(queue.place, start, pop_ms, pack_bits(found)))
        return found

    def put_order(self, place: GroupQueue, state: OrderState | None, committed: int = NO_OFFSET) -> None:
        """Set an order state, and note it."""
        self.orders.put(place, state)
        self.log.note(Ordered(place, state, committed))

    def commit(self, place: GroupQueue, offset: int) -> None:
        """Set the group's offset."""
        self.groups.offsets.commit(place.group, place.topic, place.queue_id, offset)
