"""Administration: clusters, topics, groups, key-value configuration. RocketMQ: DefaultMQAdminExt."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from staticfire.client.admin.attribute_changes import attribute_changes, group_changes
from staticfire.client.admin.connections import consumer_connections
from staticfire.client.admin.consume_mode import mode_request, set_consume_mode
from staticfire.client.admin.consumption import GroupConsumption, consumption_of
from staticfire.client.admin.group_survey import GroupSurvey
from staticfire.client.admin.group_view import GroupView
from staticfire.client.admin.journal import (
    JournalRecords,
    events_wanted,
    newest_in_journals,
    read_journals,
    requests_wanted,
)
from staticfire.client.admin.look_ups import FoundMessages, LookUp, find_by_key, find_by_offset_id, find_in_all_topics
from staticfire.client.admin.replica_choice import (
    masters_among,
    none_found,
    readers_among,
    replicas_of,
    warnings_without_master,
)
from staticfire.client.admin.totals import broker_totals
from staticfire.client.cluster.blocking import BlockingFace, blocking
from staticfire.client.cluster.client_service import ClientService
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import (
    AnswerTimeout,
    BrokerAnswer,
    ClientError,
    GroupNotFound,
    NetworkError,
    StaticfireError,
    TopicNotFound,
    broker_answer,
)
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import group_of_topic, is_dead_letter_topic, is_system_topic
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.connections import ClientConnection
from staticfire.protocol.requests.groups import GetAllGroups, GetGroupConfig, SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.protocol.requests.routes import (
    ClusterInfo,
    DeleteKVConfig,
    DeleteTopicInNameserver,
    GetAllTopics,
    GetClusterInfo,
    GetKVConfig,
    GetKVList,
    GetTopicsByCluster,
    KVAnswer,
    PutKVConfig,
    TopicRouteData,
)
from staticfire.protocol.requests.statistics import GetTopicStats
from staticfire.protocol.requests.topics import DeleteTopic, GetTopicConfig, TopicConfig, UpdateTopic
from staticfire.runtime.machine import Machine

P = ParamSpec("P")
T = TypeVar("T")

ADMIN_TIMEOUT_MS = 5_000
# This is long because a broker whose index lags updates it before it responds.
LOOK_UP_TIMEOUT_MS = 15_000
# house: one method for each request, and one line for each without `await`
FOREVER = (1 << 63) - 1
# How long to wait until nameservers have a topic that a broker has created.
ROUTE_WAIT_MS = 3_000
ROUTE_POLL_MS = 5


class Admin(ClientService):  # house: a few lines for each request to a cluster
    """Reads and changes a cluster. All methods raise BrokerAnswer (refused) and NetworkError (no response)."""

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        settings: ClientSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
        timeout_ms: int = ADMIN_TIMEOUT_MS,
    ) -> None:
        """`client`: a shared client, instead of `namesrv`. `timeout_ms`: of each request to a broker.

        Raises: UsageError, ClientError.
        """
        super().__init__(namesrv, settings or ClientSettings(), machine, client)
        self.timeout_ms = timeout_ms
        self.look_up_timeout_ms = max(timeout_ms, LOOK_UP_TIMEOUT_MS)
        self.offsets = QueueOffsets(self.client, timeout_ms)
        """The offsets of queues and groups: `max_offset(queue)`, `committed(group, queue)` ..."""

    def __enter__(self) -> "BlockingAdmin":
        return BlockingAdmin.enter(self)

    # -- the cluster ---------------------------------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """Return all brokers, and which cluster they belong to."""
        answer = await self._ask_nameserver(GetClusterInfo(), "cluster info")
        return answer.body or ClusterInfo()

    async def masters(self, cluster: str | None = None, broker_name: str | None = None) -> dict[str, str]:
        """Return the addresses of masters by broker name: of a cluster, of one broker, or of all.

        Raises: ClientError if there is none; it names the existing ones.
        """
        info = await self.cluster_info()
        found = masters_among(replicas_of(info, cluster, broker_name))
        if not found:
            raise ClientError(none_found(info, cluster, broker_name, str(self.client.nameservers.chosen)))
        return found

    async def readers(self, cluster: str | None = None, broker_name: str | None = None) -> dict[str, str]:
        """Return the addresses to read from: as `masters`, and the slave with the lowest id of a broker without one."""
        info = await self.cluster_info()
        found = readers_among(replicas_of(info, cluster, broker_name))
        if not found:
            raise ClientError(none_found(info, cluster, broker_name, str(self.client.nameservers.chosen)))
        return found

    # -- topics --------------------------------------------------------------------------------------------------

    async def topics(self, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, or of those in a cluster, sorted; with RocketMQ's own topics."""
        request = GetAllTopics() if cluster is None else GetTopicsByCluster(cluster=cluster)
        answer = await self._ask_nameserver(request, "topics")
        return sorted(answer.body.topic_list) if answer.body is not None else []

    async def route(self, topic: str) -> TopicRouteData:
        """Fetch the route of a topic. Raises: TopicNotFound."""
        return await self.client.routes.fetch(topic)

    async def topic_config(self, topic: str, broker_name: str) -> TopicConfig:
        """Return a topic's configuration on one broker. Raises: TopicNotFound."""
        address = (await self.readers(broker_name=broker_name))[broker_name]
        answer = await self._ask(address, GetTopicConfig(topic=topic, bname=broker_name), f"topic {topic}")
        config: TopicConfig = answer.body
        return config

    async def create_topic(  # house: the fields of a topic, all but one with a default
        self,
        topic: str,
        queues: int = 8,
        *,
        write_queues: int | None = None,
        perm: int = READ_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker_name: str | None = None,
    ) -> None:
        """Create or change a topic, on all brokers, those of a cluster, or one. Return when it can be used.

        `queues`: per broker. `attributes`: as `{"message.type": "FIFO"}`; a change can remove one with `{"-key": ""}`.
        """
        request = UpdateTopic(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=order,
            attributes=attribute_changes(attributes or {}),
        )
        masters = await self.masters(cluster, broker_name)
        for name, address in masters.items():
            await self._ask(address, request, f"create topic {topic} on {name}")
        await self._wait_for_route(topic, set(masters))

    async def _wait_for_route(self, topic: str, broker_names: set[str]) -> None:
        missing = broker_names
        for _ in range(ROUTE_WAIT_MS // ROUTE_POLL_MS):
            try:
                route = await self.client.routes.fetch(topic)
                missing = broker_names - {queues.broker_name for queues in route.queue_datas}
            except TopicNotFound:
                pass
            if not missing:
                return
            await self.pause_for(ROUTE_POLL_MS)
        raise AnswerTimeout(
            f"topic {topic} is created, but nameserver {self.client.nameservers.chosen} doesn't know it on "
            f"{', '.join(sorted(missing))} after {ROUTE_WAIT_MS} ms: do these brokers register there?"
        )

    async def delete_topic(self, topic: str, *, cluster: str | None = None, broker_name: str | None = None) -> None:
        """Delete a topic with its queues, on all brokers, those of a cluster, or one. An unknown topic is no error."""
        for name, address in (await self.masters(cluster, broker_name)).items():
            await self._ask(address, DeleteTopic(topic=topic, bname=name), f"delete topic {topic} on {name}")
        if broker_name is None:
            await self._tell_nameservers(DeleteTopicInNameserver(topic=topic, cluster_name=cluster))
        self.client.routes.forget(topic)

    # -- groups --------------------------------------------------------------------------------------------------

    async def create_group(
        self, config: SubscriptionGroupConfig | str, *, cluster: str | None = None, broker_name: str | None = None
    ) -> None:
        """Create or change a consumer group. If only its name is given, it gets RocketMQ's defaults.

        Attributes as `{"stableTimeMs": "30000"}`. Others are kept; `{"-stableTimeMs": ""}` removes one.
        """
        body = group_changes(config)
        for name, address in (await self.masters(cluster, broker_name)).items():
            await self._ask(address, UpdateGroup(body=body, bname=name), f"create group {body.group_name} on {name}")

    async def group_config(self, group: str, broker_name: str) -> SubscriptionGroupConfig:
        """Return a group's configuration on one broker. Raises: GroupNotFound."""
        address = (await self.readers(broker_name=broker_name))[broker_name]
        answer = await self._ask(address, GetGroupConfig(group=group, bname=broker_name), f"group {group}")
        config: SubscriptionGroupConfig = answer.body
        return config

    async def members(self, group: str) -> list[ClientConnection]:
        """Return the clients that consume in a group now, sorted by client id. An unknown group has none."""
        connections = await consumer_connections(self.client.pool, await self.readers(), group, self.timeout_ms)
        found = {member.client_id: member for one in connections for member in one.connection_set}
        return [found[client_id] for client_id in sorted(found)]

    async def group(self, group: str) -> GroupView:
        """Return the current state of a group: its members, their queues, progress and rates, and its problems.

        Raises: GroupNotFound (no broker has it), NetworkError.
        """
        if not await self.has_group(group):
            words = f"no broker knows group {group}"
            raise GroupNotFound(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, words)
        replicas = replicas_of(await self.cluster_info())
        view = await GroupSurvey(self.client, readers_among(replicas), group, self.timeout_ms).look()
        view.warnings += warnings_without_master(replicas)
        return view

    async def set_consume_mode(self, topic: str, group: str, mode: str, pop_share_queue_num: int = 0) -> None:
        """Let a group's members PULL or POP a topic, on all its brokers. Only members with client_rebalance=False obey.

        `pop_share_queue_num`: the number of further members whose queues a member pops, too; 0: everyone pops all.
        Raises: ClientError (no such mode), TopicNotFound, BrokerAnswer.
        """
        request = mode_request(topic, group, mode, pop_share_queue_num)
        await set_consume_mode(await self.route(topic), request, self._ask)

    async def groups(self) -> list[str]:
        """Return the names of all groups that brokers have, sorted; with RocketMQ's own groups."""
        answers = [await self._ask(one, GetAllGroups(), "groups") for one in (await self.readers()).values()]
        return sorted({name for answer in answers if answer.body for name in answer.body.subscription_group_table})

    async def has_group(self, group: str) -> bool:
        """Return whether any broker has a group. A query for one group by its name could create it."""
        totals = await broker_totals(self.client, await self.readers(), groups=[group], timeout_ms=self.timeout_ms)
        if totals is not None:
            return any(group in one.groups for one in totals.values())
        return group in await self.groups()

    async def dead_letters(self) -> dict[str, int]:
        """Return the number of dead letters by group. Groups without dead letters are left out."""
        dead = {group_of_topic(topic): topic for topic in await self.topics() if is_dead_letter_topic(topic)}
        masters = await self.masters()
        totals = await broker_totals(self.client, masters, topics=[*dead.values()], timeout_ms=self.timeout_ms)
        if totals is None:
            found = await asyncio.gather(*(self._stored(topic, masters) for topic in dead.values()))
        else:
            tables = [part.topics for part in totals.values()]
            found = [sum(one[topic].messages for one in tables if topic in one) for topic in dead.values()]
        counts = {group: count for group, count in zip(dead, found, strict=True) if group is not None and count}
        return dict(sorted(counts.items()))

    async def _stored(self, topic: str, masters: Mapping[str, str]) -> int:
        """Return how many messages brokers have of a topic. Those without the topic have none."""
        stored = 0
        for name, address in masters.items():
            answer = await self.client.pool.ask(address, GetTopicStats(topic, name), self.timeout_ms)
            if answer.code == SUCCESS and answer.body is not None:
                stored += sum(ends.max_offset - ends.min_offset for ends in answer.body.offset_table.values())
        return stored

    # -- messages ------------------------------------------------------------------------------------------------

    async def find(
        self, text: str, topic: str | None = None, begin_ms: int = 0, end_ms: int = FOREVER, messages_max: int = 64
    ) -> FoundMessages:
        """Return the newest messages with this offset message id, unique id or key, in one topic or in all.

        They may be copies of one message: a retry and a dead letter have the unique id of the first. `begin_ms`,
        `end_ms`: the range of their store times. Raises: TopicNotFound, and as all methods here.
        """
        brokers = await self.readers()
        at_place = await find_by_offset_id(self.client, brokers, text, self.timeout_ms)
        if at_place:
            return FoundMessages(at_place)
        wanted = LookUp(text, begin_ms, end_ms, messages_max)
        timeout_ms = self.look_up_timeout_ms
        if topic is not None:
            await self.route(topic)
        elif (found := await find_in_all_topics(self.client, brokers, wanted, timeout_ms)) is not None:
            return found
        topics = [topic] if topic is not None else [one for one in await self.topics() if not is_system_topic(one)]
        places = [(one, name, address) for one in topics for name, address in brokers.items()]
        return await find_by_key(self.client, places, wanted, timeout_ms)

    async def consumption(self, message: ReceivedMessage) -> list[GroupConsumption]:
        """Return, for each group of the message's topic, whether it has consumed the message, as offsets show."""
        return await consumption_of(self.client, message, self.timeout_ms)

    # -- what happened -------------------------------------------------------------------------------------------

    async def journal(
        self,
        *kinds: str,
        client: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        queue_id: int | None = None,
        broker_name: str | None = None,
        newest: int | None = None,
    ) -> JournalRecords:
        """Return events of these kinds (all kinds if none is given), by real time. See docs/journal.md.

        `client`: its id, or one part of it. `newest`: only so many, the newest. Raises: UsageError, and BrokerAnswer if
        a broker keeps no journal.
        """
        wanted = events_wanted(kinds, client, group, topic, queue_id)
        if newest is not None:
            brokers = await self.readers(None, broker_name)
            return await newest_in_journals(self.client, brokers, wanted, newest, self.timeout_ms)
        return await read_journals(self.client, await self.readers(None, broker_name), wanted, self.timeout_ms)

    async def requests(
        self,
        code: str | int | None = None,
        client: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        queue_id: int | None = None,
        broker_name: str | None = None,
    ) -> JournalRecords:
        """Return clients' requests by real time: those of a code, as "PULL_MESSAGE", or all. Raises: as `journal`."""
        wanted = requests_wanted(code, client, group, topic, queue_id)
        return await read_journals(self.client, await self.readers(None, broker_name), wanted, self.timeout_ms)

    # -- offsets -------------------------------------------------------------------------------------------------

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the queue's next message."""
        return await self.offsets.max_offset(queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the oldest offset that is still stored."""
        return await self.offsets.min_offset(queue)

    async def search_offset(self, queue: MessageQueue, stored_ms: int, upper: bool = False) -> int:
        """Return the first offset stored at this time or later; with `upper`, the last one until this time."""
        return await self.offsets.search_offset(queue, stored_ms, upper)

    async def reset_offset_by_time(
        self, group: str, topic: str, stored_ms: int, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Reset a group's offsets in a topic to messages stored at this time or later. Return the new offsets.

        `stored_ms`: message time; -1 skips the whole backlog. `force`: whether offsets may also move forwards. This
        matters only for brokers that notify members instead of moving the offsets themselves; others always allow it.
        No member needs to be online.
        """
        moved: dict[MessageQueue, int] = {}
        brokers = {queues.broker_name for queues in (await self.route(topic)).queue_datas}
        for name, address in (await self.masters()).items():
            if name in brokers:
                request = ResetOffset(group=group, topic=topic, timestamp=stored_ms, is_force=force, bname=name)
                answer = await self._ask(address, request, f"reset {group} in {topic} on {name}")
                table = {} if answer.body is None else answer.body.offset_table
                moved |= {MessageQueue(q.topic, q.broker_name, q.queue_id): offset for q, offset in table.items()}
        return moved

    # -- key-value configuration ---------------------------------------------------------------------------------

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Store a value on every nameserver."""
        await self._tell_nameservers(PutKVConfig(namespace=namespace, key=key, value=value))

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """Return a value; None if there is none."""
        answer = await self.client.nameservers.ask(GetKVConfig(namespace=namespace, key=key), self.timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        _check(answer, f"value of {namespace}/{key}")
        return answer.value if isinstance(answer, KVAnswer) else None

    async def list_kv(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace."""
        answer = await self.client.nameservers.ask(GetKVList(namespace=namespace), self.timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        _check(answer, f"values of {namespace}")
        return dict(answer.body.table) if answer.body is not None else {}

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Remove a value from every nameserver. A missing value is no error."""
        await self._tell_nameservers(DeleteKVConfig(namespace=namespace, key=key))

    # -- asking --------------------------------------------------------------------------------------------------

    async def _ask(self, address: str, request: Request, requested: str) -> Answer:
        answer = await self.client.pool.ask(address, request, self.timeout_ms)
        return _check(answer, f"{requested} at {address}")

    async def _ask_nameserver(self, request: Request, requested: str) -> Answer:
        answer = await self.client.nameservers.ask(request, self.timeout_ms)
        return _check(answer, f"{requested} at {self.client.nameservers.chosen}")

    async def _tell_nameservers(self, request: Request) -> None:
        """Send a request to all nameservers, also if one of them fails. Raises: BrokerAnswer, NetworkError."""
        failures: list[StaticfireError] = []
        for address in self.client.nameservers.addresses:
            try:
                await self._ask(address, request, type(request).__name__)
            except (BrokerAnswer, NetworkError) as error:
                failures.append(error)
        if failures:
            raise failures[0]


def _check(answer: Answer, requested: str) -> Answer:
    if answer.code != SUCCESS:
        raise broker_answer(answer.code, answer.remark, requested)
    return answer


class BlockingAdmin(BlockingFace[Admin]):
    """Reads and changes a cluster. Any number of threads may use it."""

    cluster_info = blocking(Admin.cluster_info)
    masters = blocking(Admin.masters)
    readers = blocking(Admin.readers)
    topics = blocking(Admin.topics)
    route = blocking(Admin.route)
    topic_config = blocking(Admin.topic_config)
    create_topic = blocking(Admin.create_topic)
    delete_topic = blocking(Admin.delete_topic)
    create_group = blocking(Admin.create_group)
    group_config = blocking(Admin.group_config)
    members = blocking(Admin.members)
    group = blocking(Admin.group)
    groups = blocking(Admin.groups)
    has_group = blocking(Admin.has_group)
    set_consume_mode = blocking(Admin.set_consume_mode)
    dead_letters = blocking(Admin.dead_letters)
    find = blocking(Admin.find)
    consumption = blocking(Admin.consumption)
    journal = blocking(Admin.journal)
    requests = blocking(Admin.requests)
    max_offset = blocking(Admin.max_offset)
    min_offset = blocking(Admin.min_offset)
    search_offset = blocking(Admin.search_offset)
    reset_offset_by_time = blocking(Admin.reset_offset_by_time)
    put_kv = blocking(Admin.put_kv)
    get_kv = blocking(Admin.get_kv)
    list_kv = blocking(Admin.list_kv)
    delete_kv = blocking(Admin.delete_kv)

    def run(
        self, function: Callable[Concatenate[Admin, P], Coroutine[Any, Any, T]], *more: P.args, **named: P.kwargs
    ) -> T:
        """Call a coroutine function with an `Admin`, as `admin.run(message_lives, "order-42")`. Raises: as it does."""
        return self._call(function, self.service, *more, **named)
