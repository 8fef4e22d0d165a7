"""Pull messages. RocketMQ: PullMessageProcessor, DefaultPullMessageResultHandler.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks. Records in a response are
  slices of the log.
- A pull that finds nothing and may wait is held. It is tried again when a message arrives in its queue, or when a
  heartbeat changes the group's subscription. It ends with a message, at its deadline, or with its connection.
  pulls/decision.py decides what follows from the result of a try.
- The commit offset in a pull is stored at the first try, even if the pull is then held.

- A group that is far behind is advised to read from a slave (suggestWhichBrokerId), with slaveReadEnable.

Not done
- Broadcast offsets of proxies.

Different from RocketMQ
- A pull with a condition that can't be parsed is refused; RocketMQ returns every message to it.
"""

from collections.abc import Iterable
from functools import partial

from staticfire.broker.groups.late_commits import LateCommits
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pulls.checks import Forbidden, PullChecks
from staticfire.broker.pulls.choosing import Choice
from staticfire.broker.pulls.decision import FOUND, Occasion, Outcome, decide, most, moved
from staticfire.broker.pulls.deliveries import Deliveries
from staticfire.broker.pulls.held_pulls import HeldPull, HeldPulls
from staticfire.broker.pulls.record_cache import RecordCache
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Records
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET, FLAG_SUBSCRIPTION, ForbiddenAnswer, PullMessage
from staticfire.protocol.requests.replication import SLAVE
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher, failure
from staticfire.runtime.service import Alarm

# Held pulls that expire within this time are answered together.
EXPIRY_STEP_MS = 250
_CAME, _WOKEN, _LAST = Occasion.CAME, Occasion.WOKEN, Occasion.LAST


