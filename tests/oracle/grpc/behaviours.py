"""What takes several calls: each on topics and groups of its own, so that they run side by side."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from staticfire.client import Admin
from staticfire.protocol.requests.connections import ConsumeDirectly, GetConsumerConnections, GetConsumerRunningInfo
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from tests.oracle.grpc.requests import (
    ack,
    bury,
    change,
    consumer_settings,
    end,
    message,
    producer_settings,
    receive,
    resource,
    send,
)
from tests.oracle.grpc.side import EndpointSide, Facts, facts_of

PATIENCE_S = 40
POLL_S = 19
BUSY_S = 15
"""What a busy machine makes later than this is a finding."""


class Shop:
    """One behaviour's topic, group and clients."""

    def __init__(self, side: EndpointSide, name: str) -> None:
        self.side = side
        self.topic, self.group = f"{side.run}{name}", f"{side.run}{name}-g"

    async def open(self, kind: str = "NORMAL", queues: int = 1, **group: Any) -> "Shop":
        """Make topic and group, and introduce a consumer and a producer."""
        await self.side.admin.create_topic(self.topic, queues, attributes={"message.type": kind})
        await self.side.admin.create_group(SubscriptionGroupConfig(self.group, **group))
        await self.side.telemetry(consumer_settings(self.group, self.topic), self.group)
        await self.side.telemetry(producer_settings(self.topic), self.topic)
        return self

    async def send(self, message_id: str, body: bytes = b"paid", **system: Any) -> pb.SendResultEntry:
        """Send a message."""
        request = send(message(self.topic, message_id, body, **system))
        answer = await self.side.unary("SendMessage", request, self.topic)
        assert answer.status.code == pb.OK, answer
        entry: pb.SendResultEntry = answer.entries[0]
        return entry

    async def received(self, **more: Any) -> list[pb.Message]:
        """Receive once."""
        request = receive(self.topic, self.group, **more)
        answer = await self.side.call("ReceiveMessage", request, self.group)
        responses = [pb.ReceiveMessageResponse.FromString(data) for data in answer.messages]
        return [one.message for one in responses if one.HasField("message")]

    async def until(self, count: int = 1, **more: Any) -> list[pb.Message]:
        """Receive until so many are there."""
        got: list[pb.Message] = []
        end_s = time.monotonic() + PATIENCE_S
        while len(got) < count and time.monotonic() < end_s:
            got += await self.received(**more)
        return got

    async def ack(self, *messages: pb.Message) -> Facts:
        """Acknowledge."""
        handles = [one.system_properties.receipt_handle for one in messages]
        return await self.side.requested("AckMessage", ack(self.topic, self.group, *handles), self.group)

    async def change(self, one: pb.Message, seconds: int) -> Any:
        """Change an invisible time."""
        request = change(self.topic, self.group, one.system_properties.receipt_handle, seconds)
        return await self.side.unary("ChangeInvisibleDuration", request, self.group)


def ids(messages: Sequence[pb.Message]) -> list[str]:
    """Return the ids of messages."""
    return [one.system_properties.message_id for one in messages]


def attempts(messages: Sequence[pb.Message]) -> list[int]:
    """Return the how-manieth time each is given."""
    return [one.system_properties.delivery_attempt for one in messages]


async def a_message_arrives(side: EndpointSide) -> Facts:
    """15, 26: everything that a client sees of it."""
    shop = await Shop(side, "arrives").open()
    await shop.send("A1", tag="red", keys=["k1", "k2"], user={"colour": "blue"}, trace_context="t")
    request = receive(shop.topic, shop.group)
    return facts_of("ReceiveMessage", await side.call("ReceiveMessage", request, shop.group))


async def acknowledgements(side: EndpointSide) -> Facts:
    """32, 33: once, twice, with others."""
    shop = await Shop(side, "acks").open()
    for number in range(3):
        await shop.send(f"K{number}")
    first, second, third = await shop.until(3)
    facts = {f"once {key}": value for key, value in (await shop.ack(first)).items()}
    facts |= {f"twice {key}": value for key, value in (await shop.ack(first)).items()}
    handles = second.system_properties.receipt_handle, "garbage"
    with_others = await side.requested("AckMessage", ack(shop.topic, shop.group, *handles), shop.group)
    facts |= {f"with garbage {key}": value for key, value in with_others.items()}
    other = f"{shop.group}-other"
    await side.telemetry(consumer_settings(other, shop.topic), other)
    theirs = ack(shop.topic, other, third.system_properties.receipt_handle)
    facts |= {
        f"another group's {key}": value for key, value in (await side.requested("AckMessage", theirs, other)).items()
    }
    return facts


