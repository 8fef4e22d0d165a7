"""`staticfire mqadmin`: commands of RocketMQ's mqadmin that quick starts and scripts use, with their flags and output.

    mqadmin updateTopic -n namesrv:9876 -c DefaultCluster -t orders

Different from RocketMQ's: a command that failed ends with 1 and one line (there: 0 and a stack trace), and routes are
JSON that parses. The rest of the 89 commands isn't here: RocketMQ's own mqadmin works against staticfire, too.
"""

import click

from staticfire.cli import mqadmin_offsets, mqadmin_settings  # noqa: F401 (their commands join the others)
from staticfire.cli.mqadmin_frame import (
    addresses,
    ask,
    group_flag,
    is_group,
    mqadmin,
    option,
    run,
    target_flags,
    topic_flag,
)
from staticfire.cli.mqadmin_tables import (
    broker_rows,
    group_text,
    progress_rows,
    route_text,
    send_rows,
    status_rows,
    table,
    topic_text,
)
from staticfire.cli.options import Whole, namesrv_flag
from staticfire.client import Admin, Message, MessageQueue, Producer
from staticfire.client.admin.consume_mode import mode_request
from staticfire.client.cluster.routes import listed_queues
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, ClientError, GroupNotFound, UsageError
from staticfire.protocol.requests.groups import (
    DeleteGroup,
    SubscriptionGroupConfig,
    UpdateGroup,
)
from staticfire.protocol.requests.routes import ORDER_TOPIC_CONFIG, KVTable
from staticfire.protocol.requests.statistics import ConsumeStats, GetConsumeStats, GetRuntimeInfo, GetTopicStats
from staticfire.protocol.requests.topics import GetTopicConfig, TopicConfig, UpdateTopic

PRODUCERS = "STATICFIRE_MQADMIN"


# -- topics ------------------------------------------------------------------------------------------------------------


@mqadmin.command("updateTopic")
@namesrv_flag
@target_flags
@topic_flag
@option("-r", "--readQueueNums", "read", type=Whole(1), default=8, show_default=True)
@option("-w", "--writeQueueNums", "write", type=Whole(1), default=8, show_default=True)
@option("-p", "--perm", type=click.Choice(["2", "4", "6"]), default="6", show_default=True, help="2: write, 4: read.")
@option("-a", "--attributes", metavar="+KEY=VALUE,-KEY", help="As +message.type=FIFO.")
def update_topic(
    namesrv: str,
    cluster: str | None,
    broker: str | None,
    topic: str,
    read: int,
    write: int,
    perm: str,
    attributes: str | None,
) -> None:
    """Create a topic, or change it."""

    async def work(admin: Admin) -> None:
        request = UpdateTopic(topic, read, write, int(perm), "TBW102", "SINGLE_TAG", 0, attributes=attributes)
        for address in await addresses(admin, cluster, broker):
            await ask(admin, address, request)
            click.echo(f"create topic to {address} success.")
        click.echo(topic_text(TopicConfig(topic, read, write, int(perm))))

    run(namesrv, work)


@mqadmin.command("deleteTopic")
@namesrv_flag
@option("-c", "--clusterName", "cluster", required=True, metavar="CLUSTER")
@topic_flag
def delete_topic(namesrv: str, cluster: str, topic: str) -> None:
    """Delete a topic from brokers and nameservers."""

    async def work(admin: Admin) -> None:
        await admin.delete_topic(topic, cluster=cluster)
        click.echo(f"delete topic [{topic}] from cluster [{cluster}] success.")
        click.echo(f"delete topic [{topic}] from NameServer success.")

    run(namesrv, work)


@mqadmin.command("topicList")
@namesrv_flag
def topic_list(namesrv: str) -> None:
    """List all topics."""

    async def work(admin: Admin) -> None:
        for name in await admin.topics():
            click.echo(name)

    run(namesrv, work)


@mqadmin.command("topicRoute")
@namesrv_flag
@topic_flag
def topic_route(namesrv: str, topic: str) -> None:
    """Show on which brokers a topic is."""

    async def work(admin: Admin) -> None:
        click.echo(route_text(await admin.route(topic)))

    run(namesrv, work)


@mqadmin.command("topicStatus")
@namesrv_flag
@topic_flag
def topic_status(namesrv: str, topic: str) -> None:
    """Show how full a topic's queues are."""

    async def work(admin: Admin) -> None:
        stats = []
        for broker in (await admin.route(topic)).broker_datas:
            answer = await ask(admin, broker.broker_addrs[0], GetTopicStats(topic=topic))
            stats.append(answer.body)
        click.echo(table(status_rows(stats)))

    run(namesrv, work)


