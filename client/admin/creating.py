"""What creating topics and groups share. RocketMQ's requests create or replace; here nothing is replaced by accident.

A topic or group that exists with other values is refused, and a change keeps all values that it doesn't name. The
command line, the control endpoint and tests use these functions: creating_topics.py, creating_groups.py.
"""

from collections.abc import Mapping
from typing import Any

from staticfire.client.admin.admin import Admin
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import ClientError, broker_answer


class ExistsAlready(ClientError):
    """A topic or group can't be created, because it exists with other values."""


def check_same(what: str, known: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse to create what exists with other values. `known`, `wanted`: values by broker. Raises: ExistsAlready."""
    for broker, fields in known.items():
        if fields != wanted[broker]:
            there = ", ".join(f"{name} {value}" for name, value in fields.items() if value != {})
            raise ExistsAlready(f"{what} exists on {broker} with other values ({there})")


async def ask_broker(admin: Admin, broker: str, request: Request, what: str) -> Answer:
    address = (await admin.masters(broker_name=broker))[broker]
    answer = await admin.client.pool.ask(address, request, admin.timeout_ms)
    if answer.code != SUCCESS:
        raise broker_answer(answer.code, answer.remark, f"{what} on {broker}")
    return answer
