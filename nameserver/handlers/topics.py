"""Lists of topics, and how tools change routes. RocketMQ: DefaultRequestProcessor.

Behaviour: lists can be disabled (enableAllTopicList, enableTopicList). A removed write permission is restored when the
broker registers with a changed data version, and only then.
"""

from collections.abc import Callable

from staticfire.nameserver import views
from staticfire.nameserver.route_table import RouteTable
from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.routes import (
    AddPermAnswer,
    AddWritePerm,
    DeleteTopicInNameserver,
    GetTopicsByCluster,
    RegisterTopicInNameserver,
    TopicList,
    TopicListAnswer,
    TopicRouteData,
    WipeAnswer,
    WipeWritePerm,
)
from staticfire.runtime.dispatcher import Call, Handler
from staticfire.runtime.log import logger

log = logger("nameserver")


class NameserverTopicHandlers:
    """The handlers of requests from tools about topics."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state

    def by_code(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.get_all,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.get_system,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.get_by_cluster,
            RequestCode.GET_UNIT_TOPIC_LIST: self._lists(views.unit_topics),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._lists(views.unit_subscribed_topics),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._lists(views.unit_subscribed_only_topics),
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_permission,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_permission,
        }

    def get_all(self, _: Call) -> Answer:
        return self._listed(self._state.settings.enable_all_topic_list, lambda: views.all_topics(self._state.routes))

    def get_system(self, call: Call) -> Answer:
        return TopicListAnswer(body=views.system_topics(self._state.routes, self._state.advertiser(call.connection)))

    def get_by_cluster(self, call: Call) -> Answer:
        request: GetTopicsByCluster = call.request
        return self._lists(lambda routes: views.topics_of_cluster(routes, request.cluster))(call)

    def _lists(self, view: Callable[[RouteTable], TopicList]) -> Callable[[Call], Answer]:
        return lambda _: self._listed(self._state.settings.enable_topic_list, lambda: view(self._state.routes))

    def _listed(self, enabled: bool, view: Callable[[], TopicList]) -> Answer:
        return TopicListAnswer(body=view()) if enabled else refusal(ResponseCode.SYSTEM_ERROR, "disable")

    def register(self, call: Call) -> Answer:
        request: RegisterTopicInNameserver = call.request
        route: TopicRouteData = request.body or TopicRouteData()
        if not self._state.routes.add_queues(request.topic, route.queue_datas):
            log.warning("topic_ignored", topic=request.topic, reason="no queues, or a broker that isn't registered")
        return Answer()

    def delete(self, call: Call) -> Answer:
        request: DeleteTopicInNameserver = call.request
        self._state.routes.delete_topic(request.topic, request.cluster_name)
        log.info("topic_deleted", topic=request.topic, cluster=request.cluster_name)
        return Answer()

    def wipe_write_permission(self, call: Call) -> Answer:
        request: WipeWritePerm = call.request
        count = self._state.routes.wipe_write_permission(request.broker_name)
        log.info("write_permission_wiped", broker=request.broker_name, topics=count)
        return WipeAnswer(wipe_topic_count=count)

    def add_write_permission(self, call: Call) -> Answer:
        request: AddWritePerm = call.request
        count = self._state.routes.add_write_permission(request.broker_name)
        log.info("write_permission_added", broker=request.broker_name, topics=count)
        return AddPermAnswer(add_topic_count=count)