async def tags(side: EndpointSide) -> Facts:
    """30: A || B of four messages."""
    shop = await Shop(side, "tags").open()
    for number, tag in enumerate(("A", "B", "C")):
        await shop.send(f"T{number}", tag=tag)
    await shop.send("T3")
    return {"got": sorted(ids(await shop.until(2, tags="A||B")))}


async def conditions(side: EndpointSide) -> Facts:
    """SQL92 over properties."""
    shop = await Shop(side, "sql").open()
    for number in range(6):
        await shop.send(f"S{number}", user={"n": str(number)})
    return {"got": sorted(ids(await shop.until(2, sql="n > 3")))}


async def a_held_receive(side: EndpointSide) -> Facts:
    """27, 31: answered when a message comes."""
    shop = await Shop(side, "held").open()
    waiting = asyncio.create_task(shop.received(poll_s=POLL_S))
    await asyncio.sleep(1)  # house: until the receive is held, of which a foreign endpoint tells nobody
    began = time.monotonic()
    await shop.send("H1")
    got = await waiting
    return {"got": ids(got), "soon": time.monotonic() - began < POLL_S / 2}


async def changes(side: EndpointSide) -> Facts:
    """34: for longer, and for no time at all; the message will be redelivered."""
    shop = await Shop(side, "changes").open()
    await shop.send("C1")
    (one,) = await shop.until()
    facts: Facts = {}
    changed = await shop.change(one, 10)
    facts["changed"], facts["parts"] = changed.status.code, len(changed.receipt_handle.split())
    one.system_properties.receipt_handle = changed.receipt_handle
    facts["now"] = (await shop.change(one, 0)).status.code
    again = await shop.until()
    return facts | {"again": ids(again), "attempts": attempts(again)}


async def in_order(side: EndpointSide) -> Facts:
    """35-37: a queue waits for its acknowledgements; attempt ids; a failure holds up what is behind."""
    shop = await Shop(side, "ordered").open("FIFO", consume_message_orderly=True)
    for number in range(3):
        await shop.send(f"F{number}", message_group="g")
    (first,) = await shop.received(batch_size=1, attempt_id="one")
    same = await shop.received(batch_size=1, attempt_id="one")
    facts: Facts = {"first": ids([first]), "same": ids(same), "another": ids(await shop.received(attempt_id="two"))}
    facts["failed"] = (await shop.change(same[0], 1)).status.code
    again = await shop.until(batch_size=1)
    facts |= {"again": ids(again), "attempts": attempts(again)}
    facts["behind it"] = ids(await shop.received())
    await shop.ack(*again)
    return facts | {"at last": ids(await shop.until(2))}


async def dead_letters(side: EndpointSide) -> Facts:
    """38, 39: after the group's attempts, and given up by hand."""
    shop = await Shop(side, "dies").open(retry_max_times=1)
    await shop.send("L1", tag="red", keys=["k"], user={"colour": "blue"})
    facts: Facts = {}
    for number in range(2):
        (one,) = await shop.until()
        facts[f"attempt {number}"] = attempts([one])
        await shop.change(one, 1)
    answer = pb.ReceiveMessageResponse()
    for _ in range(4):
        third = await side.call("ReceiveMessage", receive(shop.topic, shop.group), shop.group)
        answer = pb.ReceiveMessageResponse.FromString(third.messages[0])
        if answer.status.message == "no match message":
            break
    facts["third"] = answer.status.message
    await shop.send("L2")
    (one,) = await shop.until()
    request = bury(shop.topic, shop.group, one.system_properties.receipt_handle)
    facts |= {f"buried {key}": v for key, v in (
        await side.requested("ForwardMessageToDeadLetterQueue", request, shop.group)).items()}  # fmt: skip
    dead = Shop(side, "dies-reader")
    dead.topic = f"%DLQ%{shop.group}"
    await side.telemetry(consumer_settings(dead.group, dead.topic), dead.group)
    for one in sorted(await _letters(dead), key=lambda each: each.system_properties.message_id):
        name = one.system_properties.message_id
        system = one.system_properties
        facts[f"{name} tag"], facts[f"{name} keys"] = system.tag, list(system.keys)
        facts[f"{name} user"], facts[f"{name} body"] = dict(one.user_properties).get("colour"), one.body
    return facts


async def _letters(dead: Shop) -> list[pb.Message]:
    """Read a topic of dead letters, which a nameserver may hear of late."""
    end_s = time.monotonic() + PATIENCE_S
    got: list[pb.Message] = []
    while len(got) < 2 and time.monotonic() < end_s:
        try:
            got += await dead.received()
        except AssertionError:
            pass
        await asyncio.sleep(0.5)  # house: a nameserver tells nobody of a new topic
    return got


