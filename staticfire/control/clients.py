"""Connected clients over HTTP: producers, and the members of groups.

Behaviour
- GET /producers lists the producers of all brokers.
- GET /group/billing/members/ID returns what a member reports about itself; ?stack=1: with the stacks of its threads.
- POST /group/billing/consume `{"id": "...", "client": "..."}` lets a member consume one message now, whether or not the
  group has consumed it before; without a client, any member. The response has the listener's result.
- 404 for an unknown member or message.
"""

import asyncio
from typing import Annotated, Any

import msgspec

from staticfire.client import Admin
from staticfire.control.routes import ControlCall, Parameter, Reply, Route, read_body
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import BrokerAnswer, NetworkError, broker_answer
from staticfire.protocol.requests.connections import (
    ConsumeDirectly,
    ConsumerRunningInfo,
    GetAllProducers,
    GetConsumerRunningInfo,
)

FORMS = 'write {"id": "7F00..."}'


class WantedConsumption(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST."""

    id: Annotated[str, msgspec.Meta(description="an id of the message")]
    client: Annotated[str, msgspec.Meta(description="the id of a member; empty: any member")] = ""


async def producers(call: ControlCall) -> Reply:
    """Return all producers."""
    async with call.cluster.admin() as admin:
        masters = await admin.masters()
        parts = await asyncio.gather(*(_producers_at(admin, name, at) for name, at in masters.items()))
    found = sorted(
        (one for part in parts for one in part), key=lambda one: (one["group"], one["client"], one["broker"])
    )
    return Reply({"producers": found})


async def _producers_at(admin: Admin, name: str, address: str) -> list[dict[str, Any]]:
    """Return the producers of a broker; none if it doesn't respond."""
    try:
        answer = await admin.client.pool.ask(address, GetAllProducers(), admin.timeout_ms)
    except NetworkError:
        return []
    if answer.code != SUCCESS or answer.body is None:
        return []
    return [
        {
            "group": group,
            "client": one.client_id,
            "address": one.remote_ip,
            "language": one.language,
            "broker": name,
            "seenMs": one.last_update_timestamp,
        }
        for group, clients in answer.body.data.items()
        for one in clients
    ]


async def member(call: ControlCall) -> Reply:
    """Return what a member of a group reports about itself."""
    group, client_id = call.place["group"], call.place["client"]
    request = GetConsumerRunningInfo(group, client_id, jstack_enable=call.query.get("stack", False))
    refused = "it reports no state"
    async with call.cluster.admin() as admin:
        for address in (await admin.masters()).values():
            answer = await admin.client.pool.ask(address, request, admin.timeout_ms)
            if answer.code == SUCCESS and answer.body is not None:
                return Reply(_shown(group, client_id, answer.body))
            refused = answer.remark or refused
    return Reply({"error": f"member {client_id} of group {group}: {refused}"}, 404)


def _shown(group: str, client_id: str, info: ConsumerRunningInfo) -> dict[str, Any]:
    queues = [
        {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id, **msgspec.to_builtins(held)}
        for queue, held in [*info.mq_table.items(), *info.mq_pop_table.items()]
    ]
    return {
        "group": group,
        "client": client_id,
        "properties": info.properties,
        "subscriptions": [msgspec.to_builtins(one) for one in info.subscription_set],
        "queues": queues,
        "consumption": {topic: msgspec.to_builtins(one) for topic, one in info.status_table.items()},
        "stack": info.jstack or "",
    }


async def consume(call: ControlCall) -> Reply:
    """Let a member consume a message."""
    wanted: WantedConsumption = read_body(call.body, WantedConsumption, FORMS)
    group = call.place["group"]
    async with call.cluster.admin() as admin:
        found = await admin.find(wanted.id)
        if not found:
            return Reply({"error": f"no message has the id {wanted.id}"}, 404)
        message = found[0]
        client_id = wanted.client or next((one.client_id for one in await admin.members(group)), "")
        if not client_id:
            return Reply({"error": f"group {group} has no member that could consume it; start a consumer"}, 404)
        address = (await admin.masters(broker_name=message.broker_name))[message.broker_name]
        place = message.offset_message_id, message.broker_name, message.record.topic
        request = ConsumeDirectly(group, client_id, *place)
        answer = await admin.client.pool.ask(address, request, admin.look_up_timeout_ms)
    if answer.code != SUCCESS or answer.body is None:
        refusal: BrokerAnswer = broker_answer(answer.code, answer.remark, f"{client_id} of {group}")
        raise refusal
    done = answer.body
    return Reply(
        {"client": client_id, "result": done.consume_result, "remark": done.remark, "ms": done.spent_time_mills}
    )


ROUTES = (
    Route("GET", "/producers", "all producers: group, client, address", producers),
    Route(
        "GET", "/group/{group}/members/{client}", "what a member reports about itself; ?stack=1: with its stacks",
        member, (Parameter("stack", "with the stacks of its threads", "boolean"),),
        refusals={404: "the group has no such member, or it doesn't respond"},
    ),
    Route(
        "POST", "/group/{group}/consume", f"let a member consume a message now: {FORMS.removeprefix('write ')}",
        consume, body=WantedConsumption, refusals={404: "there is no such message, or no member"},
    ),
)  # fmt: skip
