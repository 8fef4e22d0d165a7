"""One broker in a simulated world, and a client that sends it single requests."""

from typing import Any

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codecs.json import JsonCodec
from staticfire.protocol.codes import VERSION
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.properties import find_property, format_properties
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.recall import RecallMessage
from staticfire.protocol.requests.send import SendAnswer, SendMessage
from staticfire.protocol.requests.send_back import SendBack
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world.world import SimulatedWorld

NAME = "broker-a"
ADDRESS = "10.0.0.2:10911"
# V3_4_6: the broker ignores the reconsume limit that such an old client sends.
OLD_VERSION = 100

TIMER_ILLEGAL_WORDS = (
    "timer message illegal, the delay time should not be bigger than the max delay 259200000ms; or if set del msg, "
    "the delay time should be bigger than the current time"
)


class BrokerStand:
    """`broker` is the current one; a restart creates another one with the same disk."""

    def __init__(self, world: SimulatedWorld, **settings: Any) -> None:
        self.world = world
        self.settings = settings
        self.broker: Broker = None  # type: ignore[assignment]
        self._pool = ConnectionPool(world.machine("client", "10.0.0.9"))

    # -- the broker ------------------------------------------------------------------------------------------------

    async def start(self, **settings: Any) -> None:
        self.settings |= settings
        machine = self.world.machine(NAME, "10.0.0.2")
        self.broker = Broker(machine, BrokerSettings(store_path_root_dir="/store", **self.settings))
        await self.world.start(NAME, self.broker)

    async def restart(self, **settings: Any) -> None:
        await self.world.stop(NAME)
        await self.start(**settings)

    async def kill_and_start(self, power_loss: bool = False, torn: bool = False) -> None:
        self.world.kill(NAME, power_loss, torn)
        await self.world.run_for(10)  # the client sees that its connection is gone
        await self.start()

    def jump(self, ms: int) -> None:
        """Move the broker's wall clock, and with it message time, forward by that much."""
        self.world.skew(NAME, self.broker.state.machine.clock.wall_ms() - self._true_ms() + ms)
        self.broker.delays._due.wake()  # house: a wall clock that is set notifies nobody

    def _true_ms(self) -> int:
        return self.world.machine("client").clock.wall_ms()

    @property
    def message_ms(self) -> int:
        return self.broker.state.clock.message_ms()

    async def close(self) -> None:
        await self._pool.close()

    # -- the client ------------------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Any:
        return await self._pool.ask(ADDRESS, request, 30_000)

    async def send(
        self, topic: str, body: bytes, queue_id: int = 0, reconsume_times: int | None = None,
        max_reconsume_times: int | None = None, **properties: Any,
    ) -> SendAnswer:  # fmt: skip
        """Send a message with these properties, which are strings."""
        born_ms = self.world.machine("client").clock.wall_ms()
        request = SendMessage(
            "producers", topic, "TBW102", 4, queue_id, 0, born_ms, 7, format_properties(properties).decode(),
            reconsume_times, max_reconsume_times=max_reconsume_times, body=body,
        )  # fmt: skip
        answer: SendAnswer = await self.ask(request)
        return answer

    async def pull(self, group: str, topic: str, offset: int, queue_id: int = 0, hold_ms: int = 0) -> Any:
        """Pull once. `hold_ms`: how long the broker may wait for a message."""
        flags = FLAG_SUBSCRIPTION | (FLAG_SUSPEND if hold_ms else 0)
        return await self.ask(PullMessage(group, topic, queue_id, offset, 32, flags, 0, hold_ms, "*"))

    async def stored(self, topic: str, queue_id: int = 0, offset: int = 0) -> list[StoredRecord]:
        """Return all messages of a queue from an offset on."""
        found: list[StoredRecord] = []
        while True:
            answer = await self.ask(PullMessage("readers", topic, queue_id, offset, 32, FLAG_SUBSCRIPTION, 0, 0, "*"))
            if answer.code != 0:
                return found
            found += answer.body.records
            offset = answer.next_begin_offset

    async def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        return [record.body for record in await self.stored(topic, queue_id)]

    async def send_back(
        self, record: StoredRecord, group: str = "billing", delay_level: int = 0, **fields: Any
    ) -> Answer:
        answer: Answer = await self.ask(SendBack(record.log_position, group, delay_level, **fields))
        return answer

    async def recall(self, handle: str | None, topic: str = "orders") -> Any:
        return await self.ask(RecallMessage(topic, handle, "producers"))

    async def put_group(self, name: str, **fields: Any) -> None:
        assert (await self.ask(UpdateGroup(body=SubscriptionGroupConfig(name, **fields)))).code == 0

    async def put_topic(self, name: str, queues: int = 4, perm: int = 6) -> None:
        assert (await self.ask(UpdateTopic(name, queues, queues, perm))).code == 0


async def ask_as_an_old_client(world: SimulatedWorld, request: Request) -> Any:
    """Send a request with an old version number. Clients of that age use JSON."""
    pool = ConnectionPool(world.machine("old client"), codec_byte=0)
    connection = await pool.connection(ADDRESS)
    codec = OldCodec()
    connection.codec = codec
    try:
        return await connection.ask(request, 3_000)
    finally:
        await pool.close()


class OldCodec(JsonCodec):
    """The JSON codec, but with an old version number in its requests."""

    def encode_request(self, request: Request, opaque: int, oneway: bool) -> bytes:
        frame = super().encode_request(request, opaque, oneway)
        now, then = b'"version":%d' % VERSION, b'"version":%d' % OLD_VERSION
        assert frame.count(now) == 1
        assert len(now) == len(then)
        return frame.replace(now, then)


def text(record: StoredRecord, name: str) -> str | None:
    """Return a property."""
    value = find_property(record.properties, name)
    return None if value is None else value.decode()
