"""Programs that ask a nameserver, with its commands or with bytes as a foreign client sends them."""

import asyncio
import json
import struct
from typing import Any

from staticfire.protocol.command import Request
from staticfire.protocol.requests.brokers import RegisterBroker, RegistrationBody, TopicConfigTable
from staticfire.protocol.requests.routes import GetRoute, TopicRouteData
from staticfire.protocol.requests.topics import DataVersion, TopicConfig
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool

NAMESERVER_HOST = "10.0.0.1"


class Asking:
    """One program with one connection to the nameserver."""

    def __init__(self, machine: Machine, codec: int, address: str) -> None:
        self._machine = machine
        self.pool = ConnectionPool(machine, codec_byte=codec)
        self._address = address

    async def ask(self, request: Request) -> Any:
        return await self.pool.ask(self._address, request)

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return the route as it reads on the other side; None when there is none."""
        answer = await self.ask(GetRoute(topic=topic))
        assert answer.code in (0, 17), answer
        route: TopicRouteData | None = answer.body or None
        return route

    async def addresses(self, topic: str) -> dict[str, dict[int, str]]:
        """Return what is told of where a topic is: address by id by broker."""
        route = await self.route(topic)
        return {} if route is None else {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}

    async def raw(
        self, code: int, body: bytes = b"", version: int = 479, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Ask as a Java client does, on a connection of its own; return the answer's header and body."""
        header = {
            "code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 1, "version": version,
            "serializeTypeCurrentRPC": "JSON",
        }  # fmt: skip
        text = json.dumps(header).encode()
        frames = _OneFrame()
        transport = await self._machine.network.connect(lambda: frames, *parse_address(self._address), 3000)
        try:
            transport.write(struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body)
            return await frames.answer
        finally:
            transport.close()

    async def close(self) -> None:
        await self.pool.close()


class _OneFrame(asyncio.Protocol):
    """Collects bytes until they are a frame."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) >= 8 and len(self._data) == 4 + struct.unpack_from(">I", self._data)[0]:
            end = 8 + struct.unpack_from(">I", self._data, 4)[0]
            self.answer.set_result((json.loads(self._data[8:end]), self._data[end:]))


def registration(
    name: str = "broker-a", address: str = "10.0.0.2:10911", broker_id: int = 0, *topics: str, **fields: Any
) -> RegisterBroker:
    """Return the registration of a broker, with `orders` and `bills` where no topics are given."""
    configs = {topic: TopicConfig(topic, 8, 8) for topic in topics or ("orders", "bills")}
    version = fields.pop("version", DataVersion(0, 1000, 1))
    return RegisterBroker(
        broker_name=name,
        broker_addr=address,
        cluster_name=fields.pop("cluster", "DefaultCluster"),
        ha_server_addr=fields.pop("ha_address", "10.0.0.2:10912"),
        broker_id=broker_id,
        body=RegistrationBody(TopicConfigTable(configs, version)),
        **fields,
    )
