"""One topic over HTTP: its queues, its configuration, and which groups consume it up to where.

GET /topics/orders returns it, or 404. Works with RocketMQ's brokers, too.
"""

import asyncio
from collections import Counter
from typing import Any

import msgspec

from staticfire.client import Admin, MessageQueue
from staticfire.client.admin.group_survey import GroupSurvey
from staticfire.client.admin.totals import broker_totals
from staticfire.control.routes import ControlCall, Reply, Route
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import NetworkError, TopicNotFound
from staticfire.protocol.lag import lag_of
from staticfire.protocol.requests.connections import QueryGroupsOfTopic
from staticfire.protocol.requests.group_state import GetGroupState
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.requests.statistics import GetConsumeStats, GetTopicStats
from staticfire.protocol.requests.topics import GetTopicConfig

# How many groups of a topic are surveyed: each survey queries all brokers and all members.
GROUPS_MAX = 20


async def show(call: ControlCall) -> Reply:
    """Return a topic."""
    async with call.cluster.admin() as admin:
        return Reply(await topic_facts(admin, call.place["topic"]))


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
    firsts = {(queue["broker"], queue["queue"]): queue["first"] for part in parts for queue in part["queues"]}
    groups = await _groups_of(admin, names[:GROUPS_MAX], topic, addresses, firsts)
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
        config, stats, groups = [await pool.ask(address, request, admin.timeout_ms) for request in requests]
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


async def _groups_of(
    admin: Admin, names: list[str], topic: str, brokers: dict[str, str], firsts: dict[tuple[str, int], int]
) -> list[dict[str, Any]]:
    """Return the progress of groups in the topic. RocketMQ's brokers must be queried about much more.

    `firsts`: the oldest offset that is stored, by broker and queue.
    """
    totals = await broker_totals(admin.client, brokers, groups=names, timeout_ms=admin.timeout_ms) if names else None
    if totals is None:
        return await asyncio.gather(*(_surveyed(admin, name, topic) for name in names))
    parts = [[part.groups[name] for part in totals.values() if name in part.groups] for name in names]
    members = [len({client for one in some for client in one.members}) for some in parts]
    # Members that broadcast keep their offsets themselves.
    counted = [name for name, some in zip(names, parts, strict=True) if not any(one.broadcasts for one in some)]
    surveys = (_progress(admin, name, topic, brokers, firsts) for name in counted)
    queues = dict(zip(counted, await asyncio.gather(*surveys), strict=True))
    return [
        {
            "group": name,
            "members": count,
            "lag": sum(one["lag"] for one in queues.get(name, [])),
            "queues": queues.get(name, []),
        }
        for name, count in zip(names, members, strict=True)
    ]


async def _progress(
    admin: Admin, group: str, topic: str, brokers: dict[str, str], firsts: dict[tuple[str, int], int]
) -> list[dict[str, Any]]:
    """Return the progress of a group in each queue of a topic. Popped messages count until they are acknowledged."""
    pool = admin.client.pool
    rows: list[dict[str, Any]] = []
    for name, address in sorted(brokers.items()):
        # The offsets first: otherwise a message popped in between would be in neither.
        stats = await pool.ask(address, GetConsumeStats(group, topic), admin.timeout_ms)
        state = await pool.ask(address, GetGroupState(group), admin.timeout_ms)
        popped: Counter[int] = Counter()
        for one in state.body.popped if state.code == SUCCESS and state.body is not None else ():
            if one.topic == topic:
                popped[one.queue_id] += one.count
        table = stats.body.offset_table if stats.code == SUCCESS and stats.body is not None else {}
        for queue_id, offset in sorted((wire.queue_id, offset) for wire, offset in table.items()):
            committed, first = offset.consumer_offset, firsts.get((name, queue_id), 0)
            lag = lag_of(offset.broker_offset, committed, first, popped[queue_id])
            rows.append({"broker": name, "queue": queue_id, "committed": committed, "lag": lag})
    return rows


async def _surveyed(admin: Admin, group: str, topic: str) -> dict[str, Any]:
    """Return a group's progress in the topic, as a survey of the whole group finds it."""
    view = await GroupSurvey(admin.client, await admin.masters(), group, admin.timeout_ms).look()
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
