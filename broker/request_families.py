"""The request handlers of one broker's core, created and wired in one place."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from staticfire.broker.groups.late_commits import LateCommits
from staticfire.broker.handlers.access import AccessHandlers
from staticfire.broker.handlers.assignment import AssignmentHandlers
from staticfire.broker.handlers.clients import ClientHandlers
from staticfire.broker.handlers.config import ConfigHandlers
from staticfire.broker.handlers.connections import ConnectionHandlers
from staticfire.broker.handlers.faults import FaultHandlers
from staticfire.broker.handlers.group_state import GroupStateHandlers
from staticfire.broker.handlers.group_watch import GroupWatch
from staticfire.broker.handlers.groups import GroupHandlers
from staticfire.broker.handlers.imports import ImportHandlers
from staticfire.broker.handlers.journal import JournalHandlers
from staticfire.broker.handlers.locks import LockHandlers
from staticfire.broker.handlers.metrics import MetricHandlers
from staticfire.broker.handlers.offsets import OffsetHandlers
from staticfire.broker.handlers.pull import PullHandlers
from staticfire.broker.handlers.queries import QueryHandlers
from staticfire.broker.handlers.queues import TopicQueues
from staticfire.broker.handlers.recall import RecallHandlers
from staticfire.broker.handlers.reply import ReplyHandlers
from staticfire.broker.handlers.reset import Forget, ResetHandlers
from staticfire.broker.handlers.reset_offset import ResetOffsetHandlers
from staticfire.broker.handlers.send import SendHandlers
from staticfire.broker.handlers.send_back import SendBackHandlers
from staticfire.broker.handlers.snapshots import SnapshotCalls, SnapshotHandlers
from staticfire.broker.handlers.statistics import StatisticsHandlers
from staticfire.broker.handlers.topics import TopicHandlers
from staticfire.broker.handlers.totals import TotalsHandlers
from staticfire.broker.handlers.transactions import TransactionHandlers
from staticfire.broker.handlers.upkeep import UpkeepHandlers
from staticfire.broker.pulls.checks import PullChecks
from staticfire.broker.pulls.deliveries import Deliveries
from staticfire.broker.services import BrokerServices
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.static_topics.front import StaticTopicFront
from staticfire.broker.tables import BrokerTables
from staticfire.protocol.requests.clock import ClockReading
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.pool import ConnectionPool

if TYPE_CHECKING:
    from staticfire.broker.core import BrokerCore
    from staticfire.broker.replication.role_change import ChangeRoleOf

Settle = Callable[[], None]


class Surface(NamedTuple):
    """What a broker keeps while its core is replaced: the connections to its clients and nameservers."""

    dispatcher: Dispatcher
    """The dispatcher of all incoming connections."""
    connections: Callable[[], Iterable[Connection]]
    pool: ConnectionPool
    listen: Callable[[], Awaitable[int]]
    """Opens the ports unless they are open; returns the main one."""
    leave: "Callable[[BrokerCore], Awaitable[None]]"
    """Disconnects clients and nameservers, before a core closes its files."""
    change: SnapshotCalls
    """Carries out what a core can't do itself, because it ends during the operation."""
    change_role: "ChangeRoleOf"
    """Makes the broker a master or a slave, and then answers the request, if there is one: another core begins."""


class NextCore(NamedTuple):
    """The actions of a broker that replace its core."""

    end: Callable[[], Awaitable[None]]
    """Ends the current core. Afterwards its files are closed, even if this raises StorageError."""
    begin: Callable[[ClockReading | None, BrokerSettings | None], Awaitable[BrokerTables]]
    """Starts a new core, with the given message time and settings if there are some; returns its tables."""
    dispatchers: Callable[[], list[tuple[Dispatcher, Dispatcher]]]
    """The dispatchers of the connections, each with the newest core's own: for clients, then for nameservers."""
    lost: Callable[[Connection], None]
    """Notifies the newest core that a connection was lost."""


class Family(Protocol):
    """The handlers of one family of requests."""

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""


