"""The consumer groups of a broker and what each may do. RocketMQ: SubscriptionGroupManager."""

from collections.abc import Callable

import msgspec

from staticfire.broker.groups.protection import (
    GRACE_TIME,
    STABLE_TIME,
    ProtectionTimes,
    change_group_attributes,
    check_times,
)
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.limits import QUEUES_OF_TOPIC_MAX
from staticfire.protocol.names import SYSTEM_GROUPS, is_system_group, may_create_group
from staticfire.protocol.numbers import Int64
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.protocol.requests.topics import DataVersion
from staticfire.protocol.times import MessageMs

GROUPS_MAX = 100_000
FORBIDDEN_READ = 0x4
# RocketMQ: PermName.INDEX_PERM_READ, as a bit.


class GroupTable:
    """Group configurations by name."""

    def __init__(
        self, settings: BrokerSettings, message_ms: Callable[[], MessageMs], changed: Callable[[], None]
    ) -> None:
        """`changed`: called after each change."""
        self._settings = settings
        self._message_ms = message_ms
        self._changed = changed
        self._created: list[Callable[[str], None]] = []
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        """One dictionary for good: handlers hold it."""
        self.forbidden: dict[str, dict[str, int]] = {}
        """What groups may not do with topics, as bits; `FORBIDDEN_READ` is the only one in use."""
        self.version = DataVersion()

    def add_system_groups(self) -> None:
        """Create what is missing of them."""
        for name in sorted(SYSTEM_GROUPS):
            broadcast = name.startswith("CID_ONS")
            self.groups.setdefault(
                name,
                SubscriptionGroupConfig(
                    group_name=name, consume_broadcast_enable=broadcast or name != "CID_RMQ_SYS_TRANS"
                ),
            )

    def use(self, settings: BrokerSettings) -> None:
        """Go on with other settings."""
        self._settings = settings

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group without creating it."""
        return self.groups.get(name)

    def on_created(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called with each group that comes to be with its first member."""
        self._created.append(tell)

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group, created with defaults where that is allowed. RocketMQ: findSubscriptionGroupConfig."""
        group = self.groups.get(name)
        if group is not None:
            return group
        allowed = self._settings.auto_create_subscription_group or is_system_group(name)
        if not allowed or not may_create_group(name) or len(self.groups) >= GROUPS_MAX:
            return None
        created = SubscriptionGroupConfig(group_name=name)
        self.put(created)
        for tell in self._created:
            tell(name)
        return created

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Store a configuration under its name."""
        assert group.group_name is not None
        self.groups[group.group_name] = group
        self._moved()

    def delete(self, name: str) -> bool:
        """Forget a group; return whether there was one."""
        was_forbidden = self.forbidden.pop(name, None) is not None
        if self.groups.pop(name, None) is None and not was_forbidden:
            return False
        self._moved()
        return True

    def may_read(self, group: str, topic: str) -> bool:
        """Whether a group may consume a topic: all may, but for what was forbidden one by one."""
        return not self.forbidden.get(group, {}).get(topic, 0) & FORBIDDEN_READ

    def let_read(self, group: str, topic: str, allowed: bool) -> None:
        """Allow or forbid a group to consume a topic; the group needn't be there."""
        if self.may_read(group, topic) == allowed:
            return
        topics = self.forbidden.setdefault(group, {})
        bits = topics.pop(topic, 0) ^ FORBIDDEN_READ
        if bits:
            topics[topic] = bits
        if not topics:
            del self.forbidden[group]
        self._moved()

    def protection_of(self, name: str) -> ProtectionTimes:
        """Return how a group is protected against members that come and go: by its own times, or else the broker's."""
        group = self.groups.get(name)
        own = {} if group is None else group.attributes
        settings = self._settings
        return ProtectionTimes(
            int(own.get(STABLE_TIME, settings.stable_time_ms)), int(own.get(GRACE_TIME, settings.grace_time_ms))
        )

    def snapshot(self) -> bytes:
        """Return subscriptionGroup.json."""
        table = {"dataVersion": self.version, "forbiddenTable": self.forbidden, "subscriptionGroupTable": self.groups}
        return msgspec.json.format(msgspec.json.encode(table), indent=1)

    def restore(self, data: bytes) -> None:
        """Take over subscriptionGroup.json. Raises: msgspec.MsgspecError, ValueError, BrokerAnswer when it is none."""
        saved = msgspec.json.decode(data, type=_SavedGroups)
        for name, group in saved.subscription_group_table.items():
            if group.group_name != name:
                raise ValueError(f"the group under {name!r} says that it is {group.group_name!r}")
            check_group(group)
        self.groups.clear()
        self.groups.update(saved.subscription_group_table)
        self.forbidden = saved.forbidden_table
        self.version = saved.data_version

    def _moved(self) -> None:
        self.version = DataVersion(self.version.state_version, self._message_ms(), self.version.counter + 1)
        self._changed()


def changed_group(group: SubscriptionGroupConfig, old: SubscriptionGroupConfig | None) -> SubscriptionGroupConfig:
    """Return a group as it is stored: its attributes come as changes. `old`: what it is now. Raises: BrokerAnswer."""
    attributes = change_group_attributes(None if old is None else old.attributes, group.attributes)
    changed = msgspec.structs.replace(group, attributes=attributes)
    check_group(changed)
    return changed


def check_group(group: SubscriptionGroupConfig) -> None:
    """Refuse a group whose retry topic couldn't be made, since no member could join it, or whose times are none.

    Raises: BrokerAnswer.
    """
    if group.retry_queue_nums > QUEUES_OF_TOPIC_MAX:
        words = f"group {group.group_name} can't have retryQueueNums={group.retry_queue_nums}"
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, f"{words}: a topic has {QUEUES_OF_TOPIC_MAX} queues at most")
    check_times(group.attributes)


class _SavedGroups(msgspec.Struct, rename="camel"):
    subscription_group_table: dict[str, SubscriptionGroupConfig]
    forbidden_table: dict[str, dict[str, Int64]] = {}
    data_version: DataVersion = DataVersion()
