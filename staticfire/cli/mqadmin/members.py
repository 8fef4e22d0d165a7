"""`staticfire mqadmin`: connected clients, and what members of groups report about themselves."""

import os
from functools import partial
from typing import TYPE_CHECKING

from staticfire.cli.listing import without_controls
from staticfire.cli.mqadmin.frame import AdminSession, ask, command, option, topic_flag
from staticfire.cli.mqadmin.java_text import lines_of
from staticfire.cli.mqadmin.output import file_name, show
from staticfire.cli.mqadmin.running_info import info_text, same_subscriptions, stuck_lines
from staticfire.cli.mqadmin.servers import Servers, report
from staticfire.cli.mqadmin.versions import version_text
from staticfire.client.admin.replica_choice import reader_of
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, ClientError, NetworkError, UsageError
from staticfire.protocol.requests.connections import (
    ClientConnection,
    ConsumerConnections,
    ConsumerRunningInfo,
    GetConsumerConnections,
    GetConsumerRunningInfo,
    GetProducerConnections,
)

if TYPE_CHECKING:
    from staticfire.client import Admin

CONSUMERS, SUBSCRIBED = "%-36s %-22s %-10s %s", "%-20s %s"
PRODUCERS = "%04d  %-32s %-22s %-8s %s"
MEMBERS = "%-10s %-40s %-20s %s"

member_group_flag = option("-g", "--consumerGroup", "group", required=True, metavar="GROUP", help="The consumer group.")
at_broker_flag = option("-b", "--brokerAddr", "broker", metavar="HOST:PORT", help="Query this broker. [default: all]")


@command("consumerConnection")
@member_group_flag
@at_broker_flag
def consumer_connection(session: AdminSession, group: str, broker: str | None) -> None:
    """Show the consumers of a group and their subscriptions."""

    async def work(admin: "Admin") -> None:
        with Servers(admin) as servers:
            await _show_connections(servers, group, broker)

    session.run(work)


async def _show_connections(servers: Servers, group: str, broker: str | None) -> None:
    found = await connections_of(servers, group, broker)
    headings = ("#ClientId", "#ClientAddr", "#Language", "#Version")
    show(lines_of(CONSUMERS, headings, *map(_member_row, found.connection_set)))
    show("\nBelow is subscription:")
    subscribed = sorted((one.topic, one.sub_string) for one in found.subscription_table.values())
    show(lines_of(SUBSCRIBED, ("#Topic", "#SubExpression"), *subscribed))
    show(f"\nConsumeType: {found.consume_type}\nMessageModel: {found.message_model}")
    show(f"ConsumeFromWhere: {found.consume_from_where}")


def _member_row(one: ClientConnection) -> tuple[str, str, str, str]:
    return one.client_id, one.client_addr, one.language, version_text(one.version)


async def connections_of(servers: Servers, group: str, broker: str | None = None) -> ConsumerConnections:
    """Return a group's members at one broker or at all.

    Raises: ClientError (the group isn't online), Exit (a broker that doesn't respond may have members), BrokerAnswer.
    """
    found = ConsumerConnections()
    members: dict[str, ClientConnection] = {}
    # There are no others if the user names one, and then an error that reaches the caller may get a hint.
    query = partial(ask, servers.admin) if broker else servers.ask
    for address in [broker] if broker else (await servers.admin.readers()).values():
        try:
            answer = await query(address, GetConsumerConnections(group))
        except BrokerAnswer as refused:
            if refused.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            continue
        known: ConsumerConnections = (answer and answer.body) or ConsumerConnections()
        members |= {one.client_id: one for one in known.connection_set}
        found = known if known.connection_set else found
    if not members:
        servers.check()
        raise ClientError(f"mqadmin: group {group} has no consumer now: `staticfire group {group}` shows its offsets")
    found.connection_set = [members[client_id] for client_id in sorted(members)]
    return found


