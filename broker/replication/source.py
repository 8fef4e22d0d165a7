"""A master's answers to its slaves: where they begin, the log piece by piece, the state around it.

Behaviour
- A slave joins with its epochs and the end of its log, and gets the position from which it continues. Below its own
  end, it removes the rest first.
- A request for the log waits if there is nothing new; it is answered when the next burst is written. The position that
  it confirms is what synchronous sends wait for.
- A slave that confirms more than it was sent is refused, and must join again. RocketMQ believes it.

Without a slave, nothing of this is called.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from staticfire.broker.replication.epochs import common_end, newest, rank
from staticfire.broker.replication.followers import Follower, Followers, Limits
from staticfire.broker.replication.lineage import Lineage, waits_for_copies
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer, StorageError
from staticfire.protocol.record import peek_record_crc
from staticfire.protocol.requests.replication import (
    COPY_BYTES_MAX,
    PIECE_BYTES_MAX,
    CopyAnswer,
    CopyLog,
    FollowerState,
    JoinAnswer,
    Joined,
    Joining,
    JoinReplication,
)
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher, failure
from staticfire.runtime.log import logger
from staticfire.runtime.long_answers import send_long
from staticfire.runtime.service import Alarm

if TYPE_CHECKING:
    from staticfire.broker.journal.events import EventJournal

log = logger("replication")

# A request for the log waits this long for something new. The answer shows a slave that its master is there.
WAIT_MS_MAX = 5_000
EXPIRY_STEP_MS = 250
# If no send waits for the slaves, they get what was written within this time in one piece: an answer for each burst
# would cost the master as much as the burst. A slave that is further behind is answered at once.
GATHER_MS = 2
GATHER_BYTES = COPY_BYTES_MAX // 2


OTHER_LOG = (
    "the slave's folder has messages of another broker; give it an empty folder, or the one that it had before; if its "
    "master lost its folder, let the slave take over with `staticfire failover`"
)
ADVICE = "stop this master and let the slave take over with `staticfire failover`, or empty the slave's folder"


def limits_of(settings: BrokerSettings) -> Limits:
    """Return when a slave is in sync."""
    return Limits(settings.ha_max_gap_not_in_sync, settings.ha_max_time_slave_not_catchup)


class ReplicationSource:  # house: one table of slaves, from joining to leaving
    """What a master knows of its slaves, and what it sends them."""

    def __init__(
        self,
        state: BrokerState,
        lineage: Callable[[], Lineage],
        has_lineage: Callable[[], bool],
        on_confirmed: Callable[[], None],
        changes: Callable[[], int],
        events: "EventJournal | None" = None,
    ) -> None:
        """`lineage` returns that of this master, begun if there was none; `has_lineage`: whether there is one.

        `on_confirmed`: a slave has stored more. `changes`: returns another number after each change.
        """
        self._state = state
        self._store = state.store
        self._uptime_ms = state.machine.clock.uptime_ms
        self._lineage = lineage
        self._has_lineage = has_lineage
        self._on_confirmed = on_confirmed
        self._changes = changes
        self._events = events
        self.followers = Followers()
        self._connections: dict[int, Connection] = {}
        self._waiting: dict[int, tuple[Call, UptimeMs]] = {}
        self._expiry = Alarm(state.machine.clock, EXPIRY_STEP_MS)
        self._deletions: dict[str, int] = {}
        self._deletions_seen = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._use(state.settings)
        state.on_settings(self._use)

    def _use(self, settings: BrokerSettings) -> None:
        self._answers_at_once = waits_for_copies(settings)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.JOIN_REPLICATION, self.join)
        dispatcher.handle(RequestCode.COPY_LOG, self.copy)

    # -- joining -------------------------------------------------------------------------------------------------

    def join(self, call: Call) -> Answer:
        """Compare the logs, and tell the slave where it begins. Raises: BrokerAnswer."""
        request: JoinReplication = call.request
        joining: Joining | None = request.body
        if joining is None:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "the body must describe the slave that joins")
        address = _reached_address(joining.address, call.connection)
        self._refuse_stranger(request, joining, address, call.connection)
        if joining.end_position and not self._has_lineage():
            raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, OTHER_LOG)  # And this master remains without a lineage.
        lineage = self._lineage()
        self._refuse_other_log(joining, lineage)
        joined = self._compared(joining, lineage)
        uptime_ms, had_all_ms = self._uptime_ms(), self._had_all_ms(joining.broker_id, address)
        for broker_id in [one for one, its in self._connections.items() if its is call.connection]:
            self._leave(broker_id)  # It has another id now.
        self._leave(joining.broker_id)
        self.followers.by_id[joining.broker_id] = Follower(
            joining.broker_id, address, joined.start_position, had_all_ms, uptime_ms, joined.start_position
        )
        self._connections[joining.broker_id] = call.connection
        log.info(
            "slave_joined", broker_id=joining.broker_id, address=joining.address, position=joined.start_position,
            end_position=joined.end_position, reason=joined.reason,
        )  # fmt: skip
        if self._events is not None:
            self._events.slave_joined(joining.broker_id, joining.address, joined.start_position)
        return JoinAnswer(body=joined)

    def _refuse_stranger(
        self, request: JoinReplication, joining: Joining, address: str, connection: Connection
    ) -> None:
        settings = self._state.settings
        names = request.cluster_name, request.broker_name
        if names != (settings.broker_cluster_name, settings.broker_name):
            words = f"this is broker {settings.broker_name} of cluster {settings.broker_cluster_name}"
            raise BrokerAnswer(
                ResponseCode.ILLEGAL_OPERATION, f"{words}: a slave of {names[1]} of {names[0]} can't join"
            )
        if joining.broker_id <= MASTER_ID:
            raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, "the id of a slave must be above 0: set brokerId")
        other = self._connections.get(joining.broker_id)
        if other is not None and other.is_open and other is not connection:
            follower = self.followers.by_id[joining.broker_id]
            if follower.address != address:
                words = f"{follower.address} is already the slave with brokerId={joining.broker_id}"
                words = f"{words}: give {address} another brokerId"
                raise BrokerAnswer(ResponseCode.CONTROLLER_BROKER_ID_INVALID, words)
        segment_bytes = settings.mapped_file_size_commit_log
        if joining.segment_bytes != segment_bytes:
            words = f"mappedFileSizeCommitLog is {joining.segment_bytes} at the slave and {segment_bytes} at its master"
            raise BrokerAnswer(
                ResponseCode.ILLEGAL_OPERATION, f"{words}: set the same value, so that both logs are equal"
            )

    def _refuse_other_log(self, joining: Joining, lineage: Lineage) -> None:
        if joining.end_position and joining.set_id != lineage.set_id:
            raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, OTHER_LOG)
        if rank(joining.epochs) > rank(lineage.epochs):
            words = (
                f"the slave knows a master of epoch {newest(joining.epochs)}, which is newer than this one of epoch "
                f"{newest(lineage.epochs)}: another broker has become the master"
            )
            raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, words)
        if list(joining.epochs) == list(lineage.epochs) and joining.end_position > self._store.max_position:
            more = joining.end_position - self._store.max_position
            words = f"the slave has {more} bytes more than its master, which lost the end of its log"
            raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, f"{words}: {ADVICE}")
        if self._answers_at_once:
            common = common_end(lineage.epochs, self._store.max_position, joining.epochs, joining.end_position)
            if common < joining.end_position:
                _refuse_diverged(joining, lineage)

    def _compared(self, joining: Joining, lineage: Lineage) -> Joined:
        """Return where the slave continues, and what it must remove before."""
        store, own_end = self._store, self._store.max_position
        joined = Joined(lineage.set_id, lineage.epochs, joining.end_position, end_position=own_end)
        joined.master_role = self._state.settings.broker_role
        joined.deleted_topics, joined.deletions = store.deletions, self._count_deletions()
        if not joining.end_position:
            joined.start_position, joined.is_anew = store.min_position, store.min_position > 0
            return joined
        if joining.wants_all:
            joined.start_position, joined.is_anew = store.min_position, True
            joined.reason = "the slave's log is damaged"
            return joined
        common = common_end(lineage.epochs, own_end, joining.epochs, joining.end_position)
        if common < joining.end_position:
            joined.start_position, joined.reason = common, "the master doesn't have the end of the slave's log"
        elif not self._has_record(joining):
            _refuse_diverged(joining, lineage)
            joined.start_position, joined.reason = 0, "the last message of the slave isn't the master's at this place"
        if joined.start_position < store.min_position or (joined.reason and joined.start_position == 0):
            joined.start_position, joined.is_anew = store.min_position, True
            joined.reason = joined.reason or "the master has removed the messages that follow those of the slave"
        return joined

    def _has_record(self, joining: Joining) -> bool:
        """Return whether this log has the slave's last record; also if that can't be found out any more."""
        position = joining.last_position
        if position < self._store.min_position:
            return True
        record = self._store.record_at(position)
        return record is not None and peek_record_crc(record) == joining.last_crc

    def _count_deletions(self) -> int:
        if self._store.deletions is not self._deletions:
            self._deletions = self._store.deletions
            self._deletions_seen += 1
        return self._deletions_seen

    # -- the log -------------------------------------------------------------------------------------------------

    def copy(self, call: Call) -> Answer | None:
        """Note what a slave has stored; send the next piece, or wait for it. Raises: BrokerAnswer, StorageError."""
        request: CopyLog = call.request
        follower = self.followers.by_id.get(request.broker_id)
        if follower is None or self._connections[request.broker_id] is not call.connection:
            raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, f"slave {request.broker_id} has not joined: join first")
        if request.epoch != newest(self._lineage().epochs):
            self._leave(request.broker_id)
            raise BrokerAnswer(
                ResponseCode.ILLEGAL_OPERATION, f"epoch {request.epoch} is not the current one: join again"
            )
        self._confirm(follower, request)
        position, end = request.log_position, self._store.max_position
        is_new = position < end
        is_short = is_new and not self._answers_at_once and end - position < GATHER_BYTES
        has_news = request.deletions != self._count_deletions() or request.changes != self._changes()
        if (is_new and not is_short) or request.wait_ms <= 0 or has_news:
            self._send_piece(call, follower)
            return None
        due_ms = UptimeMs(self._uptime_ms() + min(request.wait_ms, WAIT_MS_MAX))
        self._waiting[request.broker_id] = call, due_ms
        self._expiry.ring_by(due_ms)
        if is_short:
            self._gather()
        return None

    def _confirm(self, follower: Follower, request: CopyLog) -> None:
        stored, end = request.stored_position, self._store.max_position
        is_possible = self._store.min_position <= stored <= min(follower.sent_position, request.log_position)
        # A slave continues where its last piece ended; after a blank that was cut, in the next segment.
        has_gap = request.log_position > follower.sent_position and not self._store.begins_segment(request.log_position)
        if not is_possible or has_gap or request.log_position > end:
            self._leave(follower.broker_id)
            words = (
                f"slave {follower.broker_id} confirms position {stored} and requests {request.log_position}, but it "
                f"was sent the log up to {follower.sent_position}: join again"
            )
            log.error("slave_refused", reason=words)
            raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, words)
        follower.confirmed(stored, end, self._uptime_ms())
        follower.deletions = request.deletions
        self._on_confirmed()

    def _send_piece(self, call: Call, follower: Follower) -> None:
        """Send what follows, perhaps nothing. Raises: StorageError, OSError."""
        request: CopyLog = call.request
        position, end = request.log_position, self._store.max_position
        answer = CopyAnswer(position, end, self._count_deletions(), self._changes())
        if position >= end or call.oneway:
            call.answer(answer)
            return
        answer.segment_end = self._store.segment_end(position)
        store, bytes_max = self._store, max(1, min(request.bytes_max, PIECE_BYTES_MAX))
        with store.log_view(position, bytes_max) as body:
            size = len(body)
            send_long(call, answer, body, lambda at: store.log_window(position + at, size - at))
        follower.sent_position = max(follower.sent_position, position + size)

    def written(self) -> None:
        """Answer the requests that wait, at once or after GATHER_MS: there is something new."""
        if not self._waiting:
            return
        if self._answers_at_once:
            self.answer_waiting()
        else:
            self._gather()

    def _gather(self) -> None:
        """Answer the requests that wait, soon."""
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_MS / 1000, self.answer_waiting)

    def answer_waiting(self) -> None:
        """Answer the requests that wait, now. Changes that aren't in the log wake none by themselves."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        waiting, self._waiting = self._waiting, {}
        for broker_id, (call, _) in waiting.items():
            self._answer(broker_id, call)

    def _answer(self, broker_id: int, call: Call) -> None:
        follower = self.followers.by_id.get(broker_id)
        if follower is None or not call.connection.is_open:
            return
        try:
            self._send_piece(call, follower)
        except (StorageError, OSError) as error:
            call.answer(failure(error, call))
        call.connection.flush()

    async def expiry_loop(self) -> None:
        """Loop: answer the requests that waited long enough, with nothing."""
        while True:
            await self._expiry.wait()
            uptime_ms = self._uptime_ms()
            for broker_id, (call, due_ms) in list(self._waiting.items()):
                if due_ms <= uptime_ms:
                    del self._waiting[broker_id]
                    self._answer(broker_id, call)
                else:
                    self._expiry.ring_by(due_ms)

    def answer_held(self) -> None:
        """Answer all requests that wait: the broker stops."""
        self.answer_waiting()

    # -- slaves --------------------------------------------------------------------------------------------------

    def disconnected(self, connection: Connection) -> None:
        """Forget the slave of a connection that was closed."""
        for broker_id in [one for one, its in self._connections.items() if its is connection]:
            self._leave(broker_id)

    def _had_all_ms(self, broker_id: int, address: str) -> UptimeMs:
        """Return when a slave that joins had everything: now, unless it was here a moment ago and didn't.

        A slave that can't write its log joins again and again, and must not be in sync for that.
        """
        before = self.followers.by_id.get(broker_id)
        return self._uptime_ms() if before is None or before.address != address else before.had_all_ms

    def _leave(self, broker_id: int) -> None:
        follower = self.followers.by_id.pop(broker_id, None)
        self._connections.pop(broker_id, None)
        self._waiting.pop(broker_id, None)
        if follower is not None:
            log.info("slave_left", broker_id=broker_id, position=follower.stored_position)
            if self._events is not None:
                self._events.slave_left(broker_id, follower.stored_position)
            self._on_confirmed()

    def id_at(self, connection: Connection) -> int:
        """Return the id of the slave at the other end of a connection; -1 if there is none."""
        return next((broker_id for broker_id, its in self._connections.items() if its is connection), -1)

    def in_sync_count(self) -> int:
        """Return the number of replicas in sync, this master included."""
        limits = limits_of(self._state.settings)
        return 1 + sum(1 for _ in self.followers.in_sync(self._store.max_position, self._uptime_ms(), limits))

    def states(self) -> list[FollowerState]:
        """Describe all slaves."""
        limits, deletions = limits_of(self._state.settings), self._count_deletions()
        states = self.followers.states(self._store.max_position, self._uptime_ms(), limits)
        for one in states:
            one.lacks_deletions = self.followers.by_id[one.broker_id].deletions != deletions
        return states


def _reached_address(address: str, connection: Connection) -> str:
    """Return the address of a slave with the host that it is reached at, if it listens on all of its machine's."""
    host, _, port = address.rpartition(":")
    if host not in ("", "0.0.0.0", "[::]"):
        return address
    return f"{connection.peer.address.rpartition(':')[0]}:{port}"


def _refuse_diverged(joining: Joining, lineage: Lineage) -> None:
    """Raise BrokerAnswer if no election has decided which of two logs counts.

    Both end in the same epoch, so the master lost a part of its log, and has stored other messages since. The slave
    has what was lost, perhaps as the only broker: it must not remove that by itself.
    """
    if rank(joining.epochs) == rank(lineage.epochs):
        words = "the slave has other messages than its master, which lost a part of its log"
        raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, f"{words}: {ADVICE}")
