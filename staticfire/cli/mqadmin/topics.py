"""`staticfire mqadmin`: topics, their routes and queues."""

from typing import TYPE_CHECKING

import click

from staticfire.cli.mqadmin.frame import (
    AdminSession,
    addresses,
    ask,
    command,
    option,
    signed_attributes,
    target_flags,
    topic_flag,
)
from staticfire.cli.mqadmin.java_text import lines_of
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import Servers, at_each, at_nameservers, broker_name_at
from staticfire.cli.mqadmin.tables import route_table, route_text, status_text, topic_text
from staticfire.cli.options import Whole
from staticfire.client.admin.replica_choice import reader_of
from staticfire.client.cluster.routes import listed_queues
from staticfire.protocol.errors import ClientError
from staticfire.protocol.names import group_of_topic
from staticfire.protocol.requests.routes import ORDER_TOPIC_CONFIG, DeleteKVConfig, DeleteTopicInNameserver, PutKVConfig
from staticfire.protocol.requests.statistics import GetTopicStats
from staticfire.protocol.requests.topics import (
    DeleteTopic,
    GetTopicConfig,
    TopicConfig,
    UpdateTopic,
)

if TYPE_CHECKING:
    from staticfire.client import Admin

UNIT, UNIT_SUBSCRIBED = 1, 2
BY_CLUSTER, BY_CLUSTER_ROW = "%-20s  %-48s  %-48s", "%-20s  %-64s  %-64s"


@command("updateTopic")
@target_flags
@topic_flag
@option(
    "-r", "--readQueueNums", "read", type=Whole(1), default=8, show_default=True, help="Number of queues for reading."
)
@option(
    "-w", "--writeQueueNums", "write", type=Whole(1), default=8, show_default=True, help="Number of queues for writing."
)
@option(
    "-p",
    "--perm",
    type=click.Choice(["2", "4", "6"]),
    default="6",
    show_default=True,
    help="2: write, 4: read, 6: both.",
)
@option(
    "-o",
    "--order",
    type=bool,
    default=False,
    show_default=True,
    help="Whether the topic is ordered; also sets its orderConf.",
)
@option("-u", "--unit", type=bool, default=False, show_default=True, help="The unit flag; stored without effect.")
@option(
    "-s",
    "--hasUnitSub",
    "unit_sub",
    type=bool,
    default=False,
    show_default=True,
    help="Stored without effect, like -u.",
)
@option("-a", "--attributes", metavar="+KEY=VALUE,-KEY", help="Attributes, like +message.type=FIFO.")
def update_topic(
    session: AdminSession,
    cluster: str | None,
    broker: str | None,
    topic: str,
    read: int,
    write: int,
    perm: str,
    order: bool,
    unit: bool,
    unit_sub: bool,
    attributes: str | None,
) -> None:
    """Create a topic, or change it."""
    flag = (UNIT if unit else 0) | (UNIT_SUBSCRIBED if unit_sub else 0)
    changes = signed_attributes(attributes or "")
    config = TopicConfig(topic, read, write, int(perm), "SINGLE_TAG", flag, order, changes)

    async def work(admin: "Admin") -> None:
        request = UpdateTopic(
            topic, read, write, int(perm), "TBW102", "SINGLE_TAG", flag, order=order, attributes=attributes
        )
        targets = await addresses(admin, cluster, broker)
        # Before the first change, since an unknown name is an error.
        name = await broker_name_at(admin, targets[0]) if order and broker else None
        for address in targets:
            await ask(admin, address, request)
            show(f"create topic to {address} success.")
        if order:
            where = "broker" if broker else "cluster"
            names = [name] if name else list(await admin.masters(cluster))
            conf = ";".join(f"{each}:{write}" for each in names)
            known = await admin.get_kv(ORDER_TOPIC_CONFIG, topic) if name else None
            stored = PutKVConfig(namespace=ORDER_TOPIC_CONFIG, key=topic, value=_merged(known or "", conf))
            await at_nameservers(admin, stored, "the orderConf is stored at")
            show(f"set {where} orderConf. isOrder=true, orderConf=[{conf}]")
        show(topic_text(config))

    session.run(work)


def _merged(known: str, conf: str) -> str:
    """Return an orderConf with the brokers of another one added or replaced. RocketMQ: createOrUpdateOrderConf."""
    brokers = {part.partition(":")[0]: part for part in f"{known};{conf}".split(";") if part}
    return ";".join(brokers.values())


@command("deleteTopic")
@option(
    "-c",
    "--clusterName",
    "cluster",
    required=True,
    metavar="CLUSTER",
    help="Delete it from the brokers of this cluster.",
)
@topic_flag
def delete_topic(session: AdminSession, cluster: str, topic: str) -> None:
    """Delete a topic from brokers and nameservers."""

    async def work(admin: "Admin") -> None:
        async def delete(name: str) -> None:
            await ask(admin, masters[name], DeleteTopic(topic, name))

        masters = await admin.masters(cluster)
        await at_each(masters, delete, f"topic {topic} is deleted at")
        await at_nameservers(admin, DeleteTopicInNameserver(topic, cluster), f"topic {topic} is deleted at")
        show(f"delete topic [{topic}] from cluster [{cluster}] success.")
        show(f"delete topic [{topic}] from NameServer success.")

    session.run(work)