@command("producerConnection")
@option("-g", "--producerGroup", "group", required=True, metavar="GROUP", help="The producer group.")
@topic_flag
def producer_connection(session: AdminSession, group: str, topic: str) -> None:
    """Show the producers of a group.

    Queries the brokers that have the topic.
    """

    async def work(admin: "Admin") -> None:
        with Servers(admin) as servers:
            members = await _producers(servers, group, topic)
            if not members:
                servers.check()
                raise ClientError(f"mqadmin: group {group} has no producer for topic {topic} now")
            rows = [_member_row(members[client_id]) for client_id in sorted(members)]
            show(lines_of(PRODUCERS, *((number, *row) for number, row in enumerate(rows, 1))))

    session.run(work)


async def _producers(servers: Servers, group: str, topic: str) -> dict[str, ClientConnection]:
    """Return the members of a producer group by client id, from the brokers that have the topic."""
    members: dict[str, ClientConnection] = {}
    for broker in (await servers.admin.route(topic)).broker_datas:
        try:
            answer = await servers.ask(reader_of(broker.broker_addrs), GetProducerConnections(group))
        except BrokerAnswer:
            continue  # This broker doesn't have the group.
        if answer is not None:
            members |= {one.client_id: one for one in answer.body.connection_set}
    return members


@command("consumerStatus")
@member_group_flag
@option(
    "-i",
    "--clientId",
    "client_id",
    metavar="ID",
    help="Show everything about this member. [default: a summary of all members]",
)
@at_broker_flag
@option("-s", "--jstack", is_flag=True, help="Also show the stacks of its threads and tasks.")
def consumer_status(session: AdminSession, group: str, client_id: str | None, broker: str | None, jstack: bool) -> None:
    """Show what the members of a group are doing.

    Without -i, the report of each member is written to its own file, in a folder named after the current time.
    """

    async def work(admin: "Admin") -> None:
        if client_id is not None:
            show(info_text(await running_info_of(Servers(admin), group, client_id, jstack)))
            return
        with Servers(admin) as servers:
            members = (await connections_of(servers, group, broker)).connection_set
            await _show_members(servers, group, members, jstack)

    session.run(work)


async def _show_members(servers: Servers, group: str, members: list[ClientConnection], jstack: bool) -> None:
    now_ms = servers.admin.client.machine.clock.wall_ms()
    infos: dict[str, ConsumerRunningInfo] = {}
    show(lines_of(MEMBERS, ("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")))
    for member in members:
        try:
            info = await running_info_of(servers, group, member.client_id, jstack)
        except (BrokerAnswer, NetworkError) as refused:
            report(refused)
            continue
        infos[member.client_id] = info
        path = _write(f"{now_ms}/{file_name(member.client_id)}", info_text(info))
        show(lines_of(MEMBERS, (len(infos), member.client_id, version_text(member.version), path)))
    if not infos:
        raise ClientError(f"mqadmin: no member of group {group} reports its state")
    if not same_subscriptions(infos, now_ms):
        show("\n\nWARN: Different subscription in the same group of consumer!!!")
        return
    show("\n\nSame subscription in the same group of consumer\n\nRebalance OK")
    for name, info in infos.items():
        for line in stuck_lines(name, info, now_ms):
            show(line)


def _write(path: str, words: str) -> str:
    """Write a file below the current folder; return its path. Raises: UsageError."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(without_controls(words))
    except OSError as error:
        raise UsageError(f"mqadmin consumerStatus: {path} can't be written: {error.strerror}") from None
    return path


async def running_info_of(servers: Servers, group: str, client_id: str, jstack: bool = False) -> ConsumerRunningInfo:
    """Return a member's own report, through a broker that has it.

    A broker may also time out because the member doesn't respond to it, so it is queried about other members again.
    Raises: BrokerAnswer, NetworkError, Exit (no broker has responded to anything).
    """
    refusal: BrokerAnswer | NetworkError | None = None
    for address in (await servers.admin.readers()).values():
        if address in servers.silent:
            continue
        try:
            answer = await ask(servers.admin, address, GetConsumerRunningInfo(group, client_id, jstack))
        except (BrokerAnswer, NetworkError) as refused:
            if not isinstance(refusal, NetworkError):  # The broker that doesn't respond may have the member.
                refusal = refused
            continue
        info: ConsumerRunningInfo = answer.body
        return info
    if refusal is None:
        servers.check()
    assert refusal is not None  # Each broker is silent, or has refused or failed, and there is at least one.
    raise refusal
