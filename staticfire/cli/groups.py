"""`staticfire groups`: all consumer groups, a line each."""

import asyncio
from typing import Any

import click

from staticfire.cli.listing import admin_of, print_lines
from staticfire.cli.options import namesrv_flag, protocol_flag
from staticfire.protocol.names import is_system_group
from staticfire.protocol.requests.groups import GetAllGroups

TIMEOUT_MS = 5_000


@click.command()
@namesrv_flag
@protocol_flag
@click.option("--all", "all_of_them", is_flag=True, help="RocketMQ's own ones, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per group.")
def groups(namesrv: str, protocol: str, all_of_them: bool, as_json: bool) -> None:
    """List the consumer groups: how many members each has, and how far behind it is.

    `staticfire group NAME` shows one of them, `staticfire explain NAME` why it consumes nothing.
    """

    async def look() -> list[dict[str, Any]]:
        async with admin_of(namesrv, protocol) as admin:
            names: set[str] = set()
            for address in (await admin.masters()).values():
                answer = await admin.client.pool.ask(address, GetAllGroups(), TIMEOUT_MS)
                names |= set(answer.body.subscription_group_table) if answer.body is not None else set()
            views = [await admin.group(name) for name in sorted(names) if all_of_them or not is_system_group(name)]
            return [
                {"group": one.group, "members": len(one.members), "lag": one.lag, "deadLetters": one.dead_letters,
                 "warnings": len(one.warnings)}
                for one in views
            ]  # fmt: skip

    print_lines(asyncio.run(look()), as_json, "no consumer has connected so far")
