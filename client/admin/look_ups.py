"""Finds messages by an id or a key, anywhere in a cluster. RocketMQ: MQAdminImpl.

One message may be found several times: each retry and the dead letter are stored again with the same unique id.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.pull_answers import packed_address, received
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer, RecordBatch
from staticfire.protocol.errors import NetworkError, ProtocolError, broker_answer
from staticfire.protocol.hosts import host_text
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.queries import FindMessages, QueryMessage, ViewMessage

# The maximum number of queries in flight: each topic is queried at each of its brokers.
AT_ONCE_MAX = 32
_NOTHING = "can not find message, maybe time range not correct"


class LookUp(msgspec.Struct, frozen=True):
    """What to look for: an id or a key, and the range of store times."""

    text: str
    begin_ms: int = 0
    end_ms: int = (1 << 63) - 1
    messages_max: int = 64


class FoundMessages(list[ReceivedMessage]):
    """Messages, oldest first."""

    def __init__(self, messages: Iterable[ReceivedMessage], gaps: Sequence[str] = ()) -> None:
        super().__init__(messages)
        self.gaps = list(gaps)
        """Where the search was incomplete, and why; messages there may be missing."""


async def find_by_offset_id(
    client: ClusterClient, masters: Mapping[str, str], text: str, timeout_ms: int
) -> list[ReceivedMessage]:
    """Return the message at the place that an offset message id names; none if it isn't such an id.

    `masters`: addresses by broker name. The id contains the address by which some client reached the broker. If
    `masters` doesn't have it, all brokers are queried: then several messages may match. In that case unreachable
    brokers are skipped, because a unique id has the same form. Raises: NetworkError.
    """
    try:
        host, position = parse_offset_id(text)
        named = host_text(host)
    except ProtocolError:
        return []
    chosen = {name: address for name, address in masters.items() if address == named}
    found: list[ReceivedMessage] = []
    for name, address in (chosen or masters).items():
        try:
            answer = await client.pool.ask(address, ViewMessage(offset=position, bname=name), timeout_ms)
        except NetworkError:
            if chosen:
                raise
            continue
        if answer.code == SUCCESS:
            found += _messages(answer.body, name, address)
    return [message for message in found if message.log_position == position]


async def find_by_key(
    client: ClusterClient, places: Sequence[tuple[str, str, str]], wanted: LookUp, timeout_ms: int
) -> FoundMessages:
    """Return the newest messages with a key or unique id. `places`: topic, broker name and address of each broker.

    Raises: BrokerAnswer (a broker refuses).
    """
    turns = asyncio.Semaphore(AT_ONCE_MAX)

    async def ask(topic: str, name: str, address: str) -> FoundMessages:
        async with turns:
            return await _ask(client, topic, name, address, wanted, timeout_ms)

    return _joined(await asyncio.gather(*(ask(*place) for place in places)), wanted)


async def _ask(
    client: ClusterClient, topic: str, name: str, address: str, wanted: LookUp, timeout_ms: int
) -> FoundMessages:
    request = QueryMessage(topic, wanted.text, wanted.messages_max, wanted.begin_ms, wanted.end_ms, bname=name)
    try:
        answer = await client.pool.ask(address, request, timeout_ms)
    except NetworkError as error:
        return FoundMessages([], [f"{topic} on {name}: {error}"])
    return _found_in(answer, topic, name, address, wanted)


def _found_in(answer: Answer, topic: str, name: str, address: str, wanted: LookUp) -> FoundMessages:
    """Return the messages of a response. Raises: BrokerAnswer."""
    if answer.code not in (SUCCESS, ResponseCode.QUERY_NOT_FOUND):
        raise broker_answer(answer.code, answer.remark, f"look for {wanted.text} in {topic} at {address}")
    gaps = [f"{topic} on {name}: {answer.remark}"] if answer.remark not in (None, "", _NOTHING) else []
    # A refusal that a fault rule has chosen has an empty body of another type.
    batch = answer.body if answer.code == SUCCESS else None
    return FoundMessages(_messages(batch, name, address), gaps)


async def find_in_all_topics(
    client: ClusterClient, brokers: Mapping[str, str], wanted: LookUp, timeout_ms: int
) -> FoundMessages | None:
    """Return the newest messages with a key or unique id in all topics but RocketMQ's own, by one request per broker.

    None if a broker doesn't know this request, which is staticfire's own, or doesn't permit it. Raises: BrokerAnswer (a
    broker refuses).
    """
    if client.settings.protocol != "staticfire":
        return None
    request = FindMessages(wanted.text, wanted.messages_max, wanted.begin_ms, wanted.end_ms)

    async def ask(name: str, address: str) -> FoundMessages | None:
        try:
            answer = await client.pool.ask(address, request, timeout_ms)
        except NetworkError as error:
            return FoundMessages([], [f"all topics on {name}: {error}"])
        if answer.code in (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.NO_PERMISSION):
            return None
        return _found_in(answer, "all topics", name, address, wanted)

    parts = await asyncio.gather(*(ask(*one) for one in brokers.items()))
    known = [part for part in parts if part is not None]
    return _joined(known, wanted) if len(known) == len(parts) else None


def _joined(parts: Iterable[FoundMessages], wanted: LookUp) -> FoundMessages:
    """Return the newest messages of several responses."""
    found = [*parts]
    messages = sorted((message for part in found for message in part), key=_in_time)
    return FoundMessages(messages[-wanted.messages_max :], [gap for part in found for gap in part.gaps])


def _messages(batch: RecordBatch | None, name: str, address: str) -> list[ReceivedMessage]:
    return [] if batch is None else received(batch, name, None, packed_address(address))


def _in_time(message: ReceivedMessage) -> tuple[int, str, int]:
    return message.stored_ms, message.broker_name, message.log_position
