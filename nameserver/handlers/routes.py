"""Where topics are, and which brokers exist. RocketMQ: ClientRequestProcessor, DefaultRequestProcessor.

Behaviour: bodies are standard JSON for clients from 4.9.4 on, or if a client requests it. Older clients get the broker
ids as unquoted keys, as they expect. Addresses are those at which the requesting client reaches the brokers.
"""

from staticfire.nameserver import views
from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, StandardJson, refusal
from staticfire.protocol.remarks import FAQ
from staticfire.protocol.requests.brokers import GetMemberGroup, MemberGroupAnswer, MemberGroupBody
from staticfire.protocol.requests.routes import ORDER_TOPIC_CONFIG, ClusterInfoAnswer, GetRoute, RouteAnswer
from staticfire.runtime.dispatcher import Call, Handler

# RocketMQ's version constant V4_9_4.
STANDARD_JSON_VERSION = 401


class RouteHandlers:
    """The handlers of requests for topics and brokers."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state

    def by_code(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.get_route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.get_cluster_info,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.get_member_group,
        }

    def get_route(self, call: Call) -> Answer:
        request: GetRoute = call.request
        state = self._state
        if self._waits_for_service():
            return refusal(ResponseCode.SYSTEM_ERROR, "name server not ready")
        advertise = state.advertiser(call.connection)
        route = views.topic_route(state.routes, request.topic, advertise, state.settings.support_acting_master)
        if route is None:
            words = f"No topic route info in name server for the topic: {request.topic}{FAQ}"
            return refusal(ResponseCode.TOPIC_NOT_EXIST, words)
        if state.settings.order_message_enable:
            route.order_topic_conf = state.kv.get(ORDER_TOPIC_CONFIG, request.topic)
        is_standard = request.accept_standard_json_only or call.peer.version >= STANDARD_JSON_VERSION
        return RouteAnswer(body=StandardJson(route) if is_standard else route)

    def _waits_for_service(self) -> bool:
        settings = self._state.settings
        up_ms = self._state.machine.clock.uptime_ms() - self._state.started_ms
        return settings.need_wait_for_service and up_ms < settings.wait_seconds_for_service * 1000

    def get_cluster_info(self, call: Call) -> Answer:
        return ClusterInfoAnswer(body=views.cluster_info(self._state.routes, self._state.advertiser(call.connection)))

    def get_member_group(self, call: Call) -> Answer:
        request: GetMemberGroup = call.request
        advertise = self._state.advertiser(call.connection)
        group = views.member_group(self._state.routes, request.cluster_name, request.broker_name, advertise)
        return MemberGroupAnswer(body=MemberGroupBody(group))
