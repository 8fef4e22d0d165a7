"""`staticfire reset`: a cluster as if it were new, without restarting it."""

import asyncio
from typing import Any

import click

from staticfire.cli.messages import count_of
from staticfire.cli.options import namesrv_flag
from staticfire.client import Admin
from staticfire.control.reset import reset as reset_brokers


@click.command()
@namesrv_flag
def reset(namesrv: str) -> None:
    """Forget all messages, topics, groups and offsets of the cluster."""
    forgotten, brokers = asyncio.run(_reset(namesrv))
    topics, groups = count_of(len(forgotten["topics"]), "topic"), count_of(len(forgotten["groups"]), "group")
    click.echo(f"forgot {topics} and {groups} on {count_of(brokers, 'broker')}")


async def _reset(namesrv: str) -> tuple[dict[str, Any], int]:
    async with Admin(namesrv) as admin:
        addresses = (await admin.masters()).values()
        return await reset_brokers(admin.client.pool, admin.client.nameservers.chosen, addresses), len(addresses)
