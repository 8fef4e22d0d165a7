"""What a group can't get yet, over HTTP: messages that wait, and messages that it has popped and not acknowledged.

GET /group/billing/waiting returns, for each of its topics, messages with a delay or a time, retries, and transactions
that aren't ended, with the time of the next one; and popped messages in flight, with the clients that have them. Only
staticfire's brokers report this: for a RocketMQ the lists are empty, and `known` is false.
"""

import asyncio
from typing import Any

import msgspec

from staticfire.client import Admin
from staticfire.control.routes import ControlCall, Reply, Route
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import GroupNotFound, NetworkError
from staticfire.protocol.requests.connections import QueryTopicsOfGroup
from staticfire.protocol.requests.group_state import GetGroupState

TOPICS_MAX = 50


async def show(call: ControlCall) -> Reply:
    """Return what waits for a group."""
    group = call.place["group"]
    async with call.cluster.admin() as admin:
        if not await admin.has_group(group):
            raise GroupNotFound(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"no broker knows group {group}")
        masters = await admin.masters()
        known = await asyncio.gather(*(_topics_at(admin, group, name, at) for name, at in masters.items()))
        topics = sorted(set().union(*known))[:TOPICS_MAX]
        parts = await asyncio.gather(*(_at(admin, group, topics, name, at) for name, at in masters.items()))
    return Reply(
        {
            "group": group,
            "known": any(part is not None for part in parts),
            "waiting": [one for part in parts if part for one in part["waiting"]],
            "popped": [one for part in parts if part for one in part["popped"]],
        }
    )


async def _topics_at(admin: Admin, group: str, name: str, address: str) -> set[str]:
    """Return the topics in which one broker knows offsets of the group, or messages that it has popped.

    A group that has acknowledged nothing yet has no offsets.
    """
    pool = admin.client.pool
    try:
        answer = await pool.ask(address, QueryTopicsOfGroup(group, name), admin.timeout_ms)
        state = await pool.ask(address, GetGroupState(group), admin.timeout_ms)
    except NetworkError:
        return set()
    topics = set(answer.body.topic_list) if answer.code == SUCCESS and answer.body is not None else set()
    if state.code == SUCCESS and state.body is not None:
        topics |= {one.topic for one in state.body.popped}
    return topics


async def _at(admin: Admin, group: str, topics: list[str], name: str, address: str) -> dict[str, Any] | None:
    """Return what one broker reports; None if it reports nothing like this."""
    try:
        state = await admin.client.pool.ask(address, GetGroupState(group, ",".join(topics)), admin.timeout_ms)
    except NetworkError:
        return None
    if state.code != SUCCESS or state.body is None:
        return None
    return {
        "waiting": [{"broker": name, **msgspec.to_builtins(one)} for one in state.body.waiting],
        "popped": [{"broker": name, **msgspec.to_builtins(one)} for one in state.body.popped],
    }


ROUTES = (
    Route(
        "GET", "/group/{group}/waiting", "what a group can't get yet: delayed messages, retries, transactions, popped",
        show, refusals={404: "no broker knows the group"},
    ),
)  # fmt: skip
