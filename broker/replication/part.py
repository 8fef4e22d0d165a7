"""The part of a broker that takes part in replication: as a master with slaves, or as a slave.

A broker that was never a master with a slave, nor a slave, has nothing of this: the other modules of this package are
imported at the first slave.
"""

from functools import partial
from typing import TYPE_CHECKING

from staticfire.broker.replication.around import BrokerAround
from staticfire.broker.replication.lineage import FILE, has_replicas
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.controller import EpochCache, EpochCacheAnswer
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher, Handler

if TYPE_CHECKING:
    from staticfire.broker.replication.member import ReplicationMember
    from staticfire.protocol.requests.replication import ReplicationState

NO_EPOCHS = "this request only for controllerMode"
CODES = (
    RequestCode.JOIN_REPLICATION,
    RequestCode.COPY_LOG,
    RequestCode.COPY_STATE,
    RequestCode.GET_REPLICATION,
    RequestCode.CONTROL_REPLICATION,
    RequestCode.CHANGE_ROLE,
)


class ReplicationPart:
    """Replication of one broker, in use or not."""

    def __init__(self, around: BrokerAround) -> None:
        self._around = around
        self.member: ReplicationMember | None = None
        """None until the first request of replication."""
        self._is_started = False

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        for code in CODES:
            dispatcher.handle(code, partial(self._handle, code))
        dispatcher.handle(RequestCode.GET_BROKER_EPOCH_CACHE, self._epochs)
        dispatcher.precede(RequestCode.GET_BROKER_HA_STATUS, self._before_ha_status)

    def _handle(self, code: RequestCode, call: Call) -> Answer | None:
        return self._in_use().handlers[code](call)

    def _before_ha_status(self, alone: Handler) -> Handler:
        """Describe the slaves, if this broker has any."""

        def handle(call: Call) -> Answer | None:
            return alone(call) if self.member is None else self.member.ha_status()

        return handle

    def _epochs(self, call: Call) -> Answer:
        """Return the epochs of the log. RocketMQ: getBrokerEpochCache."""
        state, member = self._around.tables.state, self.member
        settings = state.settings
        if member is None or not member.lineage.set_id:
            words = f"{NO_EPOCHS}: {settings.broker_name} has no slave, so its log has no epochs"
            return refusal(ResponseCode.SYSTEM_ERROR, words)
        from staticfire.broker.replication.epochs import entries  # imported here: most brokers have no slave

        cache = EpochCache(settings.broker_cluster_name, settings.broker_name, settings.broker_id)
        cache.epoch_list, cache.max_offset = entries(member.lineage.epochs), state.store.max_position
        return EpochCacheAnswer(body=cache)

    def _in_use(self) -> "ReplicationMember":
        member = self.member
        if member is None:
            from staticfire.broker.replication.member import (
                ReplicationMember,
            )  # imported here: most brokers have no slave

            member = self.member = ReplicationMember(self._around)
            if self._is_started:
                member.start()
        return member

    async def start(self, is_first: bool = True, is_damaged: bool = False, hole_position: int = -1) -> bool:
        """Start to copy, or to wait for copies, if the settings say so. `is_first`: the process starts.

        `is_damaged`: recovery has lost something from the middle of the log; `hole_position`: it has kept what follows.

        Return whether another broker has become the master meanwhile: then this one must not register.
        """
        state = self._around.tables.state
        has_lineage = state.machine.files.exists(f"{state.settings.store_path_root_dir}/{FILE}")
        if has_lineage or has_replicas(state.settings):
            self._in_use()
        # A broker whose role was just changed must not ask others first: its set has no master meanwhile.
        is_replaced = is_first and self.member is not None and await self.member.is_replaced(hole_position)
        self._is_started = True
        if self.member is not None and self.member.follower is not None:
            if is_damaged:
                self.member.follower.note_damage()
            if is_replaced:
                return True  # It begins once more, with another id.
        if self.member is not None:
            self.member.start()
        return is_replaced

    async def ready(self) -> None:
        """Wait until a slave copies its master, but not long."""
        if self.member is not None and self.member.follower is not None:
            await self.member.follower.copying()

    def written(self) -> None:
        """Send what was written to the slaves. Called after each burst that stored something."""
        if self.member is not None:
            self.member.written()

    def waive(self, start: int, end: int) -> None:
        """Let the appends between two positions of the current burst wait for no slave."""
        if self.member is not None:
            self.member.waive(start, end)

    def describe(self) -> "ReplicationState":
        """Return how this broker takes part in replication."""
        return self._in_use().describe()

    def in_sync_count(self) -> int:
        """Return the number of replicas in sync, this broker included."""
        return 1 if self.member is None else self.member.source.in_sync_count()

    def disconnected(self, connection: Connection) -> None:
        """Forget the slave of a lost connection."""
        if self.member is not None:
            self.member.disconnected(connection)

    def answer_held(self) -> None:
        """Answer all that wait: the broker stops."""
        if self.member is not None:
            self.member.answer_held()
