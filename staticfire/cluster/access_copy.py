"""What brokers store about users: to find out whether a test has changed it."""

from collections.abc import Mapping

from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import broker_answer
from staticfire.protocol.requests.access import AclInfo, GetAccess, ListAcls, ListUsers, UserInfo
from staticfire.runtime.pool import ConnectionPool

TIMEOUT_MS = 5_000

AccessCopy = dict[str, tuple[list[UserInfo], list[AclInfo]] | None]
"""Users with their secrets, and policies, by broker; None if the broker checks nothing."""


async def access_copy(pool: ConnectionPool, masters: Mapping[str, str]) -> AccessCopy:
    """Return what the brokers at these addresses store about users. Raises: BrokerAnswer, NetworkError."""
    return {broker: await _copy_of(pool, address) for broker, address in masters.items()}


async def _copy_of(pool: ConnectionPool, address: str) -> tuple[list[UserInfo], list[AclInfo]] | None:
    state = (await _ask(pool, address, GetAccess())).body
    # A broker without users loads what it needs for them only when it is queried for them.
    if state is None or not (state.is_judging or state.is_authorizing):
        return None
    users, acls = await _ask(pool, address, ListUsers()), await _ask(pool, address, ListAcls())
    return users.body or [], acls.body or []


async def _ask(pool: ConnectionPool, address: str, request: Request) -> Answer:
    answer = await pool.ask(address, request, TIMEOUT_MS)
    if answer.code != SUCCESS:
        raise broker_answer(answer.code, answer.remark, address)
    return answer
