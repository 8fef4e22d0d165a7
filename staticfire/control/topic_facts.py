"""One topic over HTTP: its queues, its configuration, and which groups consume it up to where.

GET /topics/orders returns it, or 404. Works with RocketMQ's brokers, too.
"""

import asyncio
from typing import Any

import msgspec

from staticfire.client import Admin, MessageQueue
from staticfire.client.admin.admin import ADMIN_TIMEOUT_MS
from staticfire.client.admin.group_survey import GroupSurvey
from staticfire.client.cluster.routes import MASTER_ID
from staticfire.control.routes import ControlCall, Reply, Route
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import NetworkError, TopicNotFound
from staticfire.protocol.requests.connections import QueryGroupsOfTopic
from staticfire.protocol.requests.statistics import GetTopicStats
from staticfire.protocol.requests.topics import GetTopicConfig

# How many groups of a topic are surveyed: each survey queries all brokers and all members.
GROUPS_MAX = 20


async def show(asked: ControlCall) -> Reply:
    """Return a topic."""
    async with asked.cluster.admin() as admin:
        return Reply(await topic_facts(admin, asked.place["topic"]))


async def topic_facts(admin: Admin, topic: str) -> dict[str, Any]:
    """Return a topic's brokers, queues and groups. Raises: TopicNotFound, NetworkError."""
    route = await admin.client.routes.fetch(topic)
    addresses = {
        one.broker_name: one.broker_addrs[MASTER_ID] for one in route.broker_datas if MASTER_ID in one.broker_addrs
    }
    parts = await asyncio.gather(*(_of_broker(admin, topic, name, at) for name, at in sorted(addresses.items())))
    if all(part["gone"] for part in parts) and parts:
        raise TopicNotFound(ResponseCode.TOPIC_NOT_EXIST, f"there is no topic {topic}: it was deleted meanwhile")
    names = sorted({name for part in parts for name in part["groups"]})
    groups = await asyncio.gather(*(_group(admin, name, topic) for name in names[:GROUPS_MAX]))
    return {
        "topic": topic,
        "messages": sum(queue["count"] for part in parts for queue in part["queues"]),
        "brokers": [part["config"] for part in parts],
        "queues": [queue for part in parts for queue in part["queues"]],
        "groups": groups,
        "moreGroups": names[GROUPS_MAX:],
    }


async def _of_broker(admin: Admin, topic: str, name: str, address: str) -> dict[str, Any]:
    """Return what one broker has of a topic. A broker that doesn't respond is a problem, not an error."""
    pool = admin.client.pool
    requests = GetTopicConfig(topic=topic, bname=name), GetTopicStats(topic, name), QueryGroupsOfTopic(topic, name)
    try:
        config, stats, groups = [await pool.ask(address, request, ADMIN_TIMEOUT_MS) for request in requests]
    except NetworkError as error:
        return {"config": {"broker": name, "problem": str(error)}, "queues": [], "groups": [], "gone": False}
    has_config = config.code == SUCCESS and config.body is not None
    shown = msgspec.to_builtins(config.body) if has_config else {}
    return {
        "config": {
            "broker": name,
            "readQueues": shown.get("readQueueNums", 0),
            "writeQueues": shown.get("writeQueueNums", 0),
            "perm": shown.get("perm", 0),
            "order": shown.get("order", False),
            "attributes": shown.get("attributes") or {},
            "problem": "" if has_config else config.remark,
        },
        "queues": _queues(name, stats.body.offset_table if stats.code == SUCCESS and stats.body is not None else {}),
        "groups": groups.body.group_list if groups.code == SUCCESS and groups.body is not None else [],
        "gone": config.code == ResponseCode.TOPIC_NOT_EXIST,
    }


def _queues(broker: str, table: dict[Any, Any]) -> list[dict[str, Any]]:
    ends = sorted((wire.queue_id, one) for wire, one in table.items())
    return [
        {
            "broker": broker,
            "queue": queue_id,
            "first": one.min_offset,
            "end": one.max_offset,
            "count": one.max_offset - one.min_offset,
            "storedMs": one.last_update_timestamp,
        }
        for queue_id, one in ends
    ]


async def _group(admin: Admin, group: str, topic: str) -> dict[str, Any]:
    """Return a group's progress in the topic."""
    view = await GroupSurvey(admin.client, await admin.masters(), group, ADMIN_TIMEOUT_MS).look()
    progress = [one for one in view.progress if one.topic == topic]
    return {
        "group": group,
        "members": len(view.members),
        "lag": sum(one.lag for one in progress),
        "queues": [
            {"broker": one.broker_name, "queue": one.queue_id, "committed": one.committed, "lag": one.lag}
            for one in progress
        ],
    }


def queue_of(topic: str, row: dict[str, Any]) -> MessageQueue:
    """Return the queue of a row of `topic_facts`."""
    return MessageQueue(topic, row["broker"], row["queue"])


ROUTES = (
    Route(
        "GET", "/topics/{topic}", "a topic: its queues, its configuration, and the groups that consume it", show,
        refusals={404: "there is no such topic"},
    ),
)  # fmt: skip
