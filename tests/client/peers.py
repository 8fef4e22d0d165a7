"""A nameserver and brokers that answer real frames and do what a test tells them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from staticfire.client.cluster.settings import ClientSettings, ProducerSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, Records, refusal
from staticfire.protocol.message_ids import offset_id, offset_id_prefix
from staticfire.protocol.record import pack_record, pack_topic
from staticfire.protocol.requests.clients import (
    ConsumerIdList,
    ConsumerListAnswer,
    HeartbeatAnswer,
    HeartbeatData,
)
from staticfire.protocol.requests.offsets import OffsetAnswer
from staticfire.protocol.requests.pull import FLAG_SUSPEND, PullAnswer
from staticfire.protocol.requests.routes import BrokerData, QueueData, RouteAnswer, TopicRouteData
from staticfire.protocol.requests.send import ManyMessage, ManyResult, SendAnswer, SendManyAnswer
from staticfire.protocol.rocketmq_record import decode_batch
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.machine import Machine
from staticfire.runtime.server import Server
from staticfire.runtime.service import Service
from staticfire.simulation.world import SimulatedWorld

NAMESRV_HOST, NAMESRV_PORT = "10.0.0.1", 9876
NAMESRV = f"{NAMESRV_HOST}:{NAMESRV_PORT}"
BROKER_PORT = 10911


class FakeNameserver(Service):
    """Knows the routes that a test puts into `routes`."""

    def __init__(self, machine: Machine, host: str = NAMESRV_HOST) -> None:
        super().__init__()
        self.routes: dict[str, TopicRouteData] = {}
        self.requested: list[str] = []
        self._host = host
        dispatcher = Dispatcher()
        dispatcher.handle(105, self._route)
        self._server = Server(machine, dispatcher)

    async def _start(self) -> None:
        await self._server.listen(self._host, NAMESRV_PORT)

    async def _stop(self) -> None:
        await self._server.close()

    def _route(self, call: Call) -> Answer:
        self.requested.append(call.request.topic)
        route = self.routes.get(call.request.topic)
        if route is None:
            return refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic route info: {call.request.topic}")
        return RouteAnswer(body=route)


@dataclass
class Arrival:
    """One message as a broker got it."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    sys_flag: int = 0
    reconsume_times: int | None = None


Verdict = Callable[[Arrival], int]


@dataclass
class Journal:
    """What came to a broker, request by request."""

    requests: list[list[Arrival]] = field(default_factory=list)
    oneway: list[Arrival] = field(default_factory=list)
    heartbeats: list[HeartbeatData] = field(default_factory=list)
    goodbyes: list[str | None] = field(default_factory=list)
    commits: list[tuple[int, bool]] = field(default_factory=list)  # Offset, and whether an answer was wanted.
    pull_flags: list[int] = field(default_factory=list)
    pull_bytes: list[int | None] = field(default_factory=list)

    @property
    def bodies(self) -> list[bytes]:
        return [arrival.body for request in self.requests for arrival in request]

    @property
    def sizes(self) -> list[int]:
        return [len(request) for request in self.requests]


