"""Sets at a topic's brokers whether a group pulls or pops it. RocketMQ: SetConsumeModeSubCommand."""

from collections.abc import Awaitable, Callable

from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.assignment import MODE_POP, MODE_PULL, MessageRequestMode, SetMessageRequestMode
from staticfire.protocol.requests.routes import MASTER_ID, TopicRouteData

Ask = Callable[[str, Request, str], Awaitable[Answer]]
"""Sends a request to an address; the text is for errors. Raises: BrokerAnswer, NetworkError."""


def mode_request(topic: str, group: str, mode: str, share: int) -> SetMessageRequestMode:
    """Return the request for one broker. Raises: ClientError (no such mode)."""
    if mode not in (MODE_POP, MODE_PULL):
        raise ClientError(f"mode={mode!r}: it must be {MODE_PULL} or {MODE_POP}")
    return SetMessageRequestMode(body=MessageRequestMode(topic, group, mode, share))


async def set_consume_mode(route: TopicRouteData, request: SetMessageRequestMode, ask: Ask) -> None:
    """Send the request to every broker of a topic."""
    body: MessageRequestMode = request.body
    for broker in route.broker_datas:
        address = broker.broker_addrs.get(MASTER_ID)
        if address is not None:
            await ask(address, request, f"{body.mode} for {body.consumer_group} in {body.topic}")
