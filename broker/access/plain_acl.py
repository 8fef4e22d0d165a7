"""The rules of RocketMQ 4's plain_acl.yml (ACL 1.0), as users and policies. Pure: `plain_file.py` reads the file.

An account becomes a user, each line of its permissions two entries: what is allowed, and what is denied because it
isn't listed. The defaults become default entries. White lists have no counterpart in policies, so they stay here. What
a request needs is another, shorter table than that of RocketMQ 5. RocketMQ: PlainPermissionManager,
PlainAccessValidator, RemoteAddressStrategyFactory.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any, NamedTuple

from staticfire.broker.access.book import AccessBook
from staticfire.broker.access.needs import NEEDS_OF_CLUSTER, Need, group, group_of_retry, topic
from staticfire.broker.access.policies import ALLOW, CUSTOM, DEFAULT, DENY, PUB, SUB, Acl, PolicyEntries, PolicyEntry
from staticfire.broker.access.resources import GROUP, TOPIC, Pattern
from staticfire.broker.access.users import NORMAL, SUPER, User
from staticfire.protocol.codes import RequestCode as Code
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import TRACE_TOPIC

_FIRST_OF_ROCKETMQ_5 = 3001
"""RocketMQ 4 knows no higher code: the requests for users and policies begin here, staticfire's own follow."""
ADMIN_CODES = frozenset({17, 25, 50, 51, 52, 53, 54, 200, 207, 215, 513}) | {
    code for code in NEEDS_OF_CLUSTER if code >= _FIRST_OF_ROCKETMQ_5
}
"""Requests for admin accounts only. RocketMQ lets any account send 53, which opens the broker to addresses, and 54,
which returns all secrets. Of the requests that RocketMQ 4 doesn't know, those about the whole cluster are here: with
them an account could make itself a super user, read all secrets and messages, or remove them."""
_SENDS = frozenset({Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE})
PERMISSIONS = {"DENY": (), "PUB": (PUB,), "SUB": (SUB,), "PUB|SUB": (PUB, SUB), "SUB|PUB": (PUB, SUB)}
KEY_CHARS_MIN = 6


class Account(NamedTuple):
    """One account of the file."""

    access_key: str
    secret_key: str
    white_addresses: str = ""
    is_admin: bool = False
    default_topic_perm: str = "DENY"
    default_group_perm: str = "DENY"
    topic_perms: tuple[str, ...] = ()
    group_perms: tuple[str, ...] = ()


class PlainAcl:
    """The accounts of a file."""

    def __init__(self, white_addresses: list[str], accounts: list[Account]) -> None:
        """Raises: UsageError (an account, a permission or an address is invalid)."""
        self._white = [address_test(text) for text in white_addresses]
        self._white_of = {one.access_key: address_test(one.white_addresses) for one in accounts if one.white_addresses}
        self.book = AccessBook()
        for one in accounts:
            self._add(one)

    def is_white_listed(self, source: str, access_key: str = "") -> bool:
        """Return whether an address is in the global white list, or with a key in the white list of that account."""
        if access_key:
            test = self._white_of.get(access_key)
            return test is not None and test.matches(source)
        return any(test.matches(source) for test in self._white)

    def needs_admin(self, code: int) -> bool:
        """Return whether only admin accounts may send this request."""
        return code in ADMIN_CODES

    def is_trace(self, code: int, request: Any) -> bool:
        """Return whether a request sends to the trace topic, for which no permission is needed."""
        return code in _SENDS and getattr(request, "topic", "") == TRACE_TOPIC

    def needs(self, code: int, request: Any) -> Iterator[Need]:
        """Yield what a request needs. Requests that aren't named here need only a valid signature."""
        if code in _SENDS:
            yield _named(request.topic, PUB)
        elif code == Code.SEND_MANY:
            for name in dict.fromkeys(message.topic for message in request.body):
                if name != TRACE_TOPIC:
                    yield _named(name, PUB)
        elif code in (Code.PULL_MESSAGE, Code.UPDATE_CONSUMER_OFFSET):
            yield _named(request.topic, SUB)
            yield group(request.consumer_group, SUB)
        elif code == Code.IMPORT_MESSAGES:
            yield topic(request.topic, PUB)
        elif code == Code.QUERY_MESSAGE:
            yield topic(request.topic, SUB)
        elif code == Code.GET_CONSUMPTION:
            yield _named(request.topic, SUB)
        elif code == Code.HEART_BEAT:
            for consumer in request.body.consumer_data_set:
                yield group(consumer.group_name, SUB)
                for subscription in consumer.subscription_data_set:
                    yield _named(subscription.topic, SUB)
        elif code in (Code.CONSUMER_SEND_MSG_BACK, Code.GET_GROUP_STATE):
            yield group(request.group, SUB)
        elif code in (Code.GET_CONSUMER_LIST_BY_GROUP, Code.UNREGISTER_CLIENT) and request.consumer_group:
            yield group(request.consumer_group, SUB)

    def _add(self, one: Account) -> None:
        if len(one.access_key) <= KEY_CHARS_MIN or len(one.secret_key) <= KEY_CHARS_MIN:
            words = f"accessKey and secretKey must be longer than {KEY_CHARS_MIN} characters"
            raise UsageError(f"the account {one.access_key!r}: {words}")
        if self.book.user(one.access_key) is not None:
            raise UsageError(f"the account {one.access_key!r} is in the file twice")
        self.book.put_user(User(one.access_key, one.secret_key, SUPER if one.is_admin else NORMAL))
        entries = [*_entries(one, TOPIC, one.topic_perms), *_entries(one, GROUP, one.group_perms)]
        defaults = [
            *_both(Pattern(TOPIC, "", is_prefix=True), _default(one.default_topic_perm)),
            *_both(Pattern(GROUP, "", is_prefix=True), _default(one.default_group_perm)),
        ]
        acl = self.book.acls[one.access_key] = Acl()
        acl.policies[CUSTOM], acl.policies[DEFAULT] = PolicyEntries(entries), PolicyEntries(defaults)


