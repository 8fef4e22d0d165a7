"""What the commands of `staticfire mqadmin` have in common: the group, flags under RocketMQ's names, how they ask."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import click

from staticfire.cli.command_groups import Commands
from staticfire.client import Admin
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import UsageError, broker_answer
from staticfire.protocol.requests.groups import GetAllGroups, GroupConfigTable

TIMEOUT_MS = 5_000
Work = Callable[[Admin], Awaitable[None]]


class AnyCase(Commands):
    """Finds commands whatever their case is, as RocketMQ's does: quick starts write `updatetopic`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return next((self.commands[name] for name in self.commands if name.lower() == cmd_name.lower()), None)

    def unknown(self, name: str) -> str:
        return f"there is no command {name} here, only {', '.join(sorted(self.commands))}; RocketMQ's own works, too"


@click.group(cls=AnyCase)
def mqadmin() -> None:
    """Administration with the commands and flags of RocketMQ's mqadmin."""


def option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """A flag under RocketMQ's two names."""
    return click.option(*names, **settings)


topic_flag = option("-t", "--topic", required=True, metavar="TOPIC")
group_flag_short = option("-g", "--group", "group", required=True, metavar="GROUP")
group_flag = option("-g", "--groupName", "group", required=True, metavar="GROUP")


def target_flags(command: Any) -> Any:
    """`-c` and `-b`, one of which says where."""
    command = option("-b", "--brokerAddr", "broker", metavar="HOST:PORT", help="On this broker.")(command)
    return option("-c", "--clusterName", "cluster", metavar="CLUSTER", help="On all brokers of a cluster.")(command)


def run(namesrv: str, work: Work) -> None:
    """Do the work with an administrator's connection."""

    async def connected() -> None:
        async with Admin(namesrv) as admin:
            await work(admin)

    asyncio.run(connected())


async def addresses(admin: Admin, cluster: str | None, broker: str | None) -> list[str]:
    """Return where to ask. Raises: UsageError (neither is given), ClientError (no such cluster)."""
    if broker is not None:
        return [broker]
    if cluster is None:
        raise UsageError("mqadmin: say where: -c CLUSTER or -b HOST:PORT")
    return list((await admin.masters(cluster)).values())


async def is_group(admin: Admin, group: str) -> bool:
    """Tell whether any broker knows a group. Asking for it by name could create it."""
    for address in (await admin.masters()).values():
        known: GroupConfigTable = (await ask(admin, address, GetAllGroups())).body
        if group in known.subscription_group_table:
            return True
    return False


async def ask(admin: Admin, address: str, request: Request) -> Answer:
    """Return an answer. Raises: BrokerAnswer, NetworkError."""
    answer = await admin.client.pool.ask(address, request, TIMEOUT_MS)
    if answer.code != SUCCESS:
        raise broker_answer(answer.code, answer.remark, f"{type(request).__name__} at {address}")
    return answer
