"""The access keys that connected clients use, and the gRPC endpoints that ask for decisions.

A key is noted once for each connection, also while any key is accepted. When the broker's core is replaced, the new one
gets this object.
"""

from collections.abc import Callable
from typing import Any

from staticfire.protocol.codecs import Called, Envelope
from staticfire.protocol.requests.access import AccessChanged, KeyInUse
from staticfire.runtime.connection import Connection

KEYS_OF_CONNECTION_MAX = 16
# A longer key is noted without its end.
KEY_CHARS_MAX = 255
Screen = Callable[[Envelope, bytes, Called], Called]


class AccessPeers:
    """The access keys of the open connections."""

    def __init__(self, key_used: Callable[[str, str], None] | None) -> None:
        """`key_used` is called with client and key when a connection first uses the key."""
        self._keys: dict[Connection, list[str]] = {}
        self._key_used = key_used
        self._screen: Screen | None = None
        self.endpoints: dict[Connection, None] = {}
        """gRPC endpoints that have requested a decision. They are notified when users or policies change."""

    def note(self, connection: Connection, access_key: str) -> None:
        """Note that a client uses a key."""
        keys = self._keys.get(connection)
        if keys is None:
            keys = self._keys[connection] = []
        access_key = access_key[:KEY_CHARS_MAX]
        if access_key in keys or len(keys) >= KEYS_OF_CONNECTION_MAX:
            return
        keys.append(access_key)
        if self._key_used is not None:
            self._key_used(connection.client_id or connection.peer.address, access_key)

    # -- a `RequestWatch` ----------------------------------------------------------------------------------------

    @property
    def is_judging(self) -> bool:
        """Whether requests are judged."""
        return self._screen is not None

    def judge_with(self, screen: "Screen | None") -> None:
        """Judge each request from now on; None: stop that."""
        self._screen = screen

    def judged(self, envelope: Envelope, body: bytes, called: Called) -> Called:
        """See `RequestWatch`."""
        return called if self._screen is None else self._screen(envelope, body, called)

    def saw_key(self, source: Any, fields: bytes) -> None:
        """See `RequestWatch`."""
        found = access_key_in(fields)
        if found:
            self.note(source, found)

    def key_of(self, connection: Connection) -> str:
        """Return the access key that a client used first; "" if it uses none."""
        return next(iter(self._keys.get(connection, ())), "")

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection."""
        self._keys.pop(connection, None)
        self.endpoints.pop(connection, None)

    def notify_endpoints(self) -> None:
        """Notify gRPC endpoints that the decisions they have cached may be outdated."""
        for connection in self.endpoints:
            if connection.is_open:
                connection.tell(AccessChanged())

    def in_use(self, is_known: Callable[[str], bool | None]) -> list[KeyInUse]:
        """Return who uses which key now."""
        return [
            KeyInUse(key, connection.client_id or connection.peer.address, is_known(key))
            for connection, keys in self._keys.items()
            for key in keys
        ]


def access_key_in(fields: bytes) -> str:
    """Return the access key in header fields; "" if they have none or can't be decoded."""
    import msgspec  # here, since few brokers ever see a key

    try:
        found = msgspec.json.decode(fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    value = found.get("AccessKey") if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""
