"""What administrators ask of a client over its stream: its threads, and to consume one message now.

RocketMQ: GrpcClientChannel, ProxyClientRemotingProcessor. A question has a nonce, by which the answer is found.
"""

import asyncio

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    Code,
    Message,
    PrintThreadStackTraceCommand,
    TelemetryCommand,
    VerifyMessageCommand,
)
from staticfire.proxy.services.client_table import KnownClient
from staticfire.proxy.transport.calls import GrpcError
from staticfire.runtime.machine import Identity

QUESTION_TIMEOUT_MS = 5_000
RESULTS = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}


class RemoteQuestions:
    """Those that wait for their answers, by nonce."""

    def __init__(self, identity: Identity) -> None:
        self._random = identity.random
        self._waiting: dict[str, asyncio.Future[TelemetryCommand]] = {}

    async def stack_trace(self, client: KnownClient) -> str:
        """Return what a client says of its threads. Raises: BrokerAnswer (it doesn't answer)."""
        nonce = self._nonce()
        command = TelemetryCommand(print_thread_stack_trace_command=PrintThreadStackTraceCommand(nonce=nonce))
        answer = await self._ask(client, nonce, command)
        return answer.thread_stack_trace.thread_stack_trace

    async def verify(self, client: KnownClient, message: Message) -> str:
        """Let a client consume a message now; return how that went, in RocketMQ's words. Raises: BrokerAnswer."""
        nonce = self._nonce()
        command = TelemetryCommand(verify_message_command=VerifyMessageCommand(nonce=nonce, message=message))
        answer = await self._ask(client, nonce, command)
        return RESULTS.get(answer.status.code, "CR_THROW_EXCEPTION")

    def answered(self, command: TelemetryCommand) -> None:
        """Take in an answer; one that nobody waits for any more is dropped."""
        kind = command.WhichOneof("command")
        told = command.thread_stack_trace if kind == "thread_stack_trace" else command.verify_message_result
        waiting = self._waiting.pop(told.nonce, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(command)

    async def _ask(self, client: KnownClient, nonce: str, command: TelemetryCommand) -> TelemetryCommand:
        if client.stream is None:
            raise _unanswered(client, "it has no Telemetry stream")
        waiting: asyncio.Future[TelemetryCommand] = asyncio.get_running_loop().create_future()
        self._waiting[nonce] = waiting
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT_MS / 1000):
                await client.stream(command)
                return await waiting
        except TimeoutError:
            raise _unanswered(client, "call remote timeout") from None
        except GrpcError as error:
            raise _unanswered(client, str(error)) from None
        finally:
            self._waiting.pop(nonce, None)

    def _nonce(self) -> str:
        return f"{self._random.getrandbits(128):032x}"


def _unanswered(client: KnownClient, reason: str) -> BrokerAnswer:
    return BrokerAnswer(ResponseCode.SYSTEM_BUSY, f"client {client.client_id}: {reason}")