@mqadmin.command("updateOrderConf")
@namesrv_flag
@topic_flag
@option("-m", "--method", type=click.Choice(["get", "put", "delete"]), required=True)
@option("-v", "--orderConf", "conf", metavar="BROKER:QUEUES;BROKER:QUEUES", help="For put: broker-a:4;broker-b:4.")
def update_order_conf(namesrv: str, topic: str, method: str, conf: str | None) -> None:
    """Say which queues an ordered topic has, for nameservers with orderMessageEnable."""

    async def work(admin: Admin) -> None:
        if method == "get":
            known = await admin.get_kv(ORDER_TOPIC_CONFIG, topic)
            if known is None:
                raise ClientError(f"topic {topic} has no orderConf: `mqadmin updateOrderConf -m put` sets one")
            click.echo(f"get orderConf success. topic=[{topic}], orderConf=[{known}] ")
        elif method == "put":
            listed_queues(topic, conf or "")
            await admin.put_kv(ORDER_TOPIC_CONFIG, topic, conf or "")
            click.echo(f"update orderConf success. topic=[{topic}], orderConf=[{conf}]")
        else:
            await admin.delete_kv(ORDER_TOPIC_CONFIG, topic)
            click.echo(f"delete orderConf success. topic=[{topic}]")

    run(namesrv, work)


@mqadmin.command("updateTopicPerm")
@namesrv_flag
@target_flags
@topic_flag
@option("-p", "--perm", type=click.Choice(["2", "4", "6"]), required=True, help="2: write, 4: read.")
def update_topic_perm(namesrv: str, cluster: str | None, broker: str | None, topic: str, perm: str) -> None:
    """Change whether a topic may be read and written; the rest of it stays."""

    async def work(admin: Admin) -> None:
        for address in await addresses(admin, cluster, broker):
            known: TopicConfig = (await ask(admin, address, GetTopicConfig(topic=topic))).body
            if known.perm == int(perm):
                click.echo(f"new perm equals to the old one at {address}!")
                continue
            attributes = ",".join(f"+{name}={text}" for name, text in known.attributes.items()) or None
            request = UpdateTopic(
                topic, known.read_queue_nums, known.write_queue_nums, int(perm), "TBW102", "SINGLE_TAG",
                known.topic_sys_flag, order=known.order, attributes=attributes,
            )  # fmt: skip
            await ask(admin, address, request)
            click.echo(f"update topic perm from {known.perm} to {perm} in {address} success.")

    run(namesrv, work)


@mqadmin.command("topicClusterList")
@namesrv_flag
@topic_flag
def topic_cluster_list(namesrv: str, topic: str) -> None:
    """List the clusters that have a topic."""

    async def work(admin: Admin) -> None:
        brokers = (await admin.route(topic)).broker_datas
        for name in sorted({broker.cluster or "" for broker in brokers}):
            click.echo(name)

    run(namesrv, work)


def attribute_changes(text: str) -> dict[str, str]:
    """Return `+key=value,-key` by its signed names. Raises: UsageError."""
    changes = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        if name[:1] != ("+" if separator else "-"):
            raise UsageError(f"mqadmin: --attributes {part}: write +KEY=VALUE to set one and -KEY to remove it")
        changes[name] = value
    return changes


# -- groups ------------------------------------------------------------------------------------------------------------


@mqadmin.command("updateSubGroup")
@namesrv_flag
@target_flags
@group_flag
@option("-s", "--consumeEnable", "enable", type=bool, default=True, show_default=True)
@option("-d", "--consumeBroadcastEnable", "broadcast", type=bool, default=False, show_default=True)
@option("-o", "--consumeMessageOrderly", "orderly", type=bool, default=False, show_default=True)
@option("-q", "--retryQueueNums", "retry_queues", type=Whole(0), default=1, show_default=True)
@option("-r", "--retryMaxTimes", "retries", type=Whole(-1), default=16, show_default=True)
@option("-a", "--attributes", metavar="+KEY=VALUE,-KEY", default="", help="As +stableTimeMs=30000,+graceTimeMs=10000.")
def update_group(
    namesrv: str,
    cluster: str | None,
    broker: str | None,
    group: str,
    enable: bool,
    broadcast: bool,
    orderly: bool,
    retry_queues: int,
    retries: int,
    attributes: str,
) -> None:
    """Create a consumer group, or change it; attributes that aren't named stay as they are."""
    config = SubscriptionGroupConfig(
        group,
        consume_enable=enable,
        consume_from_min_enable=False,
        consume_broadcast_enable=broadcast,
        consume_message_orderly=orderly,
        retry_queue_nums=retry_queues,
        retry_max_times=retries,
        attributes=attribute_changes(attributes),
    )

    async def work(admin: Admin) -> None:
        for address in await addresses(admin, cluster, broker):
            await ask(admin, address, UpdateGroup(body=config))
            click.echo(f"create subscription group to {address} success.")
        click.echo(group_text(config))

    run(namesrv, work)


