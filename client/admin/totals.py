"""Topics, groups and waiting messages of all brokers, with one request to each. Only staticfire's brokers know these.

Callers fall back to RocketMQ's requests, one for each topic or group, if the functions return None.
"""

import asyncio
from collections.abc import Mapping, Sequence

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import broker_answer
from staticfire.protocol.requests.totals import BrokerWaiting, GetTotals, GetWaiting, Totals, WantedTotals

# A user who may not look at the whole cluster may look at some of its topics and groups, one by one.
NOT_ALL_TOGETHER = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.NO_PERMISSION)


async def broker_totals(
    client: ClusterClient,
    brokers: Mapping[str, str],
    topics: Sequence[str] | None = (),
    groups: Sequence[str] | None = (),
    *,
    timeout_ms: int,
) -> dict[str, Totals] | None:
    """Return topics and groups by broker; None for all of them, or those with these names.

    `brokers`: addresses by name. Raises: NetworkError, BrokerAnswer (a broker refuses).
    """
    wanted = WantedTotals(None if topics is None else [*topics], None if groups is None else [*groups])
    answers = await _of_all(client, brokers, GetTotals(body=wanted), timeout_ms)
    if answers is None:
        return None
    return {name: answer.body or Totals() for name, answer in answers.items()}


async def broker_waiting(
    client: ClusterClient,
    brokers: Mapping[str, str],
    kinds: str,
    messages_max: int,
    timeout_ms: int,
) -> dict[str, BrokerWaiting] | None:
    """Return what waits at each broker. Raises: as `broker_totals`."""
    answers = await _of_all(client, brokers, GetWaiting(kinds, messages_max), timeout_ms)
    if answers is None:
        return None
    return {name: answer.body or BrokerWaiting() for name, answer in answers.items()}


async def _of_all(
    client: ClusterClient, brokers: Mapping[str, str], request: Request, timeout_ms: int
) -> dict[str, Answer] | None:
    """Return the responses of all brokers; None if one of them doesn't know or doesn't permit the request."""
    if client.settings.protocol != "staticfire":
        return None
    pending = (client.pool.ask(address, request, timeout_ms) for address in brokers.values())
    answers = dict(zip(brokers, await asyncio.gather(*pending), strict=True))
    for name, answer in answers.items():
        if answer.code in NOT_ALL_TOGETHER:
            return None
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"{type(request).__name__} at {name}")
    return answers