@command("topicList")
@option("-c", "--clusterModel", "by_cluster", is_flag=True, help="Also show the cluster and the groups of each topic.")
def topic_list(session: AdminSession, by_cluster: bool) -> None:
    """List all topics."""

    async def work(admin: "Admin") -> None:
        names = await admin.topics()
        if not by_cluster:
            for name in names:
                show(name)
            return
        show(lines_of(BY_CLUSTER, ("#Cluster Name", "#Topic", "#Consumer Group")))
        with Servers(admin) as servers:
            for name in names:
                if group_of_topic(name) is None:
                    show(lines_of(BY_CLUSTER_ROW, *await _groups_of(servers, name)))

    session.run(work)


async def _groups_of(servers: Servers, topic: str) -> list[tuple[str | None, str, str]]:
    """Return a row for each group that consumes a topic, or one without a group."""
    brokers = (await servers.admin.client.routes.look_up(topic)).broker_datas
    groups = await servers.groups_of(topic, [reader_of(one.broker_addrs) for one in brokers])
    return [(brokers[0].cluster, topic, group) for group in groups or [""]]


@command("topicRoute")
@topic_flag
@option("-l", "--list", "as_list", is_flag=True, help="Print a table.")
def topic_route(session: AdminSession, topic: str, as_list: bool) -> None:
    """Show the brokers that have a topic."""

    async def work(admin: "Admin") -> None:
        route = await admin.client.routes.look_up(topic)
        show(route_table(route) if as_list else route_text(route))

    session.run(work)


@command("topicStatus")
@topic_flag
@option("-c", "--cluster", "cluster", metavar="CLUSTER", help="Change it on the brokers of this cluster.")
def topic_status(session: AdminSession, topic: str, cluster: str | None) -> None:
    """Show the offsets of a topic's queues."""

    async def work(admin: "Admin") -> None:
        brokers = (await admin.client.routes.look_up(topic)).broker_datas
        found = [reader_of(one.broker_addrs) for one in brokers if cluster in (None, one.cluster)]
        if not found:
            raise ClientError(f"mqadmin: topic {topic} is on no broker of cluster {cluster}")
        with Servers(admin) as servers:
            answers = [await servers.ask(address, GetTopicStats(topic=topic)) for address in found]
            show(status_text(answer.body for answer in answers if answer is not None))

    session.run(work)


@command("updateOrderConf")
@topic_flag
@option(
    "-m",
    "--method",
    type=click.Choice(["get", "put", "delete"]),
    required=True,
    help="The operation: get, put or delete.",
)
@option(
    "-v",
    "--orderConf",
    "conf",
    metavar="BROKER:QUEUES;BROKER:QUEUES",
    help="With put: the queues, like broker-a:4;broker-b:4.",
)
def update_order_conf(session: AdminSession, topic: str, method: str, conf: str | None) -> None:
    """Set the queues of an ordered topic.

    Needs nameservers with orderMessageEnable.
    """

    async def work(admin: "Admin") -> None:
        if method == "get":
            known = await admin.get_kv(ORDER_TOPIC_CONFIG, topic)
            if known is None:
                raise ClientError(f"topic {topic} has no orderConf: `mqadmin updateOrderConf -m put` sets one")
            show(f"get orderConf success. topic=[{topic}], orderConf=[{known}] ")
        elif method == "put":
            listed_queues(topic, conf or "")
            request = PutKVConfig(namespace=ORDER_TOPIC_CONFIG, key=topic, value=conf)
            await at_nameservers(admin, request, "the orderConf is stored at")
            show(f"update orderConf success. topic=[{topic}], orderConf=[{conf}]")
        else:
            removal = DeleteKVConfig(namespace=ORDER_TOPIC_CONFIG, key=topic)
            await at_nameservers(admin, removal, "the orderConf is removed at")
            show(f"delete orderConf success. topic=[{topic}]")

    session.run(work)


@command("updateTopicPerm")
@target_flags
@topic_flag
@option("-p", "--perm", type=click.Choice(["2", "4", "6"]), required=True, help="2: write, 4: read, 6: both.")
def update_topic_perm(session: AdminSession, cluster: str | None, broker: str | None, topic: str, perm: str) -> None:
    """Change the permission of a topic.

    Its other settings keep their values.
    """

    async def work(admin: "Admin") -> None:
        for address in await addresses(admin, cluster, broker):
            known: TopicConfig = (await ask(admin, address, GetTopicConfig(topic=topic))).body
            if known.perm == int(perm) and broker:
                show("new perm equals to the old one!")
                continue
            # Without attributes brokers keep them. They would refuse those that can't be changed, like queue.type.
            request = UpdateTopic(
                topic, known.read_queue_nums, known.write_queue_nums, int(perm), "TBW102", "SINGLE_TAG",
                known.topic_sys_flag, order=known.order, attributes=None,
            )  # fmt: skip
            await ask(admin, address, request)
            show(f"update topic perm from {known.perm} to {perm} in {address} success.")
            if broker:
                known.perm = int(perm)
                show(f"{topic_text(known)}.")

    session.run(work)


@command("topicClusterList")
@topic_flag
def topic_cluster_list(session: AdminSession, topic: str) -> None:
    """List the clusters that have a topic."""

    async def work(admin: "Admin") -> None:
        brokers = (await admin.client.routes.look_up(topic)).broker_datas
        for name in sorted({broker.cluster or "" for broker in brokers}):
            show(name)

    session.run(work)
