"""`staticfire topics`: all topics, a line each."""

import asyncio
from typing import Any

import click

from staticfire.cli.listing import admin_of, print_lines
from staticfire.cli.options import namesrv_flag, protocol_flag
from staticfire.client import Admin
from staticfire.protocol.names import group_of_topic, is_system_topic, reply_topic
from staticfire.protocol.requests.statistics import GetTopicStats

TIMEOUT_MS = 5_000


@click.command()
@namesrv_flag
@protocol_flag
@click.option("--all", "all_of_them", is_flag=True, help="RocketMQ's own ones, retries and dead letters, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per topic.")
def topics(namesrv: str, protocol: str, all_of_them: bool, as_json: bool) -> None:
    """List the topics: on how many brokers each is, its queues, and how many messages are stored."""

    async def look() -> list[dict[str, Any]]:
        async with admin_of(namesrv, protocol) as admin:
            known = await admin.cluster_info()
            clusters = known.cluster_addr_table
            of_servers = {*clusters, *map(reply_topic, clusters), *known.broker_addr_table}
            lines = []
            for name in await admin.topics():
                is_own = group_of_topic(name) is None and not is_system_topic(name, of_servers)
                if is_own or all_of_them:
                    lines.append(await _topic(admin, name))
            return lines

    print_lines(asyncio.run(look()), as_json, "there is no topic so far")


async def _topic(admin: Admin, name: str) -> dict[str, Any]:
    route = await admin.route(name)
    messages = 0
    for broker in route.broker_datas:
        answer = await admin.client.pool.ask(broker.broker_addrs[0], GetTopicStats(name), TIMEOUT_MS)
        if answer.body is not None:
            messages += sum(ends.max_offset - ends.min_offset for ends in answer.body.offset_table.values())
    queues = sum(one.read_queue_nums for one in route.queue_datas)
    return {"topic": name, "brokers": len(route.queue_datas), "queues": queues, "messages": messages}
