"""`staticfire reset`: empty a cluster without restarting it."""

from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.family import FamilyCommand, json_flag
from staticfire.cli.listing import print_json, with_admin
from staticfire.cli.messages import count_of
from staticfire.cli.options import namesrv_flag

if TYPE_CHECKING:
    from staticfire.client import Admin


@click.command(cls=FamilyCommand)
@namesrv_flag
@json_flag
def reset(namesrv: str, as_json: bool) -> None:
    """Delete all messages, topics, groups and offsets of the cluster."""

    async def ask(admin: "Admin") -> tuple[dict[str, Any], int]:
        from staticfire.control.reset import empty
        from staticfire.control.whole_cluster import KnownBrokers, undisturbed

        servers = await undisturbed(admin.client.pool, namesrv, KnownBrokers())
        return await empty(admin.client.pool, servers), len(servers.masters)

    forgotten, brokers = with_admin(namesrv, "staticfire", ask)
    if as_json:
        print_json({**forgotten, "brokers": brokers})
        return
    topics, groups = (count_of(len(forgotten["topics"]), "topic"), count_of(len(forgotten["groups"]), "group"))
    click.echo(f"deleted {topics} and {groups} on {count_of(brokers, 'broker')}")
