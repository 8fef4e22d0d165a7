"""The client of a call, as the call's metadata describes it; and how a failed call gets its response."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from google.protobuf.message import Message

from staticfire.proxy.proto.rocketmq_v2_pb2 import Code, Status
from staticfire.proxy.services.statuses import StatusError, status_of
from staticfire.proxy.transport.calls import GrpcCall
from staticfire.runtime.addresses import Address, format_address

CLIENT_ID = "x-mq-client-id"
LANGUAGE = "x-mq-language"
CLIENT_VERSION = "x-mq-client-version"


class Caller(NamedTuple):
    """The client of one call. `remaining_ms`: how long it waits, None without a deadline."""

    client_id: str
    language: str
    version: str
    peer: Address
    remaining_ms: int | None

    @property
    def address(self) -> str:
        return format_address(*self.peer)


def caller_of(call: GrpcCall) -> Caller:
    """Return the client of a call. Raises: StatusError (no client id)."""
    metadata = call.metadata
    client_id = metadata.get(CLIENT_ID, "")
    if not client_id.strip():
        raise StatusError(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
    return Caller(
        client_id,
        metadata.get(LANGUAGE, ""),
        metadata.get(CLIENT_VERSION, ""),
        call.peer,
        call.remaining_ms(),
    )


def version_numbers(version: str) -> tuple[int, ...]:
    """Return `5.0.3-SNAPSHOT` as (5, 0, 3); empty if the text doesn't begin with a number."""
    numbers: list[int] = []
    for part in version.split("-")[0].split("."):
        if not (part.isascii() and part.isdecimal() and len(part) <= 9):
            break
        numbers.append(int(part))
    return tuple(numbers)


R = TypeVar("R", bound=Message)
A = TypeVar("A", bound=Message)


def answered(
    handle: Callable[[R, Caller], Awaitable[A]], refused: Callable[[Status], A]
) -> Callable[[R, GrpcCall], Awaitable[A]]:
    """Return a handler that responds to a failure with its status. `refused`: makes that response."""

    async def handler(request: R, call: GrpcCall) -> A:
        try:
            return await handle(request, caller_of(call))
        except Exception as error:  # noqa: BLE001 (one call of a client: its failure is its answer)
            return refused(status_of(error))

    return handler
