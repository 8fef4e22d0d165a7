"""One broker as a member of a set of a master and its slaves: what is called, and by which part.

Behaviour
- A master begins its lineage when the first slave joins. Whether it still is the master, and whether it has lost
  messages that a slave has: succession.py.
- A slave whose id another one has takes a free one: it lost its disk, and a failover has exchanged ids meanwhile.
- A master that lost a part of its log and has what follows, because a sync failed, begins another life of its epoch at
  that part. So it is seen from then on that slaves have another log there.
- A change of roles is refused if its epoch isn't newer than this broker's.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from staticfire.broker.replication.around import BrokerAround
from staticfire.broker.replication.awaited_changes import AwaitedChanges
from staticfire.broker.replication.epochs import FIRST, begun
from staticfire.broker.replication.ha_status import ha_of_master, ha_of_slave
from staticfire.broker.replication.lineage import (
    SYNC_MASTER,
    Lineage,
    is_slave,
    new_life,
    read_lineage,
    waits_for_copies,
    write_lineage,
)
from staticfire.broker.replication.losing import count_messages, end_without
from staticfire.broker.replication.master_fence import MasterFence
from staticfire.broker.replication.role_change import ASYNC_MASTER, check_change, role_change
from staticfire.broker.replication.source import ReplicationSource
from staticfire.broker.replication.state_copy import StateCopy
from staticfire.broker.replication.succession import Succession
from staticfire.broker.replication.successor import other_id
from staticfire.broker.replication.waiting_sends import SendsAwaitingCopies
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer, StorageError
from staticfire.protocol.requests.replication import (
    SLAVE,
    ChangeRole,
    ControlReplication,
    GetReplication,
    ReplicationAnswer,
    ReplicationState,
)
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Handler
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    from staticfire.broker.replication.follower import ReplicationFollower

log = logger("replication")

SET_ID_BITS = 64
LAG_MS_MAX = 3_600_000


class ReplicationMember:
    """Replication of one broker, in use."""

    def __init__(self, around: BrokerAround) -> None:
        self._around = around
        self._state = state = around.tables.state
        self._store = state.store
        settings = state.settings
        self._lineage = read_lineage(state.machine.files, settings.store_path_root_dir)
        self._state_copy = StateCopy(
            around.tables, around.assignments, around.access, around.first_waiting, around.answer_held
        )
        self._awaited_changes = AwaitedChanges(state, self._state_copy.count_changes)
        self.source = ReplicationSource(
            state, self._begun_lineage, lambda: bool(self._lineage.set_id), self._confirmed,
            self._awaited_changes.number, around.events,
        )  # fmt: skip
        self._waiting: SendsAwaitingCopies | None = None
        self.follower: ReplicationFollower | None = None
        self._fence = MasterFence(state.store, around.tables.changes, self.source.answer_waiting)
        self._is_started = False
        self._instance = f"{state.machine.identity.random.getrandbits(SET_ID_BITS):016x}"
        self._succession = Succession(around, lambda: self._lineage, self._keep)
        if settings.broker_role == SYNC_MASTER:  # inSyncReplicas can change while it runs.
            clock = state.machine.clock
            followers, in_sync_count = self.source.followers, self.source.in_sync_count
            self._waiting = SendsAwaitingCopies(lambda: state.settings, followers, clock, in_sync_count)
        if is_slave(settings):
            self.follower = self._make_follower()
        self.handlers: dict[int, Handler] = {
            RequestCode.JOIN_REPLICATION: self._of_master(self._join),
            RequestCode.COPY_LOG: self._of_master(self.source.copy),
            RequestCode.COPY_STATE: self._of_master(self._give_state),
            RequestCode.GET_REPLICATION: self.get,
            RequestCode.CONTROL_REPLICATION: self.control,
            RequestCode.CHANGE_ROLE: self.change_role,
        }

    def _make_follower(self) -> "ReplicationFollower":
        from staticfire.broker.replication.follower import ReplicationFollower  # here: masters don't need it

        around = self._around
        return ReplicationFollower(
            self._state, around.registration, around.pool, self._state_copy, self._lineage, around.settle,
            around.change_role,
        )  # fmt: skip

    def _of_master(self, handler: Handler) -> Handler:
        def handle(call: Call) -> Answer | None:
            if self.follower is not None:
                words = "this broker is a slave, too: only a master is copied"
                raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, words)
            return handler(call)

        return handle

    def _join(self, call: Call) -> Answer | None:
        if not self._lineage.set_id and self._succession.may_lack_messages:
            words = "this master is empty, and a slave has messages, or may have: it begins no log that others copy"
            raise BrokerAnswer(ResponseCode.SYSTEM_BUSY, words)
        return self.source.join(call)

    def _give_state(self, call: Call) -> Answer:
        answer = self._state_copy.give(call)
        self._awaited_changes.noted(self.source, call.connection, not answer.body.has_changes)
        return answer

    # -- start and stop ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the loops of the role."""
        if self._is_started:
            return
        self._is_started = True
        spawn, pause = self._around.spawn, self._around.pause
        if self.follower is not None:
            self._state_copy.begin_as_slave()
            spawn(self.follower.loop(pause), "copy_of_log")
            spawn(self.follower.state_rounds.loop(), "copy_of_state")
            return
        spawn(self.source.expiry_loop(), "copies")
        spawn(self._succession.loop(), "successor")
        if self._waiting is not None:
            self._around.tables.changes.use_copies(lambda: self._awaited_changes.wait(self.source))
            self._store.use_copies(self._waiting.add)
            spawn(self._waiting.expiry_loop(), "copies_waited_for")

    async def is_replaced(self, hole_position: int = -1) -> bool:
        """Return whether this broker must not register: its role or its id is another's. Then refuse messages.

        `hole_position`: where its log lost something, although it has what follows; -1: nowhere.
        """
        if self.follower is not None:
            return await self._gets_other_id()
        if hole_position >= 0 and self._lineage.set_id:  # Slaves have another log from there on.
            self._keep(new_life(self._lineage, hole_position))
        return await self._succession.is_replaced()

    async def _gets_other_id(self) -> bool:
        """Return whether this slave begins once more, because another broker has its id."""
        around, settings = self._around, self._state.settings
        if self._lineage.role:
            return False  # A failover gave it this id; the other one is about to become the master.
        number = await other_id(settings, self._instance, around.registration, around.pool)
        if number is None:
            return False
        reason = f"another slave has brokerId={settings.broker_id}"
        log.warning("id_changed", broker_id=number, reason=reason)
        lineage = msgspec.structs.replace(self.lineage, broker_name=settings.broker_name)
        around.change_role(role_change(SLAVE, number, lineage, reason), None)
        return True

    def answer_held(self) -> None:
        """Answer all that wait: the broker stops."""
        self._store.use_copies(None)
        self.source.answer_held()
        self._awaited_changes.give_up()
        if self._waiting is not None:
            self._waiting.give_up()

    def written(self) -> None:
        """Send what was written to the slaves."""
        self.source.written()

    def disconnected(self, connection: Connection) -> None:
        """Forget the slave of a lost connection."""
        self.source.disconnected(connection)

    def waive(self, start: int, end: int) -> None:
        """Let the appends between two positions of the current burst wait for no slave."""
        if self._waiting is not None:
            self._waiting.waive(start, end)

    def _confirmed(self) -> None:
        self._awaited_changes.look()
        if self._waiting is not None:
            self._waiting.confirmed()

    # -- the lineage ---------------------------------------------------------------------------------------------

    @property
    def lineage(self) -> Lineage:
        """The identity of the log."""
        return self._lineage if self.follower is None else self.follower.lineage

    def _begun_lineage(self) -> Lineage:
        """Return the lineage of this master; begin it if it has none. Raises: StorageError."""
        if self._lineage.set_id:
            return self._lineage
        settings, identity = self._state.settings, self._state.machine.identity
        set_id = f"{identity.random.getrandbits(SET_ID_BITS):016x}"
        self._keep(Lineage(set_id, [FIRST], settings.broker_role, settings.broker_id, settings.broker_name))
        return self._lineage

    def _keep(self, lineage: Lineage) -> None:
        """Write the lineage of this master. Raises: StorageError."""
        try:
            write_lineage(self._state.machine.files, self._state.settings.store_path_root_dir, lineage)
        except OSError as error:
            raise StorageError(f"the identity of the log could not be written: {error}") from error
        self._lineage = lineage

    # -- requests ------------------------------------------------------------------------------------------------

    def get(self, call: Call) -> Answer:
        """Return how this broker takes part in replication. Raises: StorageError."""
        request: GetReplication = call.request
        state = self.describe()
        if request.count_from >= 0:
            state.records_after = count_messages(self._store.records_from(request.count_from))
        return ReplicationAnswer(body=state)

    def describe(self) -> ReplicationState:
        """Describe this member."""
        state, store, lineage, settings = self._state, self._store, self.lineage, self._state.settings
        described = ReplicationState(
            settings.broker_name, settings.broker_id, self._around.registration.address, settings.broker_role,
            lineage.set_id, lineage.epochs, store.min_position, store.max_position, self.source.states(),
        )  # fmt: skip
        described.instance = self._instance
        described.waits_for_failover = self._succession.waits_for_failover
        if waits_for_copies(settings):
            described.all_in_sync_acknowledge = settings.all_ack_in_sync_state_set
            described.copies = max(1, settings.in_sync_replicas)
        if (follower := self.follower) is not None:
            described.master_address, described.master_end = follower.master_address, follower.master_end
            described.problem, described.least_epoch = follower.problem, follower.fence.least_epoch
            described.is_whole, described.silent_ms = follower.is_whole, follower.silent_ms
            described.is_held, described.lag_ms = settings.replication_hold, settings.replication_lag_ms
            if (copied_ms := follower.state_rounds.copied_ms) >= 0:
                described.state_age_ms = state.machine.clock.uptime_ms() - copied_ms
            described.lacks_state = follower.state_rounds.is_wanted
        return described

    def ha_status(self) -> Answer:
        """Return the state of replication as RocketMQ's `haStatus` shows it."""
        end = self._store.max_position
        return ha_of_master(end, self.source.states()) if self.follower is None else ha_of_slave(end, self.follower)

    def control(self, call: Call) -> Answer:
        """Hold, release or delay the copy of a slave; let a master refuse messages. Raises: BrokerAnswer."""
        request: ControlReplication = call.request
        if request.fence_ms >= 0:
            (self.follower or self._fence).begin_fence(request)
        if request.hold is not None or request.lag_ms is not None or request.copy_state:
            self._control_copy(request)
        return ReplicationAnswer(body=self.describe())

    def _control_copy(self, request: ControlReplication) -> None:
        follower, state = self.follower, self._state
        if follower is None:
            words = f"{state.settings.broker_name} at this address is the master: hold or delay the copy of a slave"
            raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, words)
        if request.lag_ms is not None and not 0 <= request.lag_ms <= LAG_MS_MAX:
            words = f"a lag of {request.lag_ms} ms: it must be between 0 and {LAG_MS_MAX} ms, which is an hour"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
        settings = state.settings
        hold = settings.replication_hold if request.hold is None else request.hold
        lag_ms = settings.replication_lag_ms if request.lag_ms is None else request.lag_ms
        if (hold, lag_ms) != (settings.replication_hold, settings.replication_lag_ms):
            log.info("copy_controlled", hold=hold, lag_ms=lag_ms)
            if (events := self._around.events) is not None:
                events.copy_controlled(hold, lag_ms)
            state.use(replace(settings, replication_hold=hold, replication_lag_ms=lag_ms))
        if request.copy_state:
            follower.state_rounds.begin_now()

    def change_role(self, call: Call) -> None:
        """Become the master of this set, or a slave; answered when that is done. Raises: BrokerAnswer, StorageError."""
        request: ChangeRole = call.request
        settings, lineage = self._state.settings, self.lineage
        check_change(request, lineage, settings.broker_name)
        if request.role == SLAVE:
            if self.follower is None:
                self._fence.keep_for(request.fence, request.end_position)
            lineage = msgspec.structs.replace(lineage, least_epoch=request.epoch)
            change = role_change(SLAVE, request.broker_id, lineage, "a slave takes over")
        else:
            role = request.role or lineage.master_role or ASYNC_MASTER
            end, lost = end_without(self._store, request.losing)
            epochs = begun(lineage.epochs, request.epoch, end, self._state.machine.clock.wall_ms())
            lineage = msgspec.structs.replace(lineage, epochs=epochs, is_damaged=False)
            change = role_change(role, MASTER_ID, lineage, "it takes over")
            if end < self._store.max_position:
                deletions = {topic: at for topic, at in self._store.deletions.items() if at <= end}
                change = msgspec.structs.replace(
                    change, cut_position=end, is_cleared=end == 0, deletions=deletions, lost_messages=lost
                )
        self._around.change_role(change, call)