@mqadmin.command("deleteSubGroup")
@namesrv_flag
@target_flags
@group_flag
@option("-r", "--removeOffset", "offsets", type=bool, default=False, show_default=True, help="And where it stands.")
def delete_group(namesrv: str, cluster: str | None, broker: str | None, group: str, offsets: bool) -> None:
    """Delete a consumer group."""

    async def work(admin: Admin) -> None:
        for address in await addresses(admin, cluster, broker):
            await ask(admin, address, DeleteGroup(group, offsets))
            where = f" in cluster [{cluster}]" if cluster else ""
            click.echo(f"delete subscription group [{group}] from broker [{address}]{where} success.")

    run(namesrv, work)


@mqadmin.command("setConsumeMode")
@namesrv_flag
@target_flags
@topic_flag
@group_flag
@option("-m", "--mode", type=click.Choice(["PULL", "POP"]), required=True)
@option("-q", "--popShareQueueNum", "share", type=Whole(0), default=0, show_default=True, help="0: all queues.")
def set_consume_mode(
    namesrv: str, cluster: str | None, broker: str | None, topic: str, group: str, mode: str, share: int
) -> None:
    """Have a group pull a topic, or pop it."""

    async def work(admin: Admin) -> None:
        for address in await addresses(admin, cluster, broker):
            await ask(admin, address, mode_request(topic, group, mode, share))
            click.echo(f"set consume mode to {address} success.")
        click.echo(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")

    run(namesrv, work)


@mqadmin.command("consumerProgress")
@namesrv_flag
@group_flag
@option("-t", "--topicName", "topic", metavar="TOPIC", help="Only this topic.")
def consumer_progress(namesrv: str, group: str, topic: str | None) -> None:
    """Show how far a group has come, queue by queue."""

    async def work(admin: Admin) -> None:
        found: list[ConsumeStats] = []
        for address in (await admin.masters()).values():
            try:
                found.append((await ask(admin, address, GetConsumeStats(group, topic))).body)
            except BrokerAnswer as refused:
                click.echo(f"staticfire mqadmin: {refused}", err=True)
        rows = progress_rows(found)
        if len(rows) == 1 and not await is_group(admin, group):
            raise GroupNotFound(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"no broker knows a group {group}: it is known when it has consumed, or by `mqadmin updateSubGroup`",
            )
        click.echo(table(rows))
        click.echo(f"\nConsume TPS: {sum(stats.consume_tps for stats in found):.2f}")
        click.echo(f"Consume Diff Total: {sum(int(row[5]) for row in rows[1:])}")

    run(namesrv, work)


# -- the cluster -------------------------------------------------------------------------------------------------------


@mqadmin.command("clusterList")
@namesrv_flag
@option("-c", "--clusterName", "cluster", metavar="CLUSTER", help="Only this one.")
def cluster_list(namesrv: str, cluster: str | None) -> None:
    """List all brokers."""

    async def work(admin: Admin) -> None:
        info = await admin.cluster_info()
        if cluster is not None and cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ClientError(f"no broker of a cluster {cluster} is registered; registered clusters: {known}")
        states: dict[str, dict[str, str]] = {}
        for broker in info.broker_addr_table.values():
            for address in broker.broker_addrs.values():
                state: KVTable = (await ask(admin, address, GetRuntimeInfo())).body
                states[address] = state.table
        wall_ms = admin.client.machine.clock.wall_ms()
        click.echo(table(broker_rows(info, states, wall_ms, cluster)))

    run(namesrv, work)


@mqadmin.command("sendMessage")
@namesrv_flag
@topic_flag
@option("-p", "--body", required=True, metavar="TEXT")
@option("-k", "--keys", default="", metavar="KEYS")
@option("-c", "--tags", default="", metavar="TAGS")
@option("-b", "--broker", metavar="NAME", help="On this broker; with -i.")
@option("-i", "--qid", "queue_id", type=Whole(0), help="In this queue; with -b.")
def send_message(
    namesrv: str, topic: str, body: str, keys: str, tags: str, broker: str | None, queue_id: int | None
) -> None:
    """Send a message."""
    if (broker is None) != (queue_id is None):
        raise UsageError("mqadmin sendMessage: -b BROKER and -i QUEUE go together")

    async def work(admin: Admin) -> None:
        message = Message(topic, body.encode(), tags=tags, keys=keys.split())
        queue = None if broker is None or queue_id is None else MessageQueue(topic, broker, queue_id)
        async with Producer(PRODUCERS, client=admin.client) as producer:
            click.echo(table(send_rows(await producer.send(message, queue=queue))))

    run(namesrv, work)
