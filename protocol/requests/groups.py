"""Consumer-group administration. RocketMQ: SubscriptionGroupConfig."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.topics import DataVersion


class ExponentialRetryPolicy(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """Each retry waits `multiplier` times as long as the one before; in milliseconds. It is stored but not applied."""

    initial: Int64 = 5000
    max: Int64 = 7_200_000
    multiplier: Int64 = 2


class CustomizedRetryPolicy(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """A table of delays in milliseconds. It is stored but not applied: retries use delay levels, as in RocketMQ."""

    next: tuple[Int64, ...] = ()


class GroupSubscription(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """A topic that a group is declared to subscribe to. RocketMQ: SimpleSubscriptionData."""

    topic: str | None = None
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class GroupRetryPolicy(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """The delays of retries; CUSTOMIZED is the table of delay levels."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


class SubscriptionGroupConfig(msgspec.Struct, rename="camel", gc=False):
    """The configuration of a consumer group."""

    group_name: str | None = None
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: GroupRetryPolicy = GroupRetryPolicy()
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int64 = 15
    subscription_data_set: list[GroupSubscription] | None = None
    attributes: dict[str, str] = {}


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
class UpdateGroup(Request, rename="camel"):
    """Create a consumer group, or change one."""

    bname: str | None = None
    body_type: ClassVar[Any] = SubscriptionGroupConfig


class GroupConfigAnswer(Answer, rename="camel"):
    """A group's configuration."""

    body_type: ClassVar[Any] = SubscriptionGroupConfig


@request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, answer=GroupConfigAnswer)
class GetGroupConfig(Request, rename="camel"):
    """Ask for a group's configuration."""

    group: str
    bname: str | None = None


class GroupConfigList(msgspec.Struct, rename="camel", gc=False):
    """Groups to create in one request. RocketMQ: SubscriptionGroupList."""

    group_config_list: list[SubscriptionGroupConfig] = []


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
class UpdateGroups(Request, rename="camel"):
    """Create consumer groups, or change them."""

    bname: str | None = None
    body_type: ClassVar[Any] = GroupConfigList


@request(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteGroup(Request, rename="camel"):
    """Delete a group; `clean_offset`: and its offsets."""

    group_name: str
    clean_offset: bool = False
    bname: str | None = None


class GroupConfigTable(msgspec.Struct, rename="camel", gc=False):
    """All groups of a broker. RocketMQ: SubscriptionGroupWrapper."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, Int64]] = {}
    data_version: DataVersion = DataVersion()


class AllGroupsAnswer(Answer, rename="camel"):
    """All groups."""

    body_type: ClassVar[Any] = GroupConfigTable


@request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, answer=AllGroupsAnswer)
class GetAllGroups(Request, rename="camel"):
    """Ask for the configurations of all groups."""


class GroupForbidden(msgspec.Struct, rename="camel", gc=False):
    """Whether a group may consume a topic."""

    group: str
    topic: str
    readable: bool


class GroupForbiddenAnswer(Answer, rename="camel"):
    """Whether a group may consume a topic."""

    body_type: ClassVar[Any] = GroupForbidden


@request(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, answer=GroupForbiddenAnswer)
class ForbidGroup(Request, rename="camel"):
    """Allow or forbid a group to consume a topic, or ask whether it may."""

    group: str
    topic: str
    readable: bool | None = None
    bname: str | None = None