class PullHandlers:
    """Handles pulls, at once or when a message arrives."""

    def __init__(
        self,
        state: BrokerState,
        checks: PullChecks,
        groups: GroupTables,
        late_commits: LateCommits,
        held: HeldPulls,
        deliveries: Deliveries,
    ) -> None:
        self._state = state
        self._store = state.store
        self._wanted = checks.wanted
        self._groups = groups
        self._late_commits = late_commits
        self._held = held
        self._deliveries = deliveries
        self._kept = RecordCache(state.store)
        self._uptime_ms = state.machine.clock.uptime_ms
        self._memory_bytes = state.machine.identity.memory_bytes
        self._expiry = Alarm(state.machine.clock, EXPIRY_STEP_MS)
        self._began_ms = self._uptime_ms()
        """When the current try began."""

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.PULL_MESSAGE, self.pull)
        dispatcher.handle(RequestCode.LITE_PULL_MESSAGE, self.pull)

    def pull(self, call: Call) -> Answer | None:
        """Answer a pull, or hold it until a message arrives."""
        request: PullMessage = call.request
        try:
            outcome = self._look(call, request.queue_offset, _CAME)
        except Forbidden as error:
            return _forbidden(error)
        # This check must come before the pull makes its client the owner of the queue: the offset that comes with the
        # pull is from the time before.
        commits = request.sys_flag & FLAG_COMMIT_OFFSET and not self._is_late(call)
        answer = None if outcome.hold_ms and self._hold(call, outcome) else self._filled(call, outcome, True)
        self._pulled(request, outcome)
        self._groups.first_offsets.pulled(call.connection, request)
        if commits:
            self._commit(request)
        return answer

    def _is_late(self, call: Call) -> bool:
        request: PullMessage = call.request
        group, topic, queue_id, offset = (
            request.consumer_group, request.topic, request.queue_id, request.commit_offset,
        )  # fmt: skip
        return self._late_commits.is_late(call.connection, group, topic, queue_id, offset)

    def _commit(self, request: PullMessage) -> None:
        """Store the offset that comes with the pull, unless a reset is pending: the offset is older than the reset."""
        offsets, settings = self._groups.offsets, self._state.settings
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        if settings.any_pull_takes_resets or not offsets.has_reset(group, topic, queue_id):
            offsets.commit(group, topic, queue_id, request.commit_offset)

    def _look(self, call: Call, offset: int, occasion: Occasion) -> Outcome:
        """Try a pull and return the outcome. Raises: BrokerAnswer, Forbidden (the checks), StorageError."""
        self._began_ms = self._uptime_ms()
        state, request = self._state, call.request
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        wanted = self._wanted(request, call.connection)
        reset = None
        if self._groups.offsets.has_reset(group, topic, queue_id):
            reset = self._reset_for(call, occasion)
        queue = self._store.queue(topic, queue_id)
        if reset is not None:
            return moved(queue, reset)
        messages_max, bytes_max = most(request.max_msg_nums, call.codec.number == NATIVE, state.settings)
        if isinstance(wanted, Choice):
            found = wanted.read(self._store, queue, offset, messages_max, bytes_max)
        else:
            found = self._store.read(queue, offset, messages_max, bytes_max, wanted)
        if found.status is not ReadStatus.FOUND:
            self._deliveries.found_nothing()
        outcome = decide(found, request, offset, occasion, state.settings)
        if state.settings.slave_read_enable:
            outcome.answer.suggest_which_broker_id = self._suggested(group, found)
        return outcome

    def _suggested(self, group: str, found: ReadResult) -> int:
        """Return the id of the broker that a group should read from next: a slave if it is far behind."""
        config = self._groups.configs.groups.get(group)
        if config is None:
            return 0
        if found.status is ReadStatus.FOUND and found.positions:
            settings = self._state.settings
            # A slave keeps a part of its memory for the copy. RocketMQ: BrokerStartup.
            ratio = settings.access_message_in_memory_max_ratio - (10 if settings.broker_role == SLAVE else 0)
            behind_max = self._memory_bytes * max(0, ratio) // 100
            if self._store.max_position - found.positions[-1] > behind_max:
                return config.which_broker_when_consume_slowly
        return config.broker_id

    def _reset_for(self, call: Call, occasion: Occasion) -> int | None:
        """Return the offset of a pending reset that the pull must be answered with; None if there is none."""
        state, request = self._state, call.request
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        settings, offsets = state.settings, self._groups.offsets
        if settings.any_pull_takes_resets or not settings.use_server_side_reset_offset:
            reset = offsets.take_reset(group, topic, queue_id)
            return reset if settings.use_server_side_reset_offset else None
        online = self._groups.consumers.consumer_table.get(group)
        if online is not None and call.connection not in online.channel_info_table:
            return None  # This client reads independently of the group; the reset is for the members.
        return offsets.answer_reset(request, call.connection, may_end=occasion is _CAME)

    def _filled(self, call: Call, outcome: Outcome, has_come: bool) -> Answer:
        """Return the response with its messages, and count them as delivered. Raises: StorageError, OSError.

        `has_come`: whether the pull arrived just now; False if it was held before.
        """
        answer, found = outcome.answer, outcome.found
        if found is None:
            return answer
        if answer.code == FOUND:
            if call.codec.number == NATIVE:
                answer.body = Records(self._store.records(found), len(found.positions))
            else:
                queue = call.request.topic, call.request.queue_id
                answer.body = self._kept.records(queue, found, call.connection.store_host)
        self._deliveries.note(call, found, has_come, self._began_ms)
        return answer

    def _pulled(self, request: PullMessage, outcome: Outcome) -> None:
        """Remember the offset from which the group pulls next."""
        next_offset = outcome.answer.next_begin_offset
        self._groups.offsets.pulled(request.consumer_group, request.topic, request.queue_id, next_offset)

    # -- waiting -------------------------------------------------------------------------------------------------

    def _hold(self, call: Call, outcome: Outcome) -> bool:
        """Hold a pull that found nothing; return False if too many are held already."""
        request, found = call.request, outcome.found
        assert found is not None
        deadline_ms = UptimeMs(self._uptime_ms() + outcome.hold_ms)
        if not self._held.hold(HeldPull(call, request.topic, request.queue_id, request.queue_offset, deadline_ms)):
            return False
        self._expiry.ring_by(deadline_ms)
        self._deliveries.note(call, found, True, self._began_ms)
        return True

    def arrived(self, queues: Iterable[Queue]) -> None:
        """Try the held pulls of these queues again: messages have arrived."""
        held = self._held
        if not held.count or not self._state.settings.long_polling_enable:
            return
        woken: dict[Connection, None] = {}
        for queue in queues:
            for pull in held.take(queue.topic, queue.queue_id):
                connection = pull.call.connection
                if pull.offset < queue.max_offset and connection.is_open:
                    woken[connection] = None
                    self._look_again(pull, _WOKEN)
                elif connection.is_open:
                    held.hold(pull)
        # These responses are sent before the responses to the producers, because the path to a listener is longer.
        for connection in woken:
            connection.flush()

    def look_anew(self, group: str, topics: Iterable[str]) -> None:
        """Try the held pulls of a group again, because it wants other messages of these topics now.

        Each starts from its original offset again: the group may want messages that the pull has skipped since then.
        """
        held = self._held
        for topic in topics:
            for pull in held.take_topic(topic):
                request: PullMessage = pull.call.request
                if request.consumer_group != group or request.sys_flag & FLAG_SUBSCRIPTION:
                    held.hold(pull)
                elif pull.call.connection.is_open:
                    pull.offset = request.queue_offset
                    self._look_again(pull, _WOKEN)

    async def expiry_loop(self) -> None:
        """Loop: answer the held pulls at their deadlines."""
        while True:
            await self._expiry.wait()
            self.expire(self._uptime_ms())

    def expire(self, uptime_ms: UptimeMs) -> None:
        """Answer the held pulls whose deadline has passed."""
        held = self._held
        for pull in held.expire(uptime_ms):
            self._look_last(pull)
        if held.next_deadline_ms is not None:
            self._expiry.ring_by(held.next_deadline_ms)

    def disconnected(self) -> None:
        """Drop the held pulls of closed connections soon. One pass handles all connections that close until then."""
        if self._held.count:
            self._expiry.ring_by(self._uptime_ms())

    def _look_last(self, pull: HeldPull) -> None:
        """Try a pull the last time, with all checks, and answer it with the result. Skip it if its client is gone."""
        if pull.call.connection.is_open:
            self._look_again(pull, _LAST)

    def answer_held(self) -> None:
        """Respond to all held pulls."""
        for pull in self._held.take_all():
            self._look_last(pull)

    def answer_topic(self, topic: str) -> None:
        """Respond to the held pulls of a topic that was deleted."""
        for pull in self._held.take_topic(topic):
            self._look_last(pull)

    def answer_group(self, group: str, topic: str, queue_id: int) -> None:
        """Respond to the held pulls of a group in a queue."""
        for pull in self._held.take_group(group, topic, queue_id):
            self._look_last(pull)

    def _look_again(self, pull: HeldPull, occasion: Occasion) -> None:
        """Try a held pull again: answer it or hold it again. If the peer reads too slowly, do so when it has caught
        up."""
        call = pull.call
        if not call.connection.takes_answers:
            call.connection.when_taken(partial(self._look_again, pull, occasion))
            return
        try:
            outcome = self._look(call, pull.offset, occasion)
            if outcome.hold_ms and self._hold_on(pull, outcome):
                return
            answer = self._filled(call, outcome, False)
            self._pulled(call.request, outcome)
        except Forbidden as error:
            answer = _forbidden(error)
        except (BrokerAnswer, ProtocolError, StorageError, OSError) as error:
            answer = failure(error, call)
        call.answer(answer)

    def _hold_on(self, pull: HeldPull, outcome: Outcome) -> bool:
        """Hold a pull again, after the messages that it didn't want; return False if too many are held already."""
        found = outcome.found
        assert found is not None
        pull.offset = found.next_offset
        pull.deadline_ms = min(pull.deadline_ms, UptimeMs(self._uptime_ms() + outcome.hold_ms))
        if not self._held.hold(pull):
            return False
        self._expiry.ring_by(pull.deadline_ms)
        self._deliveries.note(pull.call, found, False, self._began_ms)
        return True


def _forbidden(error: Forbidden) -> Answer:
    return ForbiddenAnswer(forbidden_type=error.kind, code=error.code, remark=error.remark)
