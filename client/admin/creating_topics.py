"""Create, change and delete topics, for people. See creating.py."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from staticfire.client.admin.admin import Admin
from staticfire.client.admin.attribute_changes import attribute_changes
from staticfire.client.admin.creating import ask_broker, check_same
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import NetworkError, TopicNotFound, UsageError
from staticfire.protocol.names import is_system_topic, topic_fault
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.routes import ORDER_TOPIC_CONFIG
from staticfire.protocol.requests.topics import TopicConfig, UpdateTopic

QUEUES = 8
"""RocketMQ's default, for a topic that an administrator creates."""


class TopicWish(msgspec.Struct, frozen=True):
    """Values of a topic. None: RocketMQ's default when it is created, no change when it is changed."""

    queues: int | None = None
    """For each broker."""
    write_queues: int | None = None
    """The number of queues that producers use, if it differs."""
    perm: int | None = None
    """6: read and write, 4: read only, 2: write only."""
    order: bool | None = None
    attributes: Mapping[str, str] = {}
    read_queues: int | None = None
    """The number of queues that consumers read, if it differs."""

    def applied_to(self, known: TopicConfig | None) -> TopicConfig:
        """Return a topic with these values. Attributes are changes: `{"-message.type": ""}` removes one."""
        one = known or TopicConfig("", QUEUES, QUEUES, READ_WRITE)
        reads = self.read_queues or self.queues or one.read_queue_nums
        writes = self.write_queues or self.queues or one.write_queue_nums
        attributes = dict(one.attributes)
        for name, text in self.attributes.items():
            plain = name.lstrip("+-")
            attributes.pop(plain, None)
            if not name.startswith("-"):
                attributes[plain] = text
        return TopicConfig(
            one.topic_name, reads, writes, one.perm if self.perm is None else self.perm,
            order=one.order if self.order is None else self.order, attributes=attributes,
        )  # fmt: skip


async def create_topic(admin: Admin, topic: str, wish: TopicWish) -> dict[str, Any]:
    """Create a topic on the brokers that don't have it. Return it, for JSON.

    They get these values, and for the rest those that the topic has elsewhere.
    Raises: UsageError (an illegal name), ExistsAlready, BrokerAnswer, NetworkError.
    """
    if fault := topic_fault(topic):
        raise UsageError(f"{topic!r}: {fault}")
    if is_system_topic(topic):
        raise UsageError(f"{topic} is a system topic of RocketMQ: choose another name")
    known = await _topic_configs(admin, topic)
    there = {broker: _topic_fields(one) for broker, one in known.items()}
    check_same(f"topic {topic}", there, {broker: _topic_fields(wish.applied_to(one)) for broker, one in known.items()})
    wanted = wish.applied_to(next(iter(known.values()), None))
    missing = [broker for broker in await admin.masters() if broker not in known]
    if not known:
        with suppress(NetworkError):  # A nameserver that is away must not prevent that the topic is created.
            await _forget_queues(admin, topic)  # of an earlier topic of this name
    for broker in missing:
        await admin.create_topic(
            topic, wanted.read_queue_nums, write_queues=wanted.write_queue_nums, perm=wanted.perm, order=wanted.order,
            attributes=wanted.attributes, broker_name=broker,
        )  # fmt: skip
    if missing and wanted.order:
        await _list_queues(admin, topic)
    return {"topic": topic, "created": bool(missing), **_topic_fields(wanted)}


async def change_topic(admin: Admin, topic: str, wish: TopicWish) -> dict[str, Any]:
    """Change a topic on each broker that has it; other values are kept. Return it, for JSON.

    Raises: TopicNotFound, BrokerAnswer, NetworkError.
    """
    known = await _found(admin, topic)
    away: NetworkError | None = None
    if wish.order is False:
        try:
            await _forget_queues(admin, topic)
        except NetworkError as error:  # It must not prevent the change.
            away = error
    for broker, config in known.items():
        wanted = wish.applied_to(config)
        request = UpdateTopic(
            topic, wanted.read_queue_nums, wanted.write_queue_nums, wanted.perm, "TBW102", config.topic_filter_type,
            config.topic_sys_flag, order=wanted.order, attributes=attribute_changes(wish.attributes),
        )  # fmt: skip
        await ask_broker(admin, broker, request, f"change topic {topic}")
    has_other_queues = (wish.queues, wish.write_queues) != (None, None)
    if wish.order or (wish.order is None and has_other_queues and any(one.order for one in known.values())):
        await _list_queues(admin, topic)
    if away is not None:
        raise away
    return {"topic": topic, **_topic_fields(next(iter((await _topic_configs(admin, topic)).values())))}


async def delete_topic(admin: Admin, topic: str) -> None:
    """Delete a topic with its messages and offsets. Raises: TopicNotFound, BrokerAnswer, NetworkError."""
    await _found(admin, topic)
    await admin.delete_topic(topic)
    await _forget_queues(admin, topic)


async def _found(admin: Admin, topic: str) -> dict[str, TopicConfig]:
    known = {} if is_system_topic(topic) else await _topic_configs(admin, topic)
    if not known:
        raise TopicNotFound(ResponseCode.TOPIC_NOT_EXIST, f"there is no topic {topic}")
    return known


async def _topic_configs(admin: Admin, topic: str) -> dict[str, TopicConfig]:
    """Return a topic's configuration on each broker that has it."""
    found = {}
    for broker in await admin.masters():
        try:
            found[broker] = await admin.topic_config(topic, broker)
        except TopicNotFound:
            continue
    return found


async def _list_queues(admin: Admin, topic: str) -> None:
    """Store the queues of an ordered topic, as `mqadmin updateTopic -o true` does.

    Nameservers with orderMessageEnable return them with the route: each broker's own number of them.
    """
    known = await _topic_configs(admin, topic)
    conf = ";".join(f"{broker}:{one.write_queue_nums}" for broker, one in known.items())
    await admin.put_kv(ORDER_TOPIC_CONFIG, topic, conf)


async def _forget_queues(admin: Admin, topic: str) -> None:
    """Remove the list of a topic's queues. Brokers make each topic with such a list an ordered one."""
    await admin.delete_kv(ORDER_TOPIC_CONFIG, topic)


def _topic_fields(config: TopicConfig) -> dict[str, Any]:
    return {
        "queues": config.read_queue_nums,
        "writeQueues": config.write_queue_nums,
        "perm": config.perm,
        "order": config.order,
        "attributes": dict(sorted(config.attributes.items())),
    }
