"""Changes of topic and group attributes in brokers' format: `+key=value` adds, `-key` removes. Pure."""

from collections.abc import Mapping

import msgspec

from staticfire.protocol.requests.groups import SubscriptionGroupConfig


def attribute_changes(attributes: Mapping[str, str]) -> str | None:
    """Return attribute changes as RocketMQ's text: `+key=value,-key`."""
    parts = [name if name.startswith("-") else f"{name}={text}" for name, text in signed(attributes).items()]
    return ",".join(parts) or None


def group_changes(config: SubscriptionGroupConfig | str) -> SubscriptionGroupConfig:
    """Return a group as it is sent, with its attributes as changes."""
    group = SubscriptionGroupConfig(group_name=config) if isinstance(config, str) else config
    return msgspec.structs.replace(group, attributes=signed(group.attributes))


def signed(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes as changes: those without a sign are added."""
    return {name if name.startswith(("+", "-")) else f"+{name}": text for name, text in attributes.items()}
