"""The permission table: what a client must be permitted for each request that a broker handles. Pure.

RocketMQ has the same table as annotations of its request headers (RocketMQAction, RocketMQResource), and in
DefaultAuthorizationContextBuilder. A user needs one of the actions of each need. The topic `%RETRY%billing` counts as
the group billing; `%DLQ%billing` is a topic of that name. Requests in OPEN need only a valid signature, also those that
create groups: this is RocketMQ's rule. So do changes of settings, except for those of access.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from staticfire.broker.access.policies import CREATE, DELETE, GET, PUB, SUB, UPDATE
from staticfire.broker.access.resources import CLUSTER, GROUP, TOPIC, Resource
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codes import RequestCode as Code
from staticfire.protocol.java_properties import read_properties
from staticfire.protocol.names import RETRY_PREFIX
from staticfire.runtime.config import field_of


class Need(NamedTuple):
    """One resource that a request is about, and the actions of which one must be permitted."""

    resource: Resource
    actions: frozenset[str]


Needs = Callable[[Any, str], Iterator[Need]]
"""Yields what a request needs, in the order in which it is checked. The text is the name of the cluster."""

ACCESS_SETTINGS = frozenset(
    {
        "authentication_enabled",
        "authentication_whitelist",
        "authorization_enabled",
        "authorization_whitelist",
        "old_acl_answers",
    }
)
"""Settings that decide what is checked. RocketMQ accepts them from any user, but doesn't apply them while it runs."""
_ANY_OF: dict[tuple[str, ...], frozenset[str]] = {}


def _one_of(*actions: str) -> frozenset[str]:
    return _ANY_OF.setdefault(actions, frozenset(actions))


def topic(name: str, *actions: str) -> Need:
    """Return the need of a topic."""
    return Need(Resource(TOPIC, name), _one_of(*actions))


def group(name: str, *actions: str) -> Need:
    """Return the need of a group."""
    return Need(Resource(GROUP, name), _one_of(*actions))


def group_of_retry(name: str) -> str:
    """Return the group of a retry topic, without the prefix. For other topics: "".

    A namespace is part of the group's name, as in RocketMQ: `%RETRY%MQ_INST_1%billing` is `MQ_INST_1%billing`.
    """
    return name.removeprefix(RETRY_PREFIX) if name.startswith(RETRY_PREFIX) else ""


def _cluster(*actions: str) -> Needs:
    def needs(_request: Any, cluster: str) -> Iterator[Need]:
        yield Need(Resource(CLUSTER, cluster), _one_of(*actions))

    return needs


def _of(*fields: tuple[str, str, tuple[str, ...]]) -> Needs:
    """Return the needs that follow from header fields: each is a type, the field with the name, and the actions."""

    def needs(request: Any, _cluster: str) -> Iterator[Need]:
        for kind, field, actions in fields:
            name = getattr(request, field)
            if not name:
                continue
            if kind == TOPIC and (owner := group_of_retry(name)):
                kind, name = GROUP, owner
            yield Need(Resource(kind, name), _one_of(*actions))

    return needs


def _sends(request: Any, _cluster: str) -> Iterator[Need]:
    yield send_need(request.topic, request.producer_group)


def send_need(name: str, producer_group: str) -> Need:
    """Return what a send needs. A send to a retry topic needs the right to consume as the group that it states.

    RocketMQ doesn't look at the group in the name of the topic, unless the producer group is blank.
    """
    owner = group_of_retry(name)
    return group(producer_group.strip() or owner, SUB) if owner else topic(name, PUB)


def _recall(request: Any, _cluster: str) -> Iterator[Need]:
    yield topic(request.topic, PUB)


def _send_many(request: Any, _cluster: str) -> Iterator[Need]:
    for name in dict.fromkeys(message.topic for message in request.body):
        yield send_need(name, request.producer_group)


def _consumes(request: Any, _cluster: str, has_topic_first: bool = True) -> Iterator[Need]:
    """Yield what a pull or a pop needs: its topic, unless it is a retry topic, and its group."""
    topics = [] if group_of_retry(request.topic) else [topic(request.topic, SUB)]
    groups = [group(request.consumer_group, SUB)]
    yield from (*topics, *groups) if has_topic_first else (*groups, *topics)


def _offsets(last: str, request: Any, _cluster: str) -> Iterator[Need]:
    if not group_of_retry(request.topic):
        yield topic(request.topic, SUB, last)
    yield group(request.consumer_group, SUB, last)


def _heartbeat(request: Any, _cluster: str) -> Iterator[Need]:
    for consumer in request.body.consumer_data_set:
        yield group(consumer.group_name, SUB)
        for subscription in consumer.subscription_data_set:
            if not group_of_retry(subscription.topic):
                yield topic(subscription.topic, SUB)


