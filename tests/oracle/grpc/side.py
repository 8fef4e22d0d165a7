"""One of the two endpoints that are compared: calls to it, and what is comparable of its answers."""

import asyncio
import re
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as PbMessage

from staticfire.client import Admin
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.runtime.live import live_machine
from tests.proxy.h2_client import Answer, H2Client, framed

Facts = dict[str, Any]
"""What is held against the other side's, by name."""
CLIENT, TIMEOUT_S = "oracle", 23
_VARIES = {
    "deliveryTimestamp", "bornTimestamp", "storeTimestamp", "storeHost", "bornHost", "transactionId", "port", "nonce",
    "recallHandle",
}  # fmt: skip
"""What is another one each time."""


class EndpointSide:
    """A cluster with a gRPC endpoint. `run`: stands in the names of all that is made on it."""

    def __init__(self, admin: Admin, client: H2Client, run: str) -> None:
        self.admin = admin
        self._client = client
        self.run = run

    @classmethod
    async def connect(cls, admin: Admin, port: int, run: str) -> "EndpointSide":
        """Connect to the endpoint at a port of this machine."""
        return cls(admin, await H2Client.connect(live_machine(), port), run)

    def close(self) -> None:
        """Leave the endpoint."""
        self._client.transport.close()

    # -- calls -----------------------------------------------------------------------------------------------------

    async def call(
        self, rpc: str, request: PbMessage, client: str | None = CLIENT, language: str = "JAVA",
        timeout_s: int = TIMEOUT_S,
    ) -> Answer:  # fmt: skip
        """Call, and wait for the end."""
        stream = self._client.open(rpc, *metadata(client, language), ("grpc-timeout", f"{timeout_s}S"))
        await self._client.send(stream, framed(request.SerializeToString()), end=True)
        return await self._client.result(stream)

    async def unary(self, rpc: str, request: PbMessage, client: str | None = CLIENT) -> Any:
        """Call; return the answer. Raises: AssertionError (there is none)."""
        answer = await self.call(rpc, request, client)
        assert answer.messages, (rpc, answer.status, answer.words)
        return getattr(pb, f"{rpc}Response").FromString(answer.messages[0])

    async def requested(self, rpc: str, request: PbMessage, client: str | None = CLIENT) -> Facts:
        """Call; return what is comparable of the answer."""
        return facts_of(rpc, await self.call(rpc, request, client))

    async def telemetry(self, settings: pb.Settings | None, client: str = CLIENT, language: str = "JAVA") -> Facts:
        """Open a stream and say something; return what is comparable of what comes first. The stream stays open."""
        stream = self._client.open("Telemetry", *metadata(client, language))
        command = pb.TelemetryCommand() if settings is None else pb.TelemetryCommand(settings=settings)
        await self._client.send(stream, framed(command.SerializeToString()))
        answer = self._client.answers[stream]
        await asyncio.wait_for(heard(answer), TIMEOUT_S)
        return facts_of("Telemetry", answer)


async def heard(answer: Answer) -> None:
    """Return when something of an answer is there; h2's client tells of its end alone."""
    while not answer.messages and not answer.over.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # house: h2 tells of an end alone


def metadata(client: str | None, language: str) -> list[tuple[str, str]]:
    """Return what a client says with each call."""
    reported = [("x-mq-language", language), ("x-mq-client-version", "5.2.0"), ("x-mq-protocol", "v2")]
    return reported if client is None else [*reported, ("x-mq-client-id", client)]


def facts_of(rpc: str, answer: Answer) -> Facts:
    """Return what is comparable of a call's end."""
    facts: Facts = {"grpc": None if answer.status is None else answer.status.name}
    if answer.status:
        facts["words"] = answer.words
    name = "TelemetryCommand" if rpc == "Telemetry" else f"{rpc}Response"
    for number, data in enumerate(answer.messages):
        reported = MessageToDict(getattr(pb, name).FromString(data))
        facts |= {f"{number}.{path}": value for path, value in _flat(reported)}
    return facts


def _flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of an answer by their paths; what is another one each time by its kind."""
    name = path.rsplit(".", 1)[-1]
    if name in _VARIES:
        return [(path, "given" if value else "empty")]
    if name == "receiptHandle":
        return [(path, f"of {len(value.split())} parts")]
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in _flat(inner, f"{path}.{key}" if path else key)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [pair for index, inner in enumerate(value) for pair in _flat(inner, f"{path}[{index}]")]
    return [(path, re.sub(r"d\d+-", "", value) if isinstance(value, str) else value)]