def _named(name: str, action: str) -> Need:
    """Return the need of a topic; that of a retry topic is the right to consume as its group."""
    owner = group_of_retry(name)
    return group(owner, SUB) if owner else topic(name, action)


def _entries(one: Account, kind: str, lines: tuple[str, ...]) -> Iterator[PolicyEntry]:
    for line in lines:
        name, separator, perm = line.partition("=")
        actions = PERMISSIONS.get(perm.strip())
        if not separator or not name.strip() or actions is None:
            raise UsageError(
                f"the account {one.access_key!r}: {line!r} must be like name=PUB|SUB, with PUB, SUB, PUB|SUB or DENY"
            )
        yield from _both(Pattern(kind, name.strip()), actions)


def _both(pattern: Pattern, allowed: tuple[str, ...]) -> Iterator[PolicyEntry]:
    """Yield the entries for what is allowed, and for the rest."""
    if allowed:
        yield PolicyEntry(pattern, allowed, (), ALLOW)
    denied = tuple(one for one in (PUB, SUB) if one not in allowed)
    if denied:
        yield PolicyEntry(pattern, denied, (), DENY)


def _default(text: str) -> tuple[str, ...]:
    return PERMISSIONS.get(text.strip(), ())


class AddressTest(NamedTuple):
    """Which addresses a line of a white list means: for each part of an address, a range of numbers."""

    alternatives: tuple[tuple[range, ...], ...]
    is_everything: bool = False

    def matches(self, source: str) -> bool:
        """Return whether an address is meant."""
        if self.is_everything:
            return True
        parts = _parts(source)
        return any(
            len(one) == len(parts) and all(part in span for part, span in zip(parts, one, strict=True))
            for one in self.alternatives
        )


def _parts(source: str) -> tuple[int, ...]:
    """Return the numbers of an address: 4, or the 8 of an IPv6 address."""
    try:
        address = ipaddress.ip_address(source.partition("%")[0])
    except ValueError:
        return ()
    packed = address.packed
    size = 1 if address.version == 4 else 2
    return tuple(int.from_bytes(packed[at : at + size], "big") for at in range(0, len(packed), size))


def address_test(text: str) -> AddressTest:
    """Return the test for a line: `*`, `10.1.*.*`, `10.1.2.3-9`, `10.1.2.{3,4}`, or several with commas.

    Raises: UsageError.
    """
    text = text.strip()
    if text in ("*", "*.*.*.*", "*:*:*:*:*:*:*:*"):
        return AddressTest((), is_everything=True)
    return AddressTest(tuple(_spans(one) for one in _split(text)))


def _split(text: str) -> Iterator[str]:
    """Yield the single addresses of a line."""
    head, brace, rest = text.partition("{")
    if brace:
        inner, closing, tail = rest.partition("}")
        if not closing or tail:
            raise UsageError(f"{text!r} is not a white address: the braces must end it")
        for last in inner.split(","):
            yield head + last.strip()
        return
    for one in text.split(","):
        if one.strip():
            yield one.strip()


def _spans(text: str) -> tuple[range, ...]:
    is_old = ":" not in text
    base, parts_wanted, top = (10, 4, 255) if is_old else (16, 8, 0xFFFF)
    if not is_old and "*" not in text and "-" not in text:
        parts = _parts(text)
        if not parts:
            raise UsageError(f"{text!r} is not a white address, like 10.1.2.* or 10.1.2.3-9")
        return tuple(range(part, part + 1) for part in parts)
    spans = []
    for part in text.split("." if is_old else ":"):
        first, dash, last = part.partition("-")
        try:
            low, high = (0, top) if part == "*" else (int(first, base), int(last if dash else first, base))
        except ValueError:
            low, high = 1, 0
        spans.append(range(low, high + 1))
    if len(spans) != parts_wanted or any(not span or span[-1] > top for span in spans):
        raise UsageError(f"{text!r} is not a white address, like 10.1.2.* or 10.1.2.3-9")
    return tuple(spans)
