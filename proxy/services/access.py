"""Sends each call's needs to a broker, which decides whether the gRPC client may do it.

RocketMQ: AuthenticationPipeline, AuthorizationPipeline. The endpoint keeps neither users nor policies: it sends a
call's credentials and needs to a broker. So a change applies from the next call on (in RocketMQ, after up to 20 s), and
no secret leaves the brokers. While brokers check nothing, no call is sent to them: a broker notifies the endpoint when
that changes.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.requests.access import JudgeAnswer, JudgeCall, JudgedCall
from staticfire.proxy.proto.rocketmq_v2_pb2 import Code, Status
from staticfire.proxy.services.access_needs import NO_MESSAGE, is_empty_send, needs_of, presented_by
from staticfire.proxy.services.callers import CLIENT_ID
from staticfire.proxy.services.judges import JudgingBrokers
from staticfire.proxy.services.statuses import status_of
from staticfire.proxy.transport.calls import GrpcCall, StreamHandler
from staticfire.runtime.dispatcher import Call
from staticfire.runtime.log import logger

A = TypeVar("A", bound=Message)
"""A handler whose responses are a stream."""

log = logger("proxy")


class CallAccess:
    """Returns brokers' decisions about calls."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._judges = JudgingBrokers(client)
        self.is_open = False
        """Whether brokers are known to judge nothing at present."""
        self._is_judging = False
        self._changes = 0
        client.dispatcher.handle(RequestCode.ACCESS_CHANGED, self._changed)
        client.broker_lost.append(self._lost)

    async def refused(self, request: Message, call: GrpcCall) -> Status | None:
        """Return the status of a refusal; None if the client may do it."""
        presented = presented_by(call.metadata)
        judged = JudgedCall(
            presented.access_key,
            presented.signed_text,
            presented.signature,
            call.peer[0],
            type(request).__name__,
            call.metadata.get(CLIENT_ID, ""),
            needs_of(request),
            presented.problem,
        )
        changes = self._changes
        try:
            answer = await self._judges.ask(JudgeCall(body=judged), self._is_judging)
        except NetworkError as error:
            return status_of(error)
        # A change may have been reported after the broker responded, but before this task continues.
        is_current = changes == self._changes
        if answer is None or answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            # No broker can be reached, so there is nothing to protect; or they are RocketMQ's, which judge themselves.
            self.is_open = is_current and answer is not None
            return None
        if answer.code != SUCCESS:
            if not self._client.pool.is_signing and not self._is_judging:
                words = "brokers check signatures, and this endpoint has no key: no call passes"
                log.warning("endpoint_without_key", reason=words, way_out="set innerClientAuthenticationCredentials")
            self._is_judging = True
            return Status(code=Code.UNAUTHORIZED, message=answer.remark or "")
        self._is_judging = isinstance(answer, JudgeAnswer) and answer.is_judging
        self.is_open = is_current and not self._is_judging
        if self._is_judging and is_empty_send(request):
            return Status(code=Code.UNAUTHORIZED, message=NO_MESSAGE)
        return None

    def _changed(self, _: Call) -> Answer:
        self._close()
        return Answer()

    def _lost(self, _: str) -> None:
        """A broker is gone; it may come back with other users."""
        self._close()

    def _close(self) -> None:
        self._changes += 1
        self.is_open = False


def checked(
    access: CallAccess, handle: Callable[[Any, GrpcCall], Awaitable[A]], refused: Callable[[Status], A]
) -> Callable[[Any, GrpcCall], Awaitable[A]]:
    """Return a handler that handles only what the client may do. `refused`: makes the response otherwise."""

    async def handler(request: Any, call: GrpcCall) -> A:
        if not access.is_open:
            status = await access.refused(request, call)
            if status is not None:
                return refused(status)
        return await handle(request, call)

    return handler


def checked_stream(
    access: CallAccess,
    handle: StreamHandler,
    refused: Callable[[Status], Message],
) -> StreamHandler:
    """The same for a call whose responses are a stream: a refusal is one response, and the stream ends well."""

    async def after_check(request: Any, call: GrpcCall) -> AsyncIterator[Any]:
        status = await access.refused(request, call)
        if status is not None:
            yield refused(status)
            return
        # Closed together with this one, because it takes back what its client didn't read.
        async with aclosing(_closable(handle(request, call))) as responses:
            async for response in responses:
                yield response

    def handler(request: Any, call: GrpcCall) -> AsyncIterator[Any]:
        return handle(request, call) if access.is_open else after_check(request, call)

    return handler


def checked_commands(
    access: CallAccess,
    handle: StreamHandler,
    refused: Callable[[Status], Message],
) -> StreamHandler:
    """The same for a call in which both sides stream: each request is checked, and the first refusal ends the call."""

    async def handler(requests: AsyncIterator[Any], call: GrpcCall) -> AsyncIterator[Any]:
        refusals: list[Status] = []

        async def permitted() -> AsyncIterator[Any]:
            async for request in requests:
                status = None if access.is_open else await access.refused(request, call)
                if status is not None:
                    refusals.append(status)
                    return
                yield request

        async with aclosing(_closable(handle(permitted(), call))) as responses:
            async for response in responses:
                yield response
        if refusals:
            yield refused(refusals[0])

    return handler


def _closable(responses: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Return the responses of a handler, which is an async generator."""
    return cast(AsyncGenerator[Any, None], responses)
