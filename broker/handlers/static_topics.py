"""Static topics are created, and their logical queues mapped anew. RocketMQ: updateAndCreateStaticTopic.

Behaviour
- The mapping and the topic's queues are changed together, or neither is: see static_topics/acceptance.py.
- It is answered when both are saved, and when the nameservers know of them.

Not done
- Stretches whose messages were all removed stay in the mapping (RocketMQ: TopicQueueMappingCleanService). Readers pass
  over them.
- Pops, and the assignment of queues by brokers, are about a broker's own queues, as in RocketMQ.
"""

from staticfire.broker.handlers.topics import TopicHandlers
from staticfire.broker.registration import Registration
from staticfire.broker.state import BrokerState
from staticfire.broker.static_topics.acceptance import accepted, check_target
from staticfire.broker.static_topics.table import FILE as MAPPINGS_FILE
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.static_topics import MappingDetail, UpdateStaticTopic
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.runtime.dispatcher import Call, Dispatcher


class StaticTopicHandlers:
    """Administers static topics."""

    def __init__(self, state: BrokerState, registration: Registration, topics: TopicHandlers) -> None:
        self._state = state
        self._registration = registration
        self._topics = topics

    def register(self, dispatcher: Dispatcher) -> None:
        """File the handler."""
        dispatcher.handle(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, self.update)

    async def update(self, call: Call) -> Answer:
        """Create a static topic, or map its logical queues anew. Raises: BrokerAnswer, StorageError."""
        request: UpdateStaticTopic = call.request
        detail: MappingDetail | None = request.body
        if detail is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "a static topic needs a body with its mapping (hostedQueues)")
        state = self._state
        wanted = TopicConfig(
            request.topic, request.read_queue_nums, request.write_queue_nums, request.perm,
            request.topic_filter_type or "SINGLE_TAG", request.topic_sys_flag or 0, request.order,
        )  # fmt: skip
        config = self._topics.checked(wanted, request.attributes)
        check_target(detail, request.topic, state.settings.broker_name, config)
        mapping = accepted(state.static_topics.by_topic.get(request.topic), detail, bool(request.force))
        has_moved = state.static_topics.put(mapping)
        has_changed = state.topics.put(config)
        if has_moved and not has_changed:
            state.topics.register_anew(config)
        if has_moved or has_changed:
            await state.config_files.saved("topics.json", MAPPINGS_FILE)
            await self._registration.announced()
        return Answer()
