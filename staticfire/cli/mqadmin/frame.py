"""What the commands of `staticfire mqadmin` share: the group, flags under RocketMQ's names, how they send requests."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.command_groups import Commands
from staticfire.cli.family import GROUP, TOPIC
from staticfire.cli.listing import with_admin
from staticfire.cli.options import NAMESRV, all_flags, not_empty, protocol_flag, tls_flags
from staticfire.cli.signing import names_key, sign_with
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.runtime.addresses import format_address, parse_address

if TYPE_CHECKING:
    from staticfire.client import Admin
    from staticfire.client.admin.replica_choice import Replicas
    from staticfire.protocol.command import Answer, Request

TIMEOUT_MS = 5_000
Work = Callable[["Admin"], Awaitable[None]]

COMMANDS = {
    "topics": {
        "updateTopic": "Create a topic, or change it.",
        "deleteTopic": "Delete a topic from brokers and nameservers.",
        "topicList": "List all topics.",
        "topicRoute": "Show the brokers that have a topic.",
        "topicStatus": "Show the offsets of a topic's queues.",
        "topicClusterList": "List the clusters that have a topic.",
        "updateTopicPerm": "Change the permission of a topic.",
        "updateOrderConf": "Set the queues of an ordered topic.",
    },
    "groups": {
        "updateSubGroup": "Create a consumer group, or change it.",
        "deleteSubGroup": "Delete a consumer group.",
        "getConsumerConfig": "Show the settings of a consumer group.",
        "setConsumeMode": "Set whether a group pulls or pops a topic.",
    },
    "progress": {
        "consumerProgress": "Show the offsets and lag of a group, or of all groups.",
        "statsAll": "Show how many messages topics receive and groups consume.",
    },
    "members": {
        "consumerConnection": "Show the consumers of a group and their subscriptions.",
        "producerConnection": "Show the producers of a group.",
        "consumerStatus": "Show what the members of a group are doing.",
    },
    "offsets": {
        "resetOffsetByTime": "Reset the offsets of a group to a time.",
        "skipAccumulatedMessage": "Skip the backlog of a group in a topic.",
        "cloneGroupOffset": "Copy the offsets of one group to another.",
    },
    "cluster": {
        "clusterList": "List all brokers.",
        "brokerStatus": "Show the statistics of brokers.",
    },
    "replication": {
        "haStatus": "Show how far the slaves of brokers are.",
        "getSyncStateSet": "Show the replicas of brokers that are in sync.",
        "electMaster": "Let a slave of a broker become the master.",
    },
    "settings": {
        "getBrokerConfig": "Show all settings of brokers.",
        "updateBrokerConfig": "Change a setting of running brokers.",
        "getNamesrvConfig": "Show all settings of the nameservers.",
    },
    "nameservers": {
        "updateKvConfig": "Store a value on all nameservers.",
        "deleteKvConfig": "Remove a value from all nameservers.",
        "wipeWritePerm": "Remove the write permission of a broker.",
        "addWritePerm": "Restore the write permission of a broker.",
    },
    "look_ups": {
        "queryMsgById": "Show a message by its offset message id.",
        "queryMsgByKey": "List the messages with a key.",
        "queryMsgByUniqueKey": "Show a message by its unique id.",
        "queryMsgByOffset": "Show the message at an offset of a queue.",
        "queryMsgTraceById": "Show the trace of a message: who sent and consumed it.",
    },
    "reading": {
        "printMsg": "Print the messages of a topic.",
        "consumeMessage": "Print messages of a topic, a queue, or from an offset.",
    },
    "sending": {
        "sendMessage": "Send a message.",
        "checkMsgSendRT": "Send messages, and measure how long each takes.",
    },
}
"""By module, so that a command loads only what it needs. The text of each command is the first line of its help."""


class AnyCase(Commands):
    """Finds commands in any case, as RocketMQ does: quick starts write `updatetopic`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in COMMANDS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for module, names in COMMANDS.items():
            for name in names:
                if name.lower() == cmd_name.lower():
                    import_module(f"staticfire.cli.mqadmin.{module}")
                    return self.commands[name]
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for module, names in COMMANDS.items():
            with formatter.section(module.replace("_", "-").capitalize()):
                formatter.write_dl(list(names.items()))

    def all_commands(self) -> list[click.Command]:
        for module in COMMANDS:
            import_module(f"staticfire.cli.mqadmin.{module}")
        return list(self.commands.values())

    def short_helps(self) -> dict[str, str]:
        return {name: text for names in COMMANDS.values() for name, text in names.items()}

    def unknown(self, name: str) -> str:
        return f"{super().unknown(name)}. You can also use RocketMQ's own mqadmin"


def _nothing() -> None:
    pass


mqadmin = AnyCase(
    "mqadmin",
    callback=_nothing,
    help="Administer the cluster with the commands, flags and output of RocketMQ's mqadmin.",
)


