"""The services of one broker's core, created and wired in one place."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from staticfire.broker.administration import Administration
from staticfire.broker.delay.service import DelayService
from staticfire.broker.disk_watch import DiskWatch
from staticfire.broker.groups.dead_letters import DeadLetters
from staticfire.broker.handlers.runtime_info import RuntimeInfo
from staticfire.broker.key_index import KeyIndexer
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.registration import Registration
from staticfire.broker.replication.lineage import is_slave
from staticfire.broker.sends.intake import Intake
from staticfire.broker.sends.new_topics import NewTopics
from staticfire.broker.sends.targets import TargetTable
from staticfire.broker.state import BrokerState
from staticfire.broker.tables import BrokerTables
from staticfire.broker.timers.service import TimerService
from staticfire.broker.transactions.service import TransactionService
from staticfire.broker.waiting import WaitingMessages
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import Pause, Spawn

if TYPE_CHECKING:
    from staticfire.broker.pop.tables import PopTables


class BrokerServices(NamedTuple):
    """All services of one core."""

    registration: Registration
    targets: TargetTable
    dead_letters: DeadLetters
    intake: Intake
    waiting: WaitingMessages
    pops: LazyPopService
    disk_watch: DiskWatch
    administration: Administration


def make_services(
    tables: BrokerTables, pool: ConnectionPool, settle: Callable[[], None], spawn: Spawn, pause: Pause
) -> BrokerServices:
    """Return the services, not started. `settle` writes the burst."""
    state, topics, groups = tables.state, tables.topics, tables.groups
    registration = Registration(state, topics, tables.static_topics, tables.config_files, pool)
    new_topics = NewTopics(registration.announced, spawn, settle)
    delays = DelayService(tables.levels, state.store, state.clock, tables.config_files, settle)
    timers = TimerService(state, tables.config_files, settle)
    dead_letters = DeadLetters(state, topics, groups.retries)
    intake = Intake(state, groups, delays, timers, dead_letters)
    transactions = TransactionService(state, topics, groups.producers, tables.config_files, intake, settle)
    waiting = WaitingMessages(delays, timers, transactions)
    index = _key_index(tables)
    return BrokerServices(
        registration=registration,
        targets=TargetTable(state, topics, tables.static_topics, new_topics),
        dead_letters=dead_letters,
        intake=intake,
        waiting=waiting,
        pops=LazyPopService(state, lambda topic: _pop_tables(tables, topic), dead_letters, settle, spawn, pause),
        disk_watch=_disk_watch(state, pause, waiting, index),
        administration=Administration(
            state, tables.statistics, RuntimeInfo(state, tables.statistics, delays), index
        ),
    )  # fmt: skip


def _disk_watch(state: BrokerState, pause: Pause, waiting: WaitingMessages, index: KeyIndexer) -> DiskWatch:
    if is_slave(state.settings):
        # It doesn't know which messages wait, but its master does.
        return DiskWatch(state, pause, lambda: None, index.forget_old, lambda: state.masters_waiting_position)
    return DiskWatch(state, pause, waiting.keep_within_bounds, index.forget_old, waiting.first_position)


def _key_index(tables: BrokerTables) -> KeyIndexer:
    state, progress = tables.state, tables.groups.progress
    folder = f"{state.settings.store_path_root_dir}/index"
    return KeyIndexer(state.machine, folder, state.store, lambda: progress.activity)


def _pop_tables(tables: BrokerTables, topic: str) -> "PopTables":
    """Return the tables of POP. `topic`: the topic of its events."""
    from staticfire.broker.pop.pop_log import PopLog  # imported here: most brokers never need it
    from staticfire.broker.pop.tables import PopTables

    state, journals = tables.state, tables.journals
    log = PopLog(state.store, state.clock, topic)
    journal = None if journals is None else journals.pulls
    pops = PopTables(state, tables.topics, tables.groups, tables.statistics, journal, log, before=tables.popped)
    tables.popped = pops
    return pops
