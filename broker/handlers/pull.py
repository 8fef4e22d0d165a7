"""Messages go out. RocketMQ: PullMessageProcessor, DefaultPullMessageResultHandler.

Behaviour
- The checks of RocketMQ 5.3 in its order, with its codes and remarks; what is found is slices of the log.
- A pull that finds nothing and may wait is held; each arrival in its queue looks again. It ends with a message, at its
  deadline, or with its connection.
- The committed offset that rides along is stored on the first pass, also when the pull is then held.

Not done
- SQL92 expressions (they match everything, as RocketMQ's uncompiled ones do), slaves, broadcast offsets of proxies.
"""

from collections.abc import Callable, Iterable

from staticfire.broker.pulls.held_pulls import MISMATCH_HOLD_MS_MAX, HeldPull
from staticfire.broker.pulls.record_cache import RecordCache
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, Records, RocketmqRecords
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.permissions import readable
from staticfire.protocol.remarks import FAQ
from staticfire.protocol.requests.pull import (
    FLAG_CLASS_FILTER,
    FLAG_COMMIT_OFFSET,
    FLAG_SUBSCRIPTION,
    FLAG_SUSPEND,
    ForbiddenAnswer,
    PullAnswer,
    PullMessage,
)
from staticfire.protocol.tags import TagExpression, TagExpressionError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Call, Connection, Dispatcher, failure

Wanted = Callable[[int], bool] | None

FORBIDDEN_BROKER, FORBIDDEN_GROUP, FORBIDDEN_TOPIC, FORBIDDEN_BROADCAST, FORBIDDEN_SUBSCRIPTION = 1, 2, 3, 4, 5

_FOUND = int(ResponseCode.SUCCESS)
_NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
_RETRY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)
_CODES = {
    ReadStatus.FOUND: _FOUND,
    ReadStatus.NO_MATCHED_MESSAGE: _RETRY,
    ReadStatus.MESSAGE_WAS_REMOVING: _RETRY,
    ReadStatus.OFFSET_FOUND_NULL: _NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: _NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: _MOVED,
    ReadStatus.OFFSET_TOO_SMALL: _MOVED,
}
EXPRESSIONS_MAX = 10_000