def _locks(request: Any, _cluster: str) -> Iterator[Need]:
    yield group(request.body.consumer_group, SUB)
    for name in dict.fromkeys(queue.topic for queue in request.body.mq_set):
        if not group_of_retry(name):
            yield topic(name, SUB)


def _settings(request: Any, cluster: str) -> Iterator[Need]:
    """Yield what a change of settings needs: nothing, as in RocketMQ, unless it changes what is checked."""
    properties = read_properties((request.body or b"").decode("utf-8", "replace"))
    if any(field_of(BrokerSettings, name) in ACCESS_SETTINGS for name in properties):
        yield Need(Resource(CLUSTER, cluster), _one_of(UPDATE))


OPEN = frozenset(
    {
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_BROKER_CONFIG,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_ALL_CONSUMER_OFFSET,
        Code.GET_ALL_DELAY_OFFSET,
        Code.CHECK_CLIENT_CONFIG,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.CLEAN_UNUSED_TOPIC,
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
        Code.DELETE_EXPIRED_COMMITLOG,
        Code.LITE_PULL_MESSAGE,
        Code.QUERY_ASSIGNMENT,
        Code.SET_MESSAGE_REQUEST_MODE,
        Code.GET_ALL_MESSAGE_REQUEST_MODE,
        Code.UPDATE_AND_CREATE_STATIC_TOPIC,
        Code.GET_BROKER_HA_STATUS,
        Code.GET_BROKER_EPOCH_CACHE,
        Code.POP_ROLLBACK,
        Code.BATCH_ACK_MESSAGE,
    }
)
"""Requests that every user may send, as in RocketMQ."""


def _nothing(_request: Any, _cluster: str) -> Iterator[Need]:
    return iter(())


_TOPIC_READ = _of((TOPIC, "topic", (GET,)))
_CHANGE, _LOOK = _cluster(UPDATE), _cluster(GET)
_POPS: Needs = partial(_consumes, has_topic_first=False)

