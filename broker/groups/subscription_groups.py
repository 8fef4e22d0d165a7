"""The consumer groups of a broker and their permissions. RocketMQ: SubscriptionGroupManager."""

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
# RocketMQ: PermName.INDEX_PERM_READ, as a bit.
FORBIDDEN_READ = 0x4


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
        """This is always the same dictionary: handlers keep a reference to it."""
        self.forbidden: dict[str, dict[str, int]] = {}
        """What groups may not do with topics, as bits; only `FORBIDDEN_READ` is in use."""
        self.version = DataVersion()

    def add_system_groups(self) -> None:
        """Create the system groups that are missing."""
        for name in sorted(SYSTEM_GROUPS):
            broadcast = name.startswith("CID_ONS")
            self.groups.setdefault(
                name,
                SubscriptionGroupConfig(
                    group_name=name, consume_broadcast_enable=broadcast or name != "CID_RMQ_SYS_TRANS"
                ),
            )

    def use(self, settings: BrokerSettings) -> None:
        """Use other settings from now on."""
        self._settings = settings

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group without creating it."""
        return self.groups.get(name)

    def on_created(self, tell: Callable[[str], None]) -> None:
        """Call `tell` with the name of each group that is created automatically."""
        self._created.append(tell)

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group; create it with defaults if that is allowed. RocketMQ: findSubscriptionGroupConfig."""
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
        """Delete a group; return whether there was one."""
        was_forbidden = self.forbidden.pop(name, None) is not None
        if self.groups.pop(name, None) is None and not was_forbidden:
            return False
        self._moved()
        return True

    def may_read(self, group: str, topic: str) -> bool:
        """Return whether a group may consume a topic: every topic that was not forbidden to it."""
        return not self.forbidden.get(group, {}).get(topic, 0) & FORBIDDEN_READ

    def let_read(self, group: str, topic: str, allowed: bool) -> None:
        """Allow or forbid a group to consume a topic. The group needn't exist."""
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
        """Return the protection times of a group: its own, or else the broker's."""
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
        """Load subscriptionGroup.json. Raises: msgspec.MsgspecError, ValueError, BrokerAnswer (it is not valid)."""
        saved = msgspec.json.decode(data, type=_SavedGroups)
        for name, group in saved.subscription_group_table.items():
            if group.group_name != name:
                raise ValueError(f"the entry {name!r} contains the group {group.group_name!r}")
            check_group(group)
        self.groups.clear()
        self.groups.update(saved.subscription_group_table)
        self.forbidden = saved.forbidden_table
        self.version = saved.data_version

    def _moved(self) -> None:
        self.version = DataVersion(self.version.state_version, self._message_ms(), self.version.counter + 1)
        self._changed()


def changed_group(group: SubscriptionGroupConfig, old: SubscriptionGroupConfig | None) -> SubscriptionGroupConfig:
    """Return a group with its attributes, which are sent as changes to the `old` ones. Raises: BrokerAnswer."""
    attributes = change_group_attributes(None if old is None else old.attributes, group.attributes)
    changed = msgspec.structs.replace(group, attributes=attributes)
    check_group(changed)
    return changed


def check_group(group: SubscriptionGroupConfig) -> None:
    """Refuse a group whose retry topic can't be created, since no member could join it, or whose times are not valid.

    Raises: BrokerAnswer.
    """
    if group.retry_queue_nums > QUEUES_OF_TOPIC_MAX:
        words = f"group {group.group_name} can't have retryQueueNums={group.retry_queue_nums}"
        raise BrokerAnswer(
            ResponseCode.INVALID_PARAMETER, f"{words}: a topic can have at most {QUEUES_OF_TOPIC_MAX} queues"
        )
    check_times(group.attributes)


class _SavedGroups(msgspec.Struct, rename="camel"):
    subscription_group_table: dict[str, SubscriptionGroupConfig]
    forbidden_table: dict[str, dict[str, Int64]] = {}
    data_version: DataVersion = DataVersion()