class RequestFamilies:
    """All handlers. Those that also do something without a request are public."""

    def __init__(self, tables: BrokerTables, services: BrokerServices, surface: Surface, settle: Settle) -> None:
        """`settle` writes the burst."""
        self._tables = tables
        self._services = services
        self._surface = surface
        self._settle = settle
        state, groups, journals = tables.state, tables.groups, tables.journals
        self._late_commits = LateCommits(state, groups)
        journal = None if journals is None else journals.pulls
        deliveries = Deliveries(state.machine.clock, groups.progress, tables.statistics, journal)
        checks = PullChecks(state, tables.topics, groups)
        self.pulls = PullHandlers(state, checks, groups, self._late_commits, tables.held, deliveries)
        watch = GroupWatch(state, groups, tables.held)
        self.clients = ClientHandlers(state, tables.topics, groups, watch, self.pulls.look_anew)
        self.assignments = AssignmentHandlers(
            state, tables.topics, groups, tables.config_files, services.registration, surface.pool
        )
        self.access = AccessHandlers(state, tables.changes, surface.dispatcher, surface.connections, tables.peers)
        self._config = ConfigHandlers(state, tables.topics, services.registration, surface.pool)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register all handlers."""
        for families in (self._of_messages(), self._of_consumers(), self._of_topics(), self._of_broker()):
            for family in families:
                family.register(dispatcher)
        tables, registration, pool = self._tables, self._services.registration, self._surface.pool
        StaticTopicFront(dispatcher, tables.static_topics, tables.held, registration, pool).intercept()

    def _of_messages(self) -> Iterator[Family]:
        """Yield the handlers of requests that store messages."""
        tables, services = self._tables, self._services
        state, intake, waiting = tables.state, services.intake, services.waiting
        yield SendHandlers(state, services.targets, intake, waiting.transactions)
        yield SendBackHandlers(state, tables.topics, tables.groups, tables.statistics, intake, services.dead_letters)
        yield TransactionHandlers(state, waiting.transactions)
        yield RecallHandlers(state, tables.topics, waiting.timers)
        yield ReplyHandlers(state, tables.groups.producers, services.targets, self._settle)
        yield ImportHandlers(state, TopicQueues(state, tables.topics))

    def _of_consumers(self) -> Iterator[Family]:
        """Yield the handlers of requests that deliver messages, and of those about groups."""
        tables, services = self._tables, self._services
        state, topics, groups, pops = tables.state, tables.topics, tables.groups, services.pops
        yield self.pulls
        yield pops
        yield self.clients
        yield self.assignments
        yield LockHandlers(state, groups)
        yield OffsetHandlers(state, topics, groups, self._late_commits, tables.surprises)
        yield ResetOffsetHandlers(state, topics, groups, tables.config_files, self.pulls, pops)
        yield GroupHandlers(groups, tables.changes, pops)
        yield GroupStateHandlers(state, topics, groups, tables.held, pops, services.waiting, tables.peers)
        yield ConnectionHandlers(state, groups)

    def _of_topics(self) -> Iterator[Family]:
        """Yield the handlers of requests about topics and what is in them."""
        tables, services = self._tables, self._services
        state, topics, groups = tables.state, tables.topics, tables.groups
        administration = services.administration
        queues = TopicQueues(state, topics)
        # A pull that waited on would use its old offset in a new topic of that name, and miss its first messages.
        deleted = (services.pops.forget_topic, self.pulls.answer_topic)
        yield TopicHandlers(
            state, topics, tables.static_topics, groups.offsets, tables.changes, services.registration, deleted
        )
        yield QueryHandlers(state.store, queues, groups.consumers, administration.index)
        yield StatisticsHandlers(
            state, topics, groups, tables.static_topics, tables.statistics, administration.runtime_info
        )
        yield MetricHandlers(state, topics, groups, tables.statistics, services.pops, services.waiting)
        yield TotalsHandlers(state, topics, groups, services.pops, services.waiting)

    def _of_broker(self) -> Iterator[Family]:
        """Yield the handlers of requests about the broker as a whole."""
        tables, services, surface = self._tables, self._services, self._surface
        state, topics, groups = tables.state, tables.topics, tables.groups
        events = None if tables.journals is None else tables.journals.events
        faults = FaultHandlers(state, topics, groups, tables.held, surface.dispatcher, surface.connections, events)
        forget = Forget(
            faults.release,
            services.targets.new_topics.resume_all,
            services.waiting.forgetting(),
            (tables.surprises.forget, services.targets.forget, self.pulls.answer_held),
            self.assignments.forget,
            self._config.forget,
        )
        yield self._config
        yield self.access
        yield ResetHandlers(state.store, topics, groups, tables.config_files, services.pops, forget)
        yield JournalHandlers(tables.journals)
        yield faults
        yield SnapshotHandlers(state, surface.change)
        yield UpkeepHandlers(state, topics, groups.offsets, services.waiting.delays, services.disk_watch.remove_expired)
