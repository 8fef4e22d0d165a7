"""`staticfire mqadmin`: consumer groups and their settings."""

from typing import TYPE_CHECKING

import click
import msgspec

from staticfire.cli.family import TOPIC
from staticfire.cli.mqadmin.frame import (
    AdminSession,
    addresses,
    ask,
    command,
    group_flag,
    option,
    signed_attributes,
    target_flags,
)
from staticfire.cli.mqadmin.java_text import lines_of, text
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import at_each, at_nameservers
from staticfire.cli.mqadmin.tables import group_fields, group_text
from staticfire.cli.options import Whole
from staticfire.client.admin.consume_mode import mode_request
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.names import dead_letter_topic, retry_topic
from staticfire.protocol.requests.groups import (
    DeleteGroup,
    GetAllGroups,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
    UpdateGroup,
)
from staticfire.protocol.requests.routes import DeleteTopicInNameserver
from staticfire.protocol.requests.topics import DeleteTopic

if TYPE_CHECKING:
    from staticfire.client import Admin

SETTING = "%-40s=  %s"


class Flag(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """true or false. Any other value is refused, since it may be meant for another flag."""

    name = "true|false"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if str(value).lower() not in ("true", "false"):
            self.fail(
                f"{value} is neither true nor false; write attributes behind --attributes, as in RocketMQ", param, ctx
            )
        return str(value).lower() == "true"


@command("updateSubGroup")
@target_flags
@group_flag
@option(
    "-s", "--consumeEnable", "enable", type=bool, default=True, show_default=True, help="Whether the group may consume."
)
@option("-m", "--consumeFromMinEnable", "from_min", type=bool, default=False, show_default=True, help="Stored only.")
@option("-d", "--consumeBroadcastEnable", "broadcast", type=bool, default=False, show_default=True, help="Stored only.")
@option(
    "-o",
    "--consumeMessageOrderly",
    "orderly",
    type=bool,
    default=False,
    show_default=True,
    help="Whether it consumes in order.",
)
@option(
    "-q",
    "--retryQueueNums",
    "retry_queues",
    type=Whole(0),
    default=1,
    show_default=True,
    help="Number of queues of the retry topic.",
)
@option(
    "-r",
    "--retryMaxTimes",
    "retries",
    type=Whole(-1),
    default=16,
    show_default=True,
    help="Maximum number of retries before a message becomes a dead letter.",
)
@option(
    "-p", "--groupRetryPolicy", "policy", metavar="JSON", help="Retry delays; stored without effect, as in RocketMQ."
)
@option(
    "-i",
    "--brokerId",
    "broker_id",
    type=Whole(0),
    default=0,
    show_default=True,
    help="The replica; stored without effect.",
)
@option(
    "-w", "--whichBrokerWhenConsumeSlowly", "slow_id", type=Whole(0), default=1, show_default=True, help="Same as -i."
)
@option(
    "-a",
    "--notifyConsumerIdsChanged",
    "notify",
    type=Flag(),
    default=True,
    show_default=True,
    help="Whether members are notified of changes.",
)
@option("--attributes", metavar="+KEY=VALUE,-KEY", default="", help="As +stableTimeMs=30000,+graceTimeMs=10000.")
def update_group(
    session: AdminSession,
    cluster: str | None,
    broker: str | None,
    group: str,
    enable: bool,
    from_min: bool,
    broadcast: bool,
    orderly: bool,
    retry_queues: int,
    retries: int,
    policy: str | None,
    broker_id: int,
    slow_id: int,
    notify: bool,
    attributes: str,
) -> None:
    """Create a consumer group, or change it.

    Attributes that aren't given keep their values.
    """
    config = SubscriptionGroupConfig(
        group,
        consume_enable=enable,
        consume_from_min_enable=from_min,
        consume_broadcast_enable=broadcast,
        consume_message_orderly=orderly,
        retry_queue_nums=retry_queues,
        retry_max_times=retries,
        group_retry_policy=_policy(policy),
        broker_id=broker_id,
        which_broker_when_consume_slowly=slow_id,
        notify_consumer_ids_changed_enable=notify,
        attributes=signed_attributes(attributes),
    )

    async def work(admin: "Admin") -> None:
        async def change(address: str) -> None:
            await ask(admin, address, UpdateGroup(body=config))
            show(f"create subscription group to {address} success.")

        await at_each(await addresses(admin, cluster, broker), change)
        show(group_text(config))

    session.run(work)


def _policy(words: str | None) -> GroupRetryPolicy:
    """Return the policy of -p. Raises: UsageError."""
    if words is None:
        return GroupRetryPolicy()
    try:
        return msgspec.json.decode(words, type=GroupRetryPolicy)
    except msgspec.MsgspecError as error:
        example = '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}'
        raise UsageError(f"mqadmin: --groupRetryPolicy: {error}; write {example}") from None


@command("deleteSubGroup")
@target_flags
@group_flag
@option("-r", "--removeOffset", "offsets", type=bool, default=False, show_default=True, help="Also delete its offsets.")
def delete_group(session: AdminSession, cluster: str | None, broker: str | None, group: str, offsets: bool) -> None:
    """Delete a consumer group.

    Deletes it from a whole cluster, with its retries and its dead letters.
    """

    async def work(admin: "Admin") -> None:
        async def delete(address: str) -> None:
            await ask(admin, address, DeleteGroup(group, offsets))
            where = f" in cluster [{cluster}]" if cluster else ""
            show(f"delete subscription group [{group}] from broker [{address}]{where} success.")
            for topic in topics:
                await ask(admin, address, DeleteTopic(topic))

        topics = (retry_topic(group), dead_letter_topic(group)) if cluster else ()
        await at_each(await addresses(admin, cluster, broker), delete)
        for topic in topics:
            await at_nameservers(admin, DeleteTopicInNameserver(topic, cluster), f"topic {topic} is deleted at")

    session.run(work)


@command("getConsumerConfig")
@group_flag
def get_consumer_config(session: AdminSession, group: str) -> None:
    """Show the settings of a consumer group.

    Shows them for each broker that knows the group.
    """

    async def work(admin: "Admin") -> None:
        found = []
        clusters, names = (await admin.cluster_info()).broker_addr_table, await admin.readers()

        async def show_one(name: str) -> None:
            # Request all groups: a request for one group by its name may create it.
            config = (await ask(admin, names[name], GetAllGroups())).body.subscription_group_table.get(group)
            if config is None:
                return
            found.append(name)
            show(f"{'=' * 29}{clusters[name].cluster}:{name}{'=' * 29}")
            fields = {key: "" if value is None else text(value) for key, value in group_fields(config).items()}
            show(lines_of(SETTING, *fields.items()))

        await at_each(names, show_one)
        if not found:
            raise ClientError(f"mqadmin: no broker knows group {group}: `staticfire groups` lists the groups")

    session.run(work)


@command("setConsumeMode")
@target_flags
@option("-t", "--topicName", "--topic", "topic", required=True, metavar="TOPIC", type=TOPIC, help="The topic.")
@group_flag
@option(
    "-m", "--mode", type=click.Choice(["PULL", "POP"]), required=True, help="How it receives messages: PULL or POP."
)
@option("-q", "--popShareQueueNum", "share", type=Whole(0), default=0, show_default=True, help="0: all queues.")
def set_consume_mode(
    session: AdminSession, cluster: str | None, broker: str | None, topic: str, group: str, mode: str, share: int
) -> None:
    """Set whether a group pulls or pops a topic."""

    async def work(admin: "Admin") -> None:
        async def change(address: str) -> None:
            await ask(admin, address, mode_request(topic, group, mode, share))
            show(f"set consume mode to {address} success.")

        await at_each(await addresses(admin, cluster, broker), change)
        show(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")

    session.run(work)