async def transactions(side: EndpointSide) -> Facts:
    """40, 41: commit, commit again, rollback."""
    shop = await Shop(side, "halves-too").open("TRANSACTION")
    facts: Facts = {}
    for name, resolution in {"commit": pb.COMMIT, "rollback": pb.ROLLBACK}.items():
        entry = await shop.send(name, message_type=pb.TRANSACTION)
        facts[f"{name} id"] = entry.transaction_id == entry.message_id
        for time_s in ("first", "second"):
            reported = await side.requested(
                "EndTransaction", end(shop.topic, entry.transaction_id, resolution), shop.topic
            )
            facts |= {f"{name} {time_s} {key}": value for key, value in reported.items()}
    (one,) = await shop.until()
    facts |= {"got": ids([one]), "type": one.system_properties.message_type, "user": sorted(one.user_properties)}
    return facts | {"more": ids(await shop.received())}


async def delays_and_recalls(side: EndpointSide) -> Facts:
    """22, 43, 44: a time is kept; what is called back never comes."""
    shop = await Shop(side, "later").open("DELAY")
    handles = {}
    began = time.time()
    for name, seconds in {"soon": 3, "never": 4}.items():
        late = message(shop.topic, name, message_type=pb.DELAY)
        late.system_properties.delivery_timestamp.FromNanoseconds(int((began + seconds) * 1e9))
        answer = await side.unary("SendMessage", send(late), shop.topic)
        handles[name] = answer.entries[0].recall_handle
    request = pb.RecallMessageRequest(topic=resource(shop.topic), recall_handle=handles["never"])
    facts = {f"recall {key}": value for key, value in (await side.requested("RecallMessage", request)).items()}
    got = await shop.until()
    took_s = time.time() - began
    facts |= {"got": ids(got), "in time": 2 < took_s < BUSY_S, "type": got[0].system_properties.message_type}
    request = pb.RecallMessageRequest(topic=resource(shop.topic), recall_handle=handles["soon"])
    late_facts = await side.requested("RecallMessage", request)
    facts |= {f"recall too late {key}": value for key, value in late_facts.items()}
    return facts | {"more": ids(await shop.received())}


async def goodbyes(side: EndpointSide) -> Facts:
    """8, 46: who says goodbye is forgotten."""
    shop = await Shop(side, "bye").open()
    request = pb.NotifyClientTerminationRequest(group=resource(shop.group))
    beat = pb.HeartbeatRequest(group=resource(shop.group), client_type=pb.SIMPLE_CONSUMER)
    facts = {f"alive {k}": v for k, v in (await side.requested("Heartbeat", beat, shop.group)).items()}
    facts |= {f"bye {k}": v for k, v in (await side.requested("NotifyClientTermination", request, shop.group)).items()}
    facts |= {f"dead {k}": v for k, v in (await side.requested("Heartbeat", beat, shop.group)).items()}
    return facts | {f"bye {k}": v for k, v in (
        await side.requested("NotifyClientTermination", request, shop.group)).items()}  # fmt: skip


async def questions_of_administrators(side: EndpointSide) -> Facts:
    """What a broker says of a consumer behind an endpoint: its running info, its stack, a message just for it."""
    shop = await Shop(side, "asked").open()
    beat = pb.HeartbeatRequest(group=resource(shop.group), client_type=pb.SIMPLE_CONSUMER)
    await side.unary("Heartbeat", beat, shop.group)
    ((name, address),) = (await side.admin.masters()).items()
    facts: Facts = {}
    for what, request in {
        "info": GetConsumerRunningInfo(shop.group, shop.group, False),
        "stack": GetConsumerRunningInfo(shop.group, shop.group, True),
        "message": ConsumeDirectly(shop.group, shop.group, "7F00000100002A9F0000000000000000", name, shop.topic),
        "connections": GetConsumerConnections(shop.group),
    }.items():
        facts[what] = (await side.admin.client.pool.ask(address, request, 8_000)).code
    return facts


BEHAVIOURS: dict[str, Callable[[EndpointSide], Awaitable[Facts]]] = {
    "a message arrives": a_message_arrives,
    "acknowledgements": acknowledgements,
    "tags": tags,
    "conditions": conditions,
    "a held receive": a_held_receive,
    "changes": changes,
    "in order": in_order,
    "dead letters": dead_letters,
    "transactions": transactions,
    "delays and recalls": delays_and_recalls,
    "goodbyes": goodbyes,
    "questions of administrators": questions_of_administrators,
}


async def make(admin: Admin, run: str, topics: dict[str, str], groups: dict[str, dict[str, Any]]) -> None:
    """Make what single calls need."""
    for name, kind in topics.items():
        await admin.create_topic(f"{run}{name}", 4, attributes={"message.type": kind} if kind else None)
    await admin.create_topic(f"{run}readonly", 2, perm=4)
    for name, fields in groups.items():
        await admin.create_group(SubscriptionGroupConfig(f"{run}{name}", **fields))
