"""A slave copies the log of its master. RocketMQ: DefaultHAClient.

One loop: find the master, join it, request the log piece by piece. Each request confirms what is stored. Whatever goes
wrong, the loop begins again after a pause, and `problem` says why.

A held copy requests nothing. A copy with a lag keeps the received pieces and stores each when it is old enough; after
a loss of the master these pieces are gone, like everything else that it had not sent.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from staticfire.broker.registration import Registration
from staticfire.broker.replication.copy_fence import FENCE_MS_MAX, OTHER_FAILOVER, CopyFence, MasterLost, OtherTakesOver
from staticfire.broker.replication.copy_run import CopyRun
from staticfire.broker.replication.epochs import cut, newest
from staticfire.broker.replication.lineage import Lineage, write_lineage
from staticfire.broker.replication.received_pieces import ReceivedPieces
from staticfire.broker.replication.role_change import ChangeRoleOf, RoleChange
from staticfire.broker.replication.state_copy import StateCopy
from staticfire.broker.replication.state_rounds import StateRounds
from staticfire.broker.replication.successor import another_id, members_of
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.broker.store.copied import QueueDiffers
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import (
    AnswerTimeout,
    BrokerAnswer,
    ConnectionLost,
    NetworkError,
    ProtocolError,
    StorageError,
)
from staticfire.protocol.record import peek_record_crc
from staticfire.protocol.requests.replication import (
    SLAVE,
    ControlReplication,
    CopyAnswer,
    CopyLog,
    JoinAnswer,
    Joined,
    Joining,
    JoinReplication,
)
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import Pause

log = logger("replication")

RETRY_MS = 500
# The master has another core, or another table of deleted topics.
JOIN_AGAIN_MS = 10
# How long a start waits for the master: of a slave that has copied one before, and of one that can't take over yet.
JOINED_MS_MAX = 1_000
FIRST_JOINED_MS_MAX = 10_000
WAIT_MS = 5_000
# A master that is silent for longer than it may wait is frozen or unreachable.
TIMEOUT_MS = WAIT_MS + 15_000


class ReplicationFollower:  # house: one loop, its state, and what may interrupt it
    """The copy of one slave."""

    def __init__(
        self,
        state: BrokerState,
        registration: Registration,
        pool: ConnectionPool,
        state_copy: StateCopy,
        lineage: Lineage,
        settle: Callable[[], None],
        change_role: ChangeRoleOf,
    ) -> None:
        """`settle` writes the burst. `change_role` replaces the core of this broker, and so ends this copy."""
        self._state = state
        self._store = state.store
        self._state_copy = state_copy
        self._registration = registration
        self._pool = pool
        self.lineage = lineage
        self._change_role = change_role
        self._changed = asyncio.Event()
        self._is_joined_or_refused = asyncio.Event()
        self._pieces = ReceivedPieces(state, settle, state_copy.log_grew)
        self._sent_end = 0
        self._changes_seen = 0
        self.fence = CopyFence(state.machine.clock.uptime_ms, lineage.least_epoch)
        self._noted = ("", -1)
        """The last problem in the log, and where the log ended then."""
        self.master_address = ""
        self.master_end = 0
        self.problem = "it has not joined its master yet"
        self.wants_all = lineage.is_damaged
        """The log was damaged in its middle: it is removed when there is a master from which to copy it."""
        self.is_whole = False
        """Whether it had everything of its master at some time since it started."""
        self.last_read_ms = 0
        """When the master answered last, in time since 1970; 0: never."""
        self._heard_ms: UptimeMs | None = None
        self._waited_until_ms = UptimeMs(0)
        """The uptime of the last answer of a master, and until when this slave waited for one in vain."""
        self.state_rounds = StateRounds(state, pool, state_copy, self._copied_master)
        state.on_settings(self._use)

    @property
    def silent_ms(self) -> int:
        """How long the last master was silent, and may have stored messages; -1: it never answered since the start.

        A process that has ended refuses connections, so a slave doesn't wait for it. One that accepts a connection and
        closes it lives, and so did one whose connection breaks after it was silent.
        """
        return -1 if self._heard_ms is None else max(0, self._waited_until_ms - self._heard_ms)

    async def copying(self) -> None:
        """Wait until this slave copies its master, or can't, but not long: the master may be dead, or start later.

        A slave that never copied can't take over. So a new cluster waits longer for it, also for a master that starts
        slowly: a test that kills a master as soon as the cluster is ready expects a failover.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout((JOINED_MS_MAX if self.lineage.set_id else FIRST_JOINED_MS_MAX) / 1000):
                await self._is_joined_or_refused.wait()

    def _use(self, _: BrokerSettings) -> None:
        self._changed.set()

    def begin_fence(self, request: ControlReplication) -> None:
        """Confirm nothing for a time, and never again to a master of an older epoch.

        Raises: StorageError, BrokerAnswer (another failover is running).
        """
        least_epoch = request.least_epoch
        if request.fence_ms and self.fence.is_others(request.fence):
            raise BrokerAnswer(ResponseCode.SYSTEM_BUSY, OTHER_FAILOVER)
        if least_epoch > self.lineage.least_epoch and self.lineage.set_id:
            self.lineage = msgspec.structs.replace(self.lineage, least_epoch=least_epoch)
            settings = self._state.settings
            try:
                write_lineage(self._state.machine.files, settings.store_path_root_dir, self.lineage)
            except OSError as error:
                raise StorageError(f"the epoch that a slave must not forget could not be written: {error}") from error
        self.fence.begin(min(request.fence_ms, FENCE_MS_MAX), least_epoch, request.fence)

    def note_damage(self) -> None:
        """Note that the log is damaged, also for the next starts: they may find nothing, or this disk fail again."""
        self.wants_all = True
        self.lineage = msgspec.structs.replace(self.lineage, is_damaged=True)
        try:
            write_lineage(self._state.machine.files, self._state.settings.store_path_root_dir, self.lineage)
        except OSError as error:
            log.error("damage_not_noted", error=str(error))

    def _copied_master(self) -> str:
        is_copied = not self.problem and not self._state.settings.replication_hold
        return self.master_address if is_copied else ""

    # -- the loop ------------------------------------------------------------------------------------------------

    async def loop(self, pause: Pause) -> None:
        """Copy until this broker isn't a slave any more."""
        while True:
            pause_ms = JOIN_AGAIN_MS
            await self.fence.wait()
            try:
                self.master_address = await self._find_master()
                await self._follow(self.master_address, pause)
            except (NetworkError, BrokerAnswer, ProtocolError, StorageError, OSError) as error:
                if isinstance(error, AnswerTimeout | ConnectionLost | OtherTakesOver):
                    self._waited_until_ms = self._state.machine.clock.uptime_ms()
                if not isinstance(error, NetworkError):
                    self._is_joined_or_refused.set()
                if isinstance(error, BrokerAnswer) and error.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                    await self._take_other_id(str(error))
                if isinstance(error, QueueDiffers):
                    self.note_damage()  # Otherwise it would fail at this record for ever.
                self._note(str(error), isinstance(error, NetworkError))
                pause_ms = RETRY_MS
            self._pieces.clear()
            self.master_address = ""
            await pause(pause_ms)

    async def _take_other_id(self, reason: str) -> None:
        """Begin once more with an id that is free: another slave took this one while this broker was away."""
        settings = self._state.settings
        members = await members_of(settings, self._registration, self._pool)
        if members:
            number = another_id(members, settings.broker_id)
            lineage = msgspec.structs.replace(self.lineage, role=SLAVE, broker_id=number)
            self._change_role(RoleChange(lineage, SLAVE, number, reason), None)
            await asyncio.Future()  # Until this core ends.

    def _note(self, problem: str, heals: bool) -> None:
        """Log a problem once. `heals`: no master answers now. Others are new after something was stored."""
        reached = self._store.max_position
        if problem != self.problem if heals else (problem, reached) != self._noted:
            self._noted = problem, reached
            (log.info if heals else log.warning)("copy_interrupted", master=self.master_address, reason=problem)
        self.problem = problem

    async def _find_master(self) -> str:
        """Return the address of the master. Raises: MasterLost."""
        settings = self._state.settings
        if settings.ha_master_address:
            return settings.ha_master_address
        members = await members_of(settings, self._registration, self._pool)
        address = members.get(MASTER_ID, "")
        if address and address != self._registration.address:
            return address
        words = "set namesrvAddr or haMasterAddress"
        if self._registration.nameservers:
            words = "it waits for one to register"
        raise MasterLost(f"no master of {settings.broker_name} is known: {words}")

    async def _follow(self, address: str, pause: Pause) -> None:
        """Join and copy until something goes wrong. Raises: what the loop handles."""
        joined = await self._join(address)
        if not await self._is_prepared(joined):
            return
        self.problem = ""
        self._heard(joined.end_position)
        self.is_whole = self.is_whole or self._store.max_position >= joined.end_position
        self._sent_end = joined.start_position
        self._is_joined_or_refused.set()
        self.state_rounds.begin_now()
        log.info("copy_started", master=address, position=joined.start_position, master_end=joined.end_position)
        run = CopyRun(lambda answer: self._next_request(answer, joined), TIMEOUT_MS)
        while True:
            await self._wait_while_held()
            self._pieces.store_due()
            answer = await self._request(address, joined, run, pause)
            if answer is None:
                continue
            if answer.deletions != joined.deletions:
                self._note_end(answer)
                return  # Topics were deleted, which is part of joining; or the master doesn't know this slave any more.
            self._take(answer)

    def _next_request(self, answer: Answer, joined: Joined) -> CopyLog | None:
        """Store a piece and return the request for the next one; None: the loop must look at the response.

        Hot path. Raises: StorageError, OSError.
        """
        settings = self._state.settings
        if (
            not isinstance(answer, CopyAnswer)
            or answer.code
            or answer.deletions != joined.deletions
            or settings.replication_hold
            or settings.replication_lag_ms
            or self._pieces
            or self.fence.is_up
        ):
            return None
        self._take(answer)
        return self._request_after(joined, WAIT_MS)

    def _heard(self, end_position: int) -> None:
        clock = self._state.machine.clock
        self.master_end, self.last_read_ms, self._heard_ms = end_position, clock.wall_ms(), clock.uptime_ms()

    def _note_end(self, answer: CopyAnswer) -> None:
        self._heard(answer.end_position)
        if answer.changes != self._changes_seen:
            self._changes_seen = answer.changes
            self.state_rounds.begin_now()

    def _take(self, answer: CopyAnswer) -> None:
        """Store what a response contains, now or later. Raises: StorageError, OSError."""
        self._note_end(answer)
        if answer.body and not self._state.settings.replication_hold:
            self._sent_end = max(self._sent_end, answer.log_position + len(answer.body))
            self._pieces.add(answer.log_position, answer.body, answer.segment_end)
        self._pieces.store_due()
        self.is_whole = self.is_whole or self._store.max_position >= self.master_end

    async def _join(self, address: str) -> Joined:
        settings, store = self._state.settings, self._store
        last = store.record_at(store.last_position) if store.last_position >= 0 else None
        joining = Joining(
            settings.broker_id, self._registration.address, self.lineage.set_id, self.lineage.epochs,
            store.max_position, -1 if last is None else store.last_position,
            0 if last is None else peek_record_crc(last), settings.mapped_file_size_commit_log, self.wants_all,
        )  # fmt: skip
        names = settings.broker_cluster_name, settings.broker_name
        answer = await self._pool.ask(address, JoinReplication(*names, body=joining))
        if not isinstance(answer, JoinAnswer) or answer.code or answer.body is None:
            raise BrokerAnswer(answer.code, answer.remark or "the master can't be joined")
        joined: Joined = answer.body
        if newest(joined.epochs) < self.fence.least_epoch:
            raise MasterLost(f"{address} is the master of an older epoch: it waits for the new one to register")
        return joined

    async def _is_prepared(self, joined: Joined) -> bool:
        """Take over what joining says; return False if this core ends for it. Raises: StorageError, OSError."""
        store, settings = self._store, self._state.settings
        kept = joined.start_position if not joined.is_anew else 0
        lineage = Lineage(
            joined.set_id, joined.epochs, SLAVE, settings.broker_id, settings.broker_name, joined.master_role,
            self.fence.least_epoch, self.wants_all and store.max_position > 0,
        )  # fmt: skip
        if store.max_position and (joined.start_position != store.max_position or joined.is_anew):
            log.warning(
                "log_cut", from_position=store.max_position, to_position=kept, reason=joined.reason, anew=joined.is_anew
            )
            is_damaged = lineage.is_damaged and not joined.is_anew
            cut_lineage = msgspec.structs.replace(lineage, epochs=cut(joined.epochs, kept), is_damaged=is_damaged)
            change = RoleChange(
                cut_lineage, SLAVE, settings.broker_id, joined.reason, kept, joined.is_anew or kept == 0,
                joined.deleted_topics,
            )  # fmt: skip
            self._change_role(change, None)
            await asyncio.Future()  # Until this core ends.
        news = {topic: at for topic, at in joined.deleted_topics.items() if store.deletions.get(topic) != at}
        if news:
            self._state_copy.forget_topics(news)
        if foreign := _foreign_deletions(store.deletions, joined.deleted_topics, store.min_position):
            reason = "topics were deleted here that the master still has"
        elif foreign := _late_deletions(news, store):
            reason = "topics were deleted, and this log may have newer messages of them"
        if foreign:
            log.warning("queues_rebuilt", topics=len(foreign), first=foreign[0], reason=reason)
            end = store.max_position
            self._change_role(
                RoleChange(lineage, SLAVE, settings.broker_id, reason, end, False, joined.deleted_topics), None
            )
            await asyncio.Future()  # Until this core ends: the next one rebuilds its queues from the log.
        if joined.is_anew and not store.max_position:
            store.begin_copy_at(joined.start_position)
        if lineage != self.lineage:
            machine = self._state.machine
            await machine.workers.run(write_lineage, machine.files, settings.store_path_root_dir, lineage)
            self.lineage = lineage
        store.delete_as_copied(joined.deleted_topics)
        self._state_copy.answer_pulls(news)
        return True

    async def _wait_while_held(self) -> None:
        while self._state.settings.replication_hold:
            self._changed.clear()
            self._pieces.clear()
            await self._changed.wait()

    async def _request(self, address: str, joined: Joined, run: CopyRun, pause: Pause) -> CopyAnswer | None:
        """Request what follows the stored and the waiting pieces; return None if these must be stored first."""
        wait_ms = WAIT_MS
        if self._pieces:
            wait_ms = min(wait_ms, self._pieces.due_in_ms)
            if self._pieces.is_full:
                await pause(wait_ms)
                return None

        async def ask() -> Answer:
            return await run.ask(await self._pool.connection(address), self._request_after(joined, wait_ms))

        answer = await self.fence.ask(ask)
        if answer.code == ResponseCode.ILLEGAL_OPERATION:
            log.info("copy_begun_again", master=address, reason=answer.remark)
            return CopyAnswer(end_position=self.master_end, deletions=-1)
        if not isinstance(answer, CopyAnswer) or answer.code:
            raise BrokerAnswer(answer.code, answer.remark or "the master sends no log")
        return answer

    def _request_after(self, joined: Joined, wait_ms: int) -> CopyLog:
        """Return the request for what follows, which confirms what is stored."""
        # A piece may end in the blank at the end of a segment. Then all of the blank is here, but the master refuses a
        # slave that confirms more than it was sent.
        stored = min(self._store.max_position, self._sent_end)
        return CopyLog(
            self._state.settings.broker_id, newest(joined.epochs), self._pieces.end, stored,
            self._pieces.bytes_max, wait_ms, joined.deletions, self._changes_seen,
        )  # fmt: skip


def _foreign_deletions(own: dict[str, int], masters: dict[str, int], min_position: int) -> list[str]:
    """Return the topics of which this slave has deleted more than its master.

    It was the master, and a slave took over before it knew of the deletion. Records before `min_position` are gone.
    """
    return sorted(topic for topic, at in own.items() if at > max(masters.get(topic, -1), min_position))


def _late_deletions(news: dict[str, int], store: MessageStore) -> list[str]:
    """Return the topics whose queues must be kept in part: their deletion is unknown here, and the log is longer.

    A slave learns of a deletion before it gets what was stored later, but its note of it may be lost.
    """
    topics = store.topics()
    return sorted(topic for topic, at in news.items() if at < store.max_position and topic in topics)