class FakeBroker(Service):
    """Takes messages; `verdict` gives each its code, `hold` keeps answers back until `release`."""

    def __init__(self, machine: Machine, name: str, host: str) -> None:
        super().__init__()
        self.name = name
        self.host = host
        self.journal = Journal()
        self.verdict: Verdict = lambda _: 0
        self.hold = False
        self.refuses_many = False
        self.holds_pulls = False  # For good, if they find nothing.
        self.stored_offset = 0  # Of every group in every queue; a commit puts an illegal one right.
        self.stored: dict[tuple[str, int], list[Arrival]] = {}
        self._held: list[Callable[[], None]] = []
        dispatcher = Dispatcher()
        for code in (10, 310, 320):
            dispatcher.handle(code, self._send)
        dispatcher.handle(9001, self._send_many)
        for code in (11, 361):
            dispatcher.handle(code, self._pull)
        dispatcher.handle(14, lambda call: self._offset())
        dispatcher.handle(15, self._commit)
        dispatcher.handle(34, self._heartbeat)
        dispatcher.handle(35, self._goodbye)
        dispatcher.handle(38, self._members)
        self._server = Server(machine, dispatcher)

    @property
    def address(self) -> str:
        return f"{self.host}:{BROKER_PORT}"

    async def _start(self) -> None:
        await self._server.listen(self.host, BROKER_PORT)

    async def _stop(self) -> None:
        await self._server.close()

    def release(self) -> None:
        """Give the answers that were kept back; keep back no more."""
        self.hold = False
        held, self._held = self._held, []
        for answer in held:
            answer()

    def _answer(self, call: Call, answer: Answer) -> Answer | None:
        if not self.hold:
            return answer
        self._held.append(lambda: call.answer(answer))
        return None

    def _store(self, arrival: Arrival) -> tuple[int, int]:
        code = self.verdict(arrival)
        queue = self.stored.setdefault((arrival.topic, arrival.queue_id), [])
        if code in (0, 10, 11, 12):
            queue.append(arrival)
        return code, len(queue) - 1

    def _send_many(self, call: Call) -> Answer | None:
        messages: list[ManyMessage] = call.request.body
        arrivals = [Arrival(each.topic, each.queue_id, each.body, each.properties, each.sys_flag) for each in messages]
        self.journal.requests.append(arrivals)
        if self.refuses_many:
            return self._answer(call, refusal(ResponseCode.SYSTEM_BUSY, "no"))
        results = []
        for arrival in arrivals:
            code, offset = self._store(arrival)
            results.append(ManyResult(code, arrival.queue_id, offset, offset * 1000, None if code == 0 else "no"))
        return self._answer(call, SendManyAnswer(body=results))

    def _send(self, call: Call) -> Answer | None:
        request = call.request
        properties = (request.properties or "").encode()
        parts = (
            [(each.body, each.properties) for each in decode_batch(request.body)]
            if request.batch
            else [(request.body, properties)]
        )
        arrivals = [
            Arrival(request.topic, request.queue_id, body, text, request.sys_flag, request.reconsume_times)
            for body, text in parts
        ]
        if call.oneway:
            self.journal.oneway += arrivals
            return None
        self.journal.requests.append(arrivals)
        outcomes = [self._store(arrival) for arrival in arrivals]
        code = outcomes[0][0]
        if code not in (0, 10, 11, 12):
            return self._answer(call, refusal(code, "no"))
        prefix = offset_id_prefix(call.connection.store_host)
        ids = ",".join(offset_id(prefix, offset * 1000) for _, offset in outcomes)
        answer = SendAnswer(code=code, msg_id=ids, queue_id=request.queue_id, queue_offset=outcomes[0][1])
        return self._answer(call, answer)

    def _pull(self, call: Call) -> Answer | None:
        request = call.request
        self.journal.pull_flags.append(request.sys_flag)
        self.journal.pull_bytes.append(request.max_msg_bytes)
        queue = self.stored.get((request.topic, request.queue_id), [])
        offsets = range(request.queue_offset, min(len(queue), request.queue_offset + request.max_msg_nums))
        slices = [
            pack_record(
                *(offset * 1000, request.queue_id, offset, 0, 0, queue[offset].sys_flag, 0, 0, 0, bytes(8)),
                *(pack_topic(request.topic), queue[offset].properties, queue[offset].body),
            )
            for offset in offsets
        ]
        code = 0 if slices else 21 if request.queue_offset > len(queue) else 19
        if code == 19 and self.holds_pulls and request.sys_flag & FLAG_SUSPEND:
            return None
        following = request.queue_offset + len(slices) if code != 21 else len(queue)
        records = Records(slices, len(slices)) if slices else None
        answer = PullAnswer(code=code, next_begin_offset=following, max_offset=len(queue), body=records)
        return self._answer(call, answer)

    def _offset(self) -> Answer:
        if self.stored_offset == -1:
            return refusal(ResponseCode.QUERY_NOT_FOUND, "nothing stored")
        return OffsetAnswer(self.stored_offset)

    def _commit(self, call: Call) -> Answer | None:
        if self.stored_offset < -1:
            self.stored_offset = call.request.commit_offset
        self.journal.commits.append((call.request.commit_offset, not call.oneway))
        return self._answer(call, Answer())

    def _members(self, call: Call) -> Answer:
        ids = [beat.client_id for beat in self.journal.heartbeats[-1:] if beat.client_id is not None]
        return ConsumerListAnswer(body=ConsumerIdList(ids))

    def _heartbeat(self, call: Call) -> Answer:
        self.journal.heartbeats.append(call.request.body)
        return HeartbeatAnswer(is_support_heart_beat_v2=True)

    def _goodbye(self, call: Call) -> Answer:
        self.journal.goodbyes.append(call.request.producer_group or call.request.consumer_group)
        return Answer()


@dataclass
class FakeCluster:
    """A nameserver, brokers, and a machine for clients."""

    world: SimulatedWorld
    nameserver: FakeNameserver
    brokers: list[FakeBroker]
    machine: Machine

    def route(self, topic: str, queues: int = 4, perm: int = 6, brokers: list[FakeBroker] | None = None) -> None:
        """Let the topic have queues on the brokers, or on all."""
        chosen = self.brokers if brokers is None else brokers
        self.nameserver.routes[topic] = TopicRouteData(
            queue_datas=[QueueData(broker.name, queues, queues, perm) for broker in chosen],
            broker_datas=[BrokerData("DefaultCluster", broker.name, {0: broker.address}) for broker in chosen],
        )

    @property
    def bodies(self) -> list[bytes]:
        return [body for broker in self.brokers for body in broker.journal.bodies]


async def fake_cluster(world: SimulatedWorld, brokers: int = 1, topic: str | None = "orders") -> FakeCluster:
    """Start a nameserver and brokers named broker-a, broker-b ...; all of them have the topic."""
    nameserver = await world.start("namesrv", FakeNameserver(world.machine("namesrv", host=NAMESRV_HOST)))
    started = []
    for number in range(brokers):
        name = f"broker-{'abc'[number]}"
        host = f"10.0.1.{number + 1}"
        started.append(await world.start(name, FakeBroker(world.machine(name, host=host), name, host)))
    cluster = FakeCluster(world, nameserver, started, world.machine("client", host="10.0.2.1"))
    if topic is not None:
        cluster.route(topic)
    return cluster


def rocketmq(**settings: Any) -> ProducerSettings:
    """Return settings for Apache RocketMQ's protocol."""
    return ProducerSettings(client=ClientSettings(protocol="rocketmq"), **settings)


BOTH_PROTOCOLS = pytest.mark.parametrize("settings", [ProducerSettings(), rocketmq()], ids=["staticfire", "rocketmq"])
"""Run a test of a producer in each protocol."""
