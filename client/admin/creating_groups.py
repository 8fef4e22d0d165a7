"""Create, change and delete consumer groups, for people. See creating.py."""

from collections.abc import Mapping
from typing import Any

import msgspec

from staticfire.client.admin.admin import Admin
from staticfire.client.admin.creating import ask_broker, check_same
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import GroupNotFound, UsageError
from staticfire.protocol.names import dead_letter_topic, group_fault, is_system_group, pop_retry_topic, retry_topic
from staticfire.protocol.pop_handles import RETRY, RETRY_V2
from staticfire.protocol.requests.groups import DeleteGroup, GetAllGroups, SubscriptionGroupConfig


class GroupWish(msgspec.Struct, frozen=True):
    """Values of a group. None: as for a topic."""

    retries: int | None = None
    """How often a failed message is redelivered before it becomes a dead letter."""
    consume: bool | None = None
    """Whether it may consume."""
    broadcast: bool | None = None
    """Whether its members may use BROADCASTING."""
    orderly: bool | None = None
    """Whether its messages are popped in order."""
    attributes: Mapping[str, str] = {}

    def applied_to(self, known: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Return a group with these values."""
        values = {
            "retry_max_times": self.retries,
            "consume_enable": self.consume,
            "consume_broadcast_enable": self.broadcast,
            "consume_message_orderly": self.orderly,
        }
        changed = {name: value for name, value in values.items() if value is not None}
        return msgspec.structs.replace(known, **changed, attributes=dict(self.attributes))


async def create_group(admin: Admin, group: str, wish: GroupWish) -> dict[str, Any]:
    """Create a consumer group on the brokers that don't have it. Return it, for JSON.

    They get these values, and for the rest those that the group has elsewhere.
    Raises: UsageError (an illegal name), ExistsAlready, BrokerAnswer, NetworkError.
    """
    if fault := group_fault(group):
        raise UsageError(fault)
    known = await _group_configs(admin, group)
    there = {broker: _group_fields(one) for broker, one in known.items()}
    check_same(f"group {group}", there, {broker: _group_fields(_with(wish, one)) for broker, one in known.items()})
    wanted = _with(wish, next(iter(known.values()), SubscriptionGroupConfig(group_name=group)))
    missing = [broker for broker in await admin.masters() if broker not in known]
    for broker in missing:
        await admin.create_group(wanted, broker_name=broker)
    return {"group": group, "created": bool(missing), **_group_fields(wanted)}


async def change_group(admin: Admin, group: str, wish: GroupWish) -> dict[str, Any]:
    """Change a group on each broker that has it; other values are kept. Return it, for JSON.

    Raises: GroupNotFound, BrokerAnswer, NetworkError.
    """
    for broker, config in (await _found_group(admin, group)).items():
        await admin.create_group(wish.applied_to(config), broker_name=broker)
    return {"group": group, **_group_fields(next(iter((await _group_configs(admin, group)).values())))}


async def group_facts(admin: Admin, group: str) -> dict[str, Any]:
    """Return a group's configuration on each broker that has it, for JSON. Raises: GroupNotFound, NetworkError."""
    known = await _found_group(admin, group)
    return {"group": group, "brokers": [{"broker": broker, **_group_fields(one)} for broker, one in known.items()]}


async def delete_group(admin: Admin, group: str) -> None:
    """Delete a group with its offsets, retries and dead letters. Raises: GroupNotFound, BrokerAnswer, NetworkError."""
    for broker in await _found_group(admin, group):
        await ask_broker(admin, broker, DeleteGroup(group, clean_offset=True), f"delete group {group}")
    topics = await admin.topics()
    of_others = set(map(retry_topic, await admin.groups()))
    popped = {pop_retry_topic(topic, group, version) for topic in topics for version in (RETRY, RETRY_V2)}
    for topic in topics:
        if topic in {retry_topic(group), dead_letter_topic(group), *(popped - of_others)}:
            await admin.delete_topic(topic)


async def _found_group(admin: Admin, group: str) -> dict[str, SubscriptionGroupConfig]:
    known = {} if is_system_group(group) else await _group_configs(admin, group)
    if not known:
        raise GroupNotFound(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"no broker knows a group {group}")
    return known


async def _group_configs(admin: Admin, group: str) -> dict[str, SubscriptionGroupConfig]:
    """Return a group's configuration on each broker that has it. A query for one group could create it."""
    found = {}
    for broker in await admin.masters():
        answer = await ask_broker(admin, broker, GetAllGroups(), "groups")
        table = answer.body.subscription_group_table if answer.body is not None else {}
        if group in table:
            found[broker] = table[group]
    return found


def _with(wish: GroupWish, known: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
    """Return a group with these values and all its attributes, where a change has only the changed ones."""
    changed = {name.lstrip("+"): text for name, text in wish.attributes.items()}
    return msgspec.structs.replace(wish.applied_to(known), attributes={**known.attributes, **changed})


def _group_fields(config: SubscriptionGroupConfig) -> dict[str, Any]:
    return {
        "retries": config.retry_max_times,
        "consume": config.consume_enable,
        "broadcast": config.consume_broadcast_enable,
        "orderly": config.consume_message_orderly,
        "attributes": {name.lstrip("+"): text for name, text in sorted(config.attributes.items())},
    }
