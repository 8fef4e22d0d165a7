"""Take messages back from a consumer, for a retry or as dead letters. RocketMQ: consumerSendMsgBack.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks.
- The new message waits at its delay level and then goes to the group's retry topic. It keeps everything of the old one.
  The response is sent after it is stored.
- If a group has no retries (retryQueueNums 0), nothing is stored and the response is success.
- The retry queue is chosen at random among those that the retry topic has, even if the group's setting is higher.

Not done
- Slaves don't pass requests on to their master: they refuse them.
"""

import msgspec

from staticfire.broker.groups.dead_letters import DeadLetters
from staticfire.broker.groups.retries import SentBack, level_after_failure, reconsume_times_max
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.sends.intake import Intake
from staticfire.broker.state import BrokerState
from staticfire.broker.statistics import Statistics
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import OnStored, PutOutcome
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.message_ids import offset_id
from staticfire.protocol.names import fits_store, retry_topic
from staticfire.protocol.permissions import writable
from staticfire.protocol.properties import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, WAIT, find_property, with_property
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.protocol.remarks import FAQ
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.protocol.requests.send_back import SendBack
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.tags import tags_code
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.log import logger

log = logger("broker")

_STATUS = {
    PutOutcome.STORED: "SUCCESS",
    PutOutcome.FLUSH_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    PutOutcome.COPY_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    PutOutcome.FAILED: "SERVICE_NOT_AVAILABLE",
}


class SendBackHandlers:
    """Handles messages that consumers send back."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        statistics: Statistics,
        intake: Intake,
        dead_letters: DeadLetters,
    ) -> None:
        self._state = state
        self._topics = topics
        self._groups = groups
        self._statistics = statistics
        self._intake = intake
        self._dead_letters = dead_letters

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.CONSUMER_SEND_MSG_BACK, self.send_back)

    def send_back(self, call: Call) -> Answer | None:
        """Store a message again, for a retry or as a dead letter."""
        request: SendBack = call.request
        group = self._check_group(request)
        if group.retry_queue_nums <= 0:
            return Answer()
        retry = self._retry_topic(request, group)
        record = self._look_up(request.offset)
        times_max = reconsume_times_max(group, request.max_reconsume_times, call.peer.version)
        level = level_after_failure(record.reconsume_times, times_max, request.delay_level)
        sent_back = SentBack(
            request.group, record.topic, record.queue_id, record.queue_offset, record.log_position,
            request.origin_msg_id or "", request.origin_topic or "", record.reconsume_times + 1, level,
            call.peer.address, "SUCCESS", call.connection.client_id or "",
        )  # fmt: skip
        queue = self._retry_queue(group, retry) if level is not None else self._dead_letters.queue_of(request.group)
        self._put(call, record, queue, sent_back)
        return None

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_group(self, request: SendBack) -> SubscriptionGroupConfig:
        state = self._state
        ip = state.machine.identity.host_ip
        if state.settings.broker_id != 0:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"no master available along with {ip}")
        group = self._groups.configs.find(request.group)
        if group is None:
            remark = f"subscription group not exist, {request.group} {FAQ}"
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not state.writable:
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, f"the broker[{ip}] sending message is forbidden")
        return group

    def _retry_topic(self, request: SendBack, group: SubscriptionGroupConfig) -> TopicConfig:
        name = retry_topic(request.group)
        if not fits_store(name):
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "MESSAGE_ILLEGAL")
        topic = self._topics.create_for_group(name, group.retry_queue_nums, unit_mode=request.unit_mode)
        if not writable(topic.perm):
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
        return topic

    def _retry_queue(self, group: SubscriptionGroupConfig, retry: TopicConfig) -> Queue:
        queues = min(group.retry_queue_nums, retry.read_queue_nums)
        queue_id = self._state.machine.identity.random.randrange(queues) if queues > 1 else 0
        return self._state.store.queue(retry.topic_name, queue_id)

    def _look_up(self, log_position: int) -> StoredRecord:
        try:
            record = self._state.store.record_at(log_position)
            if record is not None:
                return decode_record(record)
        except (OSError, StorageError, ProtocolError) as error:
            log.error("record_unreadable", log_position=log_position, error=str(error))
        raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {log_position}")

    # -- the new message -----------------------------------------------------------------------------------------

    def _put(self, call: Call, old: StoredRecord, queue: Queue, sent_back: SentBack) -> None:
        properties = self._properties(call, old, sent_back.delay_level)
        record = NewRecord(
            queue, properties, tags_code(properties), old.body, old.born_ms, old.born_host, old.sys_flag, old.flag,
            sent_back.reconsume_times,
        )  # fmt: skip
        on_stored: OnStored = self._stored
        if sent_back.delay_level is None:
            on_stored = self._dead_letters.counted(sent_back.group, properties, on_stored)
        try:
            self._intake.put(record, on_stored, (call, sent_back))
        except (StorageError, ProtocolError) as error:
            log.error("send_back_failed", group=sent_back.group, topic=queue.topic, error=str(error))
            is_message = isinstance(error, ProtocolError)  # The reason is the message, so another try fails, too.
            self._finish(call, sent_back, str(error) if is_message else "SERVICE_NOT_AVAILABLE")
        except BrokerAnswer as error:
            self._finish(call, sent_back, error.remark or ResponseCode(error.code).name)

    def _properties(self, call: Call, record: StoredRecord, level: int | None) -> bytes:
        """Return the old properties with the origin and the delay level. The new message doesn't wait for the disk."""
        properties = record.properties
        if find_property(properties, RETRY_TOPIC) is None:
            properties = with_property(properties, RETRY_TOPIC, record.topic)
        if find_property(properties, ORIGIN_MESSAGE_ID) is None:
            first_id = offset_id(call.connection.store_id_prefix, record.log_position)
            properties = with_property(properties, ORIGIN_MESSAGE_ID, first_id)
        properties = with_property(properties, WAIT, "false")
        return with_property(properties, DELAY, b"%d" % (level or 0))

    def _stored(
        self, context: tuple[Call, SentBack], _queue_offset: int, _log_position: int, outcome: PutOutcome
    ) -> None:
        call, sent_back = context
        self._finish(call, sent_back, _STATUS[outcome])

    def _finish(self, call: Call, sent_back: SentBack, status: str) -> None:
        if status == "SUCCESS":
            group, topic = sent_back.group, sent_back.topic
            self._groups.progress.sent_back(group, topic, sent_back.queue_id, sent_back.queue_offset)
            self._groups.retries.sent_back(sent_back)
            self._statistics.sent_back(group, topic, is_dead=sent_back.delay_level is None)
            call.answer(Answer())
        else:
            self._groups.retries.sent_back(msgspec.structs.replace(sent_back, status=status))
            call.answer(refusal(ResponseCode.SYSTEM_ERROR, status))
