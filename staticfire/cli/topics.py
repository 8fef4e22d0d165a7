"""`staticfire topics`: all topics, one line each."""

from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.family import FamilyCommand, json_flag, watch_flag
from staticfire.cli.listing import print_lines, watched, with_admin
from staticfire.cli.options import namesrv_flag, protocol_flag

if TYPE_CHECKING:
    from staticfire.client import Admin


@click.command(cls=FamilyCommand)
@namesrv_flag
@protocol_flag
@click.option("--all", "all_of_them", is_flag=True, help="Include RocketMQ's own topics, retries and dead letters.")
@json_flag
@watch_flag
def topics(namesrv: str, protocol: str, all_of_them: bool, as_json: bool, watch_s: float | None) -> None:
    """List the topics: the number of brokers, queues and stored messages of each."""

    async def ask(admin: "Admin") -> list[dict[str, Any]]:
        from staticfire.client.admin.listing import list_topics

        return await list_topics(admin, all_of_them)

    def look() -> int:
        print_lines(with_admin(namesrv, protocol, ask), as_json, "no topics")
        return 0

    watched(watch_s, look)
