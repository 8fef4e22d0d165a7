"""Assign the queues of a topic to the members of a group, for pulls or for pops. RocketMQ: QueryAssignmentProcessor.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks. The queues are those of the
  topic's route.
- The response to a change of the mode is sent after the mode is saved.

Different from RocketMQ
- A route is kept for one second, then requested again (RocketMQ: 30 s). A broker without a nameserver uses its own
  queues.
"""

from typing import TYPE_CHECKING

import msgspec

from staticfire.broker.config_files import MODES_FILE, ConfigFiles
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.registration import Registration
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer, NetworkError
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.permissions import readable
from staticfire.protocol.requests.assignment import (
    MODE_POP,
    MODE_PULL,
    AssignmentAnswer,
    AssignmentQuestion,
    MessageRequestMode,
    MessageRequestModesAnswer,
    QueueAssignment,
    QueueAssignments,
)
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.routes import GetRoute, QueueData, RouteAnswer
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.pool import ConnectionPool

if TYPE_CHECKING:
    from staticfire.broker.pop.request_modes import RequestModes

ROUTE_MS_MAX = 1_000
ROUTES_MAX = 1_000
# Must be shorter than the 3 s that clients wait.
ROUTE_TIMEOUT_MS = 2_000
CLUSTERING, BROADCASTING = "CLUSTERING", "BROADCASTING"


class AssignmentHandlers:
    """Handles requests for assignments and for the mode (pull or pop) of a group."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        config_files: ConfigFiles,
        registration: Registration,
        pool: ConnectionPool,
    ) -> None:
        self._state = state
        self._topics = topics
        self._groups = groups
        self._config_files = config_files
        self._registration = registration
        self._pool = pool
        self._modes: RequestModes | None = None
        self._routes: dict[str, tuple[int, list[QueueData]]] = {}

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.QUERY_ASSIGNMENT, self.query)
        dispatcher.handle(RequestCode.SET_MESSAGE_REQUEST_MODE, self.set_mode)
        dispatcher.handle(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, self.all_modes)

    def restore(self) -> None:
        """Read the saved modes, if there is a file of them. Raises: StorageError (the file can't be read)."""
        state = self._state
        if state.machine.files.exists(f"{state.settings.store_path_root_dir}/config/{MODES_FILE}"):
            self._all()

    def _all(self) -> "RequestModes":
        modes = self._modes
        if modes is None:
            from staticfire.broker.pop.request_modes import RequestModes  # imported here: few brokers need it

            modes = self._modes = RequestModes(self._config_files)
        return modes

    # -- modes ---------------------------------------------------------------------------------------------------

    async def forget(self) -> None:
        """Forget the modes of all groups. The caller saves the change together with others."""
        self._routes.clear()
        self._all().forget()

    async def set_mode(self, call: Call) -> Answer:
        """Set whether a group pulls or pops a topic. Raises: BrokerAnswer, StorageError."""
        mode: MessageRequestMode | None = call.request.body
        if mode is None:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "the body of a request mode must have a topic and a group")
        if is_retry_topic(mode.topic):
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._topics.get(mode.topic) is None:
            raise BrokerAnswer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
        if self._groups.configs.find(mode.consumer_group or "") is None:
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        if mode.mode not in (MODE_PULL, MODE_POP):
            mode.mode = None
        await self._all().put(mode)
        return Answer()

    def packed_modes(self) -> bytes:
        """Return the modes of all groups as JSON; empty if none was ever set."""
        return b"" if self._modes is None else msgspec.json.encode(self._modes.modes)

    def take_modes(self, data: bytes) -> None:
        """Replace all modes by those of a master. Raises: msgspec.MsgspecError."""
        self._all().replace(data)

    def all_modes(self, _: Call) -> Answer:
        """Return the modes of all groups."""
        return MessageRequestModesAnswer(body=self._all().modes)

    # -- assignments ---------------------------------------------------------------------------------------------

    async def query(self, call: Call) -> Answer:
        """Return the queues of a topic that are assigned to a client. Raises: BrokerAnswer."""
        question: AssignmentQuestion | None = call.request.body
        if question is None:
            words = "the body of an assignment must have a topic and a messageModel"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        return AssignmentAnswer(body=QueueAssignments(await self._assigned(question)))

    async def _assigned(self, request: AssignmentQuestion) -> list[QueueAssignment] | None:
        from staticfire.broker.pop.assignment import Question, assigned, in_mode  # imported here: few brokers need it

        group, settings = request.consumer_group or "", self._state.settings
        mode = self._all().find(request.topic, group, settings)
        queues = await self._queues(request.topic)
        if queues is None or request.message_model not in (CLUSTERING, BROADCASTING):
            return None
        if request.message_model == BROADCASTING or not settings.server_load_balancer_enable:
            return in_mode(queues, mode.mode)
        client_ids = self._groups.consumers.client_ids(group)
        return assigned(
            queues,
            Question(
                request.client_id or "", client_ids, request.strategy_name or "", mode.mode, mode.pop_share_queue_num
            ),
        )

    async def _queues(self, topic: str) -> list[MessageQueue] | None:
        """Return the readable queues of a topic, on all brokers; None if there is no route."""
        datas = await self._route(topic)
        queues = [
            MessageQueue(topic, data.broker_name, queue_id)
            for data in datas
            if readable(data.perm)
            for queue_id in range(data.read_queue_nums)
        ]
        return queues or None

    async def _route(self, topic: str) -> list[QueueData]:
        if not self._registration.nameservers:
            config = self._topics.get(topic)
            name = self._state.settings.broker_name
            return (
                []
                if config is None
                else [QueueData(name, config.read_queue_nums, config.write_queue_nums, config.perm)]
            )
        now_ms = self._state.machine.clock.uptime_ms()
        kept_ms, kept = self._routes.get(topic, (-ROUTE_MS_MAX, []))
        if now_ms - kept_ms < ROUTE_MS_MAX:
            return kept
        for address in self._registration.nameservers:
            try:
                answer = await self._pool.ask(address, GetRoute(topic), ROUTE_TIMEOUT_MS)
            except NetworkError:
                continue
            found = answer.body.queue_datas if isinstance(answer, RouteAnswer) and answer.code == 0 else []
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[topic] = now_ms, found
            return found
        return kept