class Forbidden(BrokerAnswer):
    """A pull that isn't allowed, with RocketMQ's forbiddenType."""

    def __init__(self, kind: int, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.kind = kind


class PullHandlers:
    """Answers pulls, now or when a message comes."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._store = state.store
        self._kept = RecordCache(state.store.log)
        self._uptime_ms = state.machine.clock.uptime_ms
        self._topics = state.topics.topics
        self._groups = state.groups.groups
        self._expressions: dict[str, TagExpression] = {}

    def register(self, dispatcher: Dispatcher) -> None:
        """File the handlers."""
        dispatcher.handle(RequestCode.PULL_MESSAGE, self.pull)
        dispatcher.handle(RequestCode.LITE_PULL_MESSAGE, self.pull)

    def pull(self, call: Call) -> Answer | None:
        """Answer a pull, or hold it."""
        request: PullMessage = call.request
        try:
            wanted = self._check(call, request)
        except Forbidden as error:
            return ForbiddenAnswer(forbidden_type=error.kind, code=error.code, remark=error.remark)
        state = self._state
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        reset = state.offsets.take_reset(group, topic, queue_id)
        queue = self._store.queue(topic, queue_id)
        if reset is not None and state.settings.use_server_side_reset_offset:
            answer = self._moved(queue, reset)
        else:
            many = call.codec.number == NATIVE
            found = self._store.read(queue, request.queue_offset, request.max_msg_nums, wanted=wanted, many=many)
            answer = self._answer(call, found, request.queue_offset)
            self._watch(request, found)
            if answer.code == _NOT_FOUND and request.sys_flag & FLAG_SUSPEND and self._hold(call, request):
                self._note(request, answer.next_begin_offset, first=True)
                return None
        self._note(request, answer.next_begin_offset, first=True)
        return answer

    def _watch(self, request: PullMessage, found: ReadResult) -> None:
        """Tell the rest watch what a pull was given, or that it found nothing up to the queue's end."""
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        quiescence = self._state.quiescence
        if found.status is ReadStatus.FOUND:
            quiescence.delivered(group, topic, queue_id, found.first_offset, found.end_offset)
            self._state.statistics.delivered(group, topic, len(found.positions), found.record_bytes)
        if found.next_offset >= found.max_offset and found.status is not ReadStatus.FOUND:
            quiescence.asked_in_vain(group, topic, queue_id, found.next_offset)

    def _note(self, request: PullMessage, next_offset: int, first: bool) -> None:
        """Store what a pull tells of its group's progress."""
        offsets = self._state.offsets
        offsets.pulled(request.consumer_group, request.topic, request.queue_id, next_offset)
        if first and request.sys_flag & FLAG_COMMIT_OFFSET:
            offsets.commit(request.consumer_group, request.topic, request.queue_id, request.commit_offset)

    # -- checks --------------------------------------------------------------------------------------------------

    def _check(self, call: Call, request: PullMessage) -> Wanted:
        """Return which tags are wanted, None for all. Raises: BrokerAnswer, Forbidden."""
        state = self._state
        name = request.consumer_group
        if not state.readable:
            raise Forbidden(
                FORBIDDEN_BROKER, f"the broker[{state.machine.identity.host_ip}] pulling message is forbidden"
            )
        group = self._groups.get(name) or state.groups.find(name)
        if group is None:
            remark = f"subscription group [{name}] does not exist, {FAQ}"
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            raise Forbidden(FORBIDDEN_GROUP, f"subscription group no permission, {name}")
        topic = self._topics.get(request.topic)
        if topic is None:
            raise BrokerAnswer(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist, apply first please! {FAQ}"
            )
        if not readable(topic.perm):
            raise Forbidden(FORBIDDEN_TOPIC, f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            remark = (
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{call.peer.address}]"
            )
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, remark)
        if request.sys_flag & FLAG_CLASS_FILTER:
            words = "class filter mode is not supported: filter by tags or by SQL92 over properties"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        if request.sys_flag & FLAG_SUBSCRIPTION:
            kind = request.expression_type or "TAG"
            return self._wanted(request.subscription or "*") if kind == "TAG" else None
        return self._wanted_by_heartbeat(request)

    def _wanted_by_heartbeat(self, request: PullMessage) -> Wanted:
        """Use what the group subscribed to in its heartbeats. Raises: BrokerAnswer, Forbidden."""
        name = request.consumer_group
        online = self._state.consumers.consumer_table.get(name)
        if online is None:
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
        group = self._groups[name]
        if online.message_model == "BROADCASTING" and not group.consume_broadcast_enable:
            raise Forbidden(FORBIDDEN_BROADCAST, f"the consumer group[{name}] can not consume by broadcast way")
        if not self._state.groups.may_read(name, request.topic):
            words = f"the consumer group[{name}] is forbidden for topic[{request.topic}]"
            raise Forbidden(FORBIDDEN_SUBSCRIPTION, words)
        subscription = online.subscriptions.get(request.topic)
        if subscription is None:
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
        if subscription.sub_version < request.sub_version:
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return self._wanted(subscription.sub_string) if subscription.expression_type == "TAG" else None

    def _wanted(self, text: str) -> Wanted:
        """Return the test of a tag expression, None for all. Raises: BrokerAnswer."""
        if text == "*":
            return None
        expression = self._expressions.get(text)
        if expression is None:
            try:
                expression = TagExpression.parse(text)
            except TagExpressionError:
                words = "parse the consumer's subscription failed"
                raise BrokerAnswer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, words) from None
            if len(self._expressions) >= EXPRESSIONS_MAX:
                self._expressions.clear()
            self._expressions[text] = expression
        return None if expression.all_tags else expression.matches_code

    # -- answers -------------------------------------------------------------------------------------------------

    def _answer(self, call: Call, found: ReadResult, asked_offset: int) -> PullAnswer:
        """Return the answer with what was found. Raises: StorageError, OSError, ProtocolError."""
        status = found.status
        code = _CODES.get(status)
        if code is None:
            code = _NOT_FOUND if asked_offset == 0 else _MOVED
        body: Records | RocketmqRecords | None = None
        if code == _FOUND and call.codec.number == NATIVE:
            body = Records(self._store.records(found), len(found.positions))
        elif code == _FOUND:
            body = RocketmqRecords(self._kept.records(found.positions, found.sizes, call.connection.store_host))
        return PullAnswer(
            0,
            found.next_offset,
            found.min_offset,
            found.max_offset,
            None,
            0,
            0,
            code=code,
            remark=status.value,
            body=body,
        )

    def _moved(self, queue: Queue, offset: int) -> PullAnswer:
        return PullAnswer(0, offset, queue.min_offset, queue.max_offset, None, 0, 0, code=_MOVED, remark="OFFSET_RESET")

    # -- waiting -------------------------------------------------------------------------------------------------

    def _hold(self, call: Call, request: PullMessage) -> bool:
        settings = self._state.settings
        asked_ms = request.suspend_timeout_millis if settings.long_polling_enable else settings.short_polling_time_mills
        hold_ms = min(max(0, asked_ms), settings.hold_ms_max)
        deadline_ms = UptimeMs(self._uptime_ms() + hold_ms)
        pull = HeldPull(call, request.topic, request.queue_id, request.queue_offset, deadline_ms)
        return hold_ms > 0 and self._state.held.hold(pull)

    def arrived(self, queues: Iterable[Queue]) -> None:
        """Look again at the pulls held on queues that got messages."""
        if not self._state.settings.long_polling_enable:
            return
        held = self._state.held
        woken: dict[Connection, None] = {}
        for queue in queues:
            for pull in held.take(queue.topic, queue.queue_id):
                connection = pull.call.connection
                if pull.offset < queue.max_offset and connection.is_open:
                    woken[connection] = None
                    self._look_again(pull, queue)
                elif connection.is_open:
                    held.hold(pull)
        # These leave before the answers to those who sent: the way to a listener is the longer one.
        for connection in woken:
            connection.flush()

    def _look_again(self, pull: HeldPull, queue: Queue) -> None:
        try:
            self._look(pull, queue)
        except (BrokerAnswer, ProtocolError, StorageError, OSError) as error:
            pull.call.answer(failure(error, pull.call))

    def _look(self, pull: HeldPull, queue: Queue) -> None:
        """Answer a held pull, or hold it on. Raises: BrokerAnswer, ProtocolError, StorageError, OSError."""
        request: PullMessage = pull.call.request
        wanted = self._check(pull.call, request)
        found = self._store.read(queue, pull.offset, request.max_msg_nums, wanted=wanted)
        if found.status is ReadStatus.NO_MATCHED_MESSAGE:
            # Other tags: wait on behind them, but not for long.
            latest_ms = UptimeMs(self._uptime_ms() + MISMATCH_HOLD_MS_MAX)
            pull.offset = found.next_offset
            pull.deadline_ms = min(pull.deadline_ms, latest_ms)
            if self._state.held.hold(pull):
                self._watch(request, found)
                return
        self._finish(pull, found)

    def expire(self, uptime_ms: UptimeMs) -> None:
        """Answer the pulls whose time is over."""
        for pull in self._state.held.expire(uptime_ms):
            self.look_last(pull)

    def look_last(self, pull: HeldPull) -> None:
        """Answer a pull with whatever there is now: all checks are made again."""
        try:
            self._finish_now(pull)
        except (BrokerAnswer, ProtocolError, StorageError, OSError) as error:
            pull.call.answer(failure(error, pull.call))

    def _finish_now(self, pull: HeldPull) -> None:
        """Answer a held pull. Raises: BrokerAnswer, ProtocolError, StorageError, OSError."""
        request: PullMessage = pull.call.request
        wanted = self._check(pull.call, request)
        queue = self._store.queue(pull.topic, pull.queue_id)
        reset = self._state.offsets.take_reset(request.consumer_group, pull.topic, pull.queue_id)
        if reset is not None and self._state.settings.use_server_side_reset_offset:
            pull.call.answer(self._moved(queue, reset))
            return
        self._finish(pull, self._store.read(queue, pull.offset, request.max_msg_nums, wanted=wanted))

    def _finish(self, pull: HeldPull, found: ReadResult) -> None:
        request: PullMessage = pull.call.request
        answer = self._answer(pull.call, found, pull.offset)
        self._watch(request, found)
        if answer.code == _NOT_FOUND and pull.offset > request.queue_offset:
            answer.code, answer.remark = _RETRY, ReadStatus.NO_MATCHED_MESSAGE.value
        self._note(request, answer.next_begin_offset, first=False)
        pull.call.answer(answer)