@dataclass(frozen=True)
class AdminSession:
    """The cluster of a command, and the topic and the group in its flags."""

    namesrv: str
    protocol: str
    topic: str | None
    group: str | None

    def run(self, work: Work) -> None:
        """Run `work` with a connected Admin."""
        with_admin(self.namesrv, self.protocol, work, self.topic, self.group)


def _key_of_tools(_: click.Context, __: click.Parameter, namesrv: str) -> str:
    """Sign as conf/tools.yml below ROCKETMQ_HOME says, as RocketMQ's mqadmin does. The environment counts first."""
    path = os.path.join(os.environ.get("ROCKETMQ_HOME", ""), "conf", "tools.yml")
    if os.environ.get("ROCKETMQ_HOME") and not names_key() and os.path.exists(path):
        from staticfire.runtime.credentials import credentials_in_file  # here, since few users have such a file

        own = credentials_in_file(path)
        if own is not None:
            sign_with(own)
    return not_empty(namesrv)


def command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Declare a command of mqadmin. Its function gets an AdminSession first, then its flags by name."""

    def declare(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def with_cluster(namesrv: str, protocol: str, **given: Any) -> None:
            function(AdminSession(namesrv, protocol, given.get("topic"), given.get("group")), **given)

        return mqadmin.command(name)(
            all_flags(
                with_cluster,
                option("-n", "--namesrv", "--namesrvAddr", **{**NAMESRV, "callback": _key_of_tools}),
                tls_flags,
                protocol_flag,
            )
        )

    return declare


def option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """Declare a flag under RocketMQ's two names."""
    return click.option(*names, **settings)


topic_flag = option("-t", "--topic", required=True, metavar="TOPIC", type=TOPIC, help="The topic.")
group_flag = option(
    "-g", "--groupName", "group", required=True, metavar="GROUP", type=GROUP, help="The consumer group."
)
lmq_flag = option("-c", "--cluster", "cluster", metavar="CLUSTER", help="Accepted for compatibility; has no effect.")


def target_flags(function: Any) -> Any:
    """Add `-c` and `-b`. One of them must be given."""
    return all_flags(
        function,
        option("-c", "--clusterName", "cluster", metavar="CLUSTER", help="On all brokers of a cluster."),
        option("-b", "--brokerAddr", "broker", metavar="HOST:PORT", help="On this broker."),
    )


async def addresses(admin: "Admin", cluster: str | None, broker: str | None, with_slaves: bool = False) -> list[str]:
    """Return the addresses of a broker, or of the masters of a cluster; `with_slaves`: also of the slaves.

    Raises: UsageError (neither or both flags are given, or not an address), ClientError (no such cluster).
    """
    if broker is not None and cluster is not None:
        raise UsageError("mqadmin: use either -c CLUSTER or -b HOST:PORT, not both")
    if broker is not None:
        return [format_address(*parse_address(broker))]
    if cluster is None:
        raise UsageError("mqadmin: give -c CLUSTER or -b HOST:PORT")
    if with_slaves:
        return [address for found in (await replicas_in(admin, cluster)).values() for address in found.values()]
    return list((await admin.masters(cluster)).values())


async def replicas_in(admin: "Admin", cluster: str) -> "Replicas":
    """Return masters and slaves of a cluster. Raises: ClientError (no such cluster)."""
    from staticfire.client.admin.replica_choice import none_found, replicas_of

    info = await admin.cluster_info()
    found = replicas_of(info, cluster)
    if not any(found.values()):
        raise ClientError(none_found(info, cluster, None, str(admin.client.nameservers.chosen)))
    return found


async def ask(admin: "Admin", address: str, request: "Request") -> "Answer":
    """Send a request; return a successful response. Raises: BrokerAnswer, NetworkError."""
    from staticfire.protocol.command import SUCCESS
    from staticfire.protocol.errors import broker_answer

    answer = await admin.client.pool.ask(address, request, TIMEOUT_MS)
    if answer.code != SUCCESS:
        raise broker_answer(answer.code, answer.remark, f"{type(request).__name__} at {address}")
    return answer


async def known_group(admin: "Admin", group: str) -> None:
    """Check that a broker has the group, unless one doesn't respond, which may have it. Raises: GroupNotFound."""
    from staticfire.protocol.codes import ResponseCode
    from staticfire.protocol.errors import GroupNotFound, NetworkError

    await admin.readers()  # Without a nameserver, the command ends here.
    try:
        is_known = await admin.has_group(group)
    except NetworkError:
        return  # The command itself reports this broker.
    if not is_known:
        raise GroupNotFound(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"no broker knows group {group}: a group exists after its first consumer connected, or after `mqadmin "
            "updateSubGroup`",
        )


def signed_attributes(text: str) -> dict[str, str]:
    """Parse `+key=value,-key`; return the values by signed name. Raises: UsageError."""
    changes = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        if name[:1] != ("+" if separator else "-"):
            raise UsageError(f"mqadmin: --attributes {part}: write +KEY=VALUE to set one and -KEY to remove it")
        changes[name] = value
    return changes