NEEDS: dict[int, Needs] = {
    **dict.fromkeys(OPEN, _nothing),
    Code.UPDATE_BROKER_CONFIG: _settings,
    Code.SEND_MESSAGE: _sends,
    Code.SEND_MESSAGE_V2: _sends,
    Code.SEND_BATCH_MESSAGE: _sends,
    Code.RECALL_MESSAGE: _recall,
    Code.PULL_MESSAGE: _consumes,
    Code.QUERY_MESSAGE: _of((TOPIC, "topic", (SUB, GET))),
    Code.QUERY_CONSUMER_OFFSET: partial(_offsets, GET),
    Code.UPDATE_CONSUMER_OFFSET: partial(_offsets, UPDATE),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _TOPIC_READ,
    Code.GET_MAX_OFFSET: _TOPIC_READ,
    Code.GET_MIN_OFFSET: _TOPIC_READ,
    Code.GET_EARLIEST_MSG_STORETIME: _TOPIC_READ,
    Code.VIEW_MESSAGE_BY_ID: _TOPIC_READ,
    Code.GET_TOPIC_STATS_INFO: _TOPIC_READ,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _TOPIC_READ,
    Code.GET_TOPIC_CONFIG: _TOPIC_READ,
    Code.HEART_BEAT: _heartbeat,
    Code.CONSUMER_SEND_MSG_BACK: _of((GROUP, "group", (SUB,))),
    Code.UNREGISTER_CLIENT: _of((GROUP, "consumer_group", (SUB,))),
    Code.END_TRANSACTION: _of((TOPIC, "topic", (PUB,))),
    Code.GET_CONSUMER_LIST_BY_GROUP: _of((GROUP, "consumer_group", (SUB, GET))),
    Code.LOCK_BATCH_MQ: _locks,
    Code.UNLOCK_BATCH_MQ: _locks,
    Code.UPDATE_AND_CREATE_TOPIC: _of((TOPIC, "topic", (CREATE,))),
    Code.DELETE_TOPIC_IN_BROKER: _of((TOPIC, "topic", (DELETE,))),
    Code.DELETE_SUBSCRIPTIONGROUP: _of((GROUP, "group_name", (DELETE,))),
    Code.GET_CONSUMER_CONNECTION_LIST: _of((GROUP, "consumer_group", (GET,))),
    Code.GET_CONSUMER_RUNNING_INFO: _of((GROUP, "consumer_group", (GET,))),
    Code.QUERY_TOPICS_BY_CONSUMER: _of((GROUP, "group", (GET,))),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _of((GROUP, "group", (GET,))),
    Code.GET_CONSUME_STATS: _of((GROUP, "consumer_group", (GET,)), (TOPIC, "topic", (GET,))),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _of((GROUP, "group", (GET,)), (TOPIC, "topic", (GET,))),
    Code.QUERY_CORRECTION_OFFSET: _of((GROUP, "compare_group", (GET,)), (TOPIC, "topic", (GET,))),
    Code.QUERY_CONSUME_TIME_SPAN: _of((TOPIC, "topic", (GET,)), (GROUP, "group", (GET,))),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _of((TOPIC, "topic", (GET,)), (GROUP, "group", (GET,))),
    Code.QUERY_CONSUME_QUEUE: _of((TOPIC, "topic", (GET,)), (GROUP, "consumer_group", (GET,))),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _of((GROUP, "group", (UPDATE,)), (TOPIC, "topic", (UPDATE,))),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _of((GROUP, "group", (UPDATE,)), (TOPIC, "topic", (UPDATE,))),
    Code.CLONE_GROUP_OFFSET: _of((GROUP, "dest_group", (UPDATE,)), (TOPIC, "topic", (UPDATE,))),
    Code.CONSUME_MESSAGE_DIRECTLY: _of((GROUP, "consumer_group", (SUB,)), (TOPIC, "topic", (SUB,))),
    Code.POP_MESSAGE: _POPS,
    Code.ACK_MESSAGE: _POPS,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _POPS,
    Code.NOTIFICATION: _POPS,
    Code.PEEK_MESSAGE: _consumes,
    Code.POLLING_INFO: _of((GROUP, "consumer_group", (GET,)), (TOPIC, "topic", (GET,))),
    Code.GET_PRODUCER_CONNECTION_LIST: _LOOK,
    Code.VIEW_BROKER_STATS_DATA: _LOOK,
    Code.GET_BROKER_CONSUME_STATS: _LOOK,
    Code.GET_ALL_PRODUCER_INFO: _LOOK,
    Code.AUTH_CREATE_USER: _CHANGE,
    Code.AUTH_UPDATE_USER: _CHANGE,
    Code.AUTH_DELETE_USER: _CHANGE,
    Code.AUTH_GET_USER: _LOOK,
    Code.AUTH_LIST_USER: _LOOK,
    Code.AUTH_CREATE_ACL: _CHANGE,
    Code.AUTH_UPDATE_ACL: _CHANGE,
    Code.AUTH_DELETE_ACL: _CHANGE,
    Code.AUTH_GET_ACL: _LOOK,
    Code.AUTH_LIST_ACL: _LOOK,
    Code.UPDATE_AND_CREATE_ACL_CONFIG: _CHANGE,
    Code.DELETE_ACL_CONFIG: _CHANGE,
    Code.GET_BROKER_CLUSTER_ACL_INFO: _LOOK,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _CHANGE,
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: _LOOK,
    # staticfire's own requests: clients send the first two, administrators the others.
    Code.SEND_MANY: _send_many,
    Code.CANCEL_POP: _POPS,
    Code.GET_GROUP_STATE: _of((GROUP, "group", (GET,))),
    Code.IMPORT_MESSAGES: _of((TOPIC, "topic", (PUB,))),
    Code.RESET: _CHANGE,
    Code.GET_JOURNAL: _LOOK,
    Code.GET_METRICS: _LOOK,
    Code.GET_TOTALS: _LOOK,
    Code.GET_WAITING: _LOOK,
    Code.FIND_MESSAGES: _LOOK,
    Code.GET_CONSUMPTION: _TOPIC_READ,
    Code.ADD_FAULT: _CHANGE,
    Code.GET_FAULTS: _LOOK,
    Code.REMOVE_FAULT: _CHANGE,
    Code.SAVE_SNAPSHOT: _CHANGE,
    Code.RESTORE_SNAPSHOT: _CHANGE,
    Code.GET_SNAPSHOTS: _LOOK,
    Code.REMOVE_SNAPSHOT: _CHANGE,
    Code.KEEP_SNAPSHOT: _CHANGE,
    Code.JOIN_REPLICATION: _CHANGE,
    Code.COPY_LOG: _CHANGE,
    Code.COPY_STATE: _CHANGE,
    Code.CHANGE_ROLE: _CHANGE,
    Code.CONTROL_REPLICATION: _CHANGE,
    Code.GET_REPLICATION: _LOOK,
    Code.JUDGE_CALL: _CHANGE,
    Code.GET_ACCESS: _LOOK,
}
"""What each request needs, by its code."""

NEEDS_OF_CLUSTER = frozenset(code for code, needs in NEEDS.items() if needs in (_CHANGE, _LOOK))
"""Requests about the whole cluster, which administrators send."""

UNJUDGED = frozenset({Code.SIGN_IN})
"""Requests that need no user: a client signs in with them."""
