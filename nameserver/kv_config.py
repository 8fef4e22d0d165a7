"""Key-value configuration: namespaces of names and values. RocketMQ: KVConfigManager, kvConfig.json.

A `KVConfig` is an immutable value: a change returns a new one, so a change that can't be saved never takes effect.
Invariant: a namespace is kept once it exists, even when it is empty, because the response to a registration differs
between an empty namespace and a missing one.
"""

from collections.abc import Mapping

import msgspec

from staticfire.protocol import fastjson


class _File(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]]


class KVConfig:
    """All namespaces."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._namespaces = {name: dict(table) for name, table in (namespaces or {}).items()}

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, or None."""
        return self._namespaces.get(namespace, {}).get(key)

    def table(self, namespace: str) -> dict[str, str] | None:
        """Return a copy of a namespace, or None if it never existed."""
        table = self._namespaces.get(namespace)
        return None if table is None else dict(table)

    def with_value(self, namespace: str, key: str, value: str | None) -> "KVConfig":
        """Return a copy with this value set. With None as the value, the key is removed and the namespace is kept."""
        changed = self._namespaces | {namespace: self._namespaces.get(namespace, {}) | {key: value or ""}}
        if value is None:
            del changed[namespace][key]
        return KVConfig(changed)

    def without(self, namespace: str, key: str) -> "KVConfig":
        """Return a copy without that key."""
        return self.with_value(namespace, key, None) if self.get(namespace, key) is not None else self

    def encode(self) -> bytes:
        """Return the content of kvConfig.json."""
        return fastjson.encode(_File(self._namespaces))

    @classmethod
    def decode(cls, data: bytes) -> "KVConfig":
        """Read the content of kvConfig.json. Raises: ProtocolError."""
        return cls(fastjson.decode_as(data, _File, fastjson.UNLIMITED).config_table)
