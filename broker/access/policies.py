"""Decide by the policies of a user whether it may do some actions on a resource, from an address. Pure. RocketMQ:
AclAuthorizationHandler.

A user has custom policies, and default ones, which count only where no custom entry matches. Of all matching entries,
the most specific decides: a type before `*`; a whole name before a prefix, and a longer prefix before a shorter one. Of
two entries of equal rank, Deny wins. RocketMQ 5.3.3 mixes these ranks up, depending on the order of entries; this is
the order that its authors meant, and that later versions have.

Entries are found by their names, not by a search through all of them: one look-up for each length of prefix in use.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from staticfire.broker.access.resources import EVERYTHING, Pattern, Resource

ALL, PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST = "All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"
ACTIONS = (ALL, PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST)
ALLOW, DENY = "Allow", "Deny"
CUSTOM, DEFAULT = "Custom", "Default"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class PolicyEntry(NamedTuple):
    """One line of a policy."""

    pattern: Pattern
    actions: tuple[str, ...]
    sources: tuple[str, ...]
    """Addresses or networks that it is about; empty: all."""
    decision: str

    def is_about(self, actions: frozenset[str], source: str) -> bool:
        """Return whether the entry applies to any of the actions, requested from that address."""
        return (ALL in self.actions or not actions.isdisjoint(self.actions)) and is_from(source, self.sources)


class PolicyVerdict(NamedTuple):
    """What the policies decide."""

    is_allowed: bool
    reason: str = ""
    """Why not, in RocketMQ's words."""
    is_default: bool = False
    """Whether no custom entry matched: a default entry decided, or there was none."""


ALLOWED = PolicyVerdict(True)
DENIED = PolicyVerdict(False, "the decision is deny.")
NO_MATCH = PolicyVerdict(False, "no matched policies.", is_default=True)
DENIED_BY_DEFAULT = DENIED._replace(is_default=True)


def network_of(text: str) -> Network | None:
    """Return the network that a text means, like `10.0.0.0/8`; one address is a network, too. None if it isn't one."""
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None


def is_from(source: str, sources: tuple[str, ...]) -> bool:
    """Return whether an address is one of the sources."""
    if not sources:
        return True
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return False
    return any((network := network_of(one)) is not None and address in network for one in sources)


class PolicyEntries:
    """The entries of one user and one policy type, by what they name."""

    def __init__(self, entries: Iterable[PolicyEntry] = ()) -> None:
        self._entries: dict[Pattern, list[PolicyEntry]] = {}
        # The lengths of the prefixes of each type, the longest first.
        self._lengths: dict[str, list[int]] = {}
        for entry in entries:
            self._entries.setdefault(entry.pattern, []).append(entry)
        self._index()

    def __iter__(self) -> Iterator[PolicyEntry]:
        return (entry for entries in self._entries.values() for entry in entries)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def put(self, entries: Iterable[PolicyEntry]) -> None:
        """Add entries. Each replaces the entry of the same pattern."""
        for entry in entries:
            self._entries[entry.pattern] = [entry]
        self._index()

    def remove(self, pattern: Pattern) -> bool:
        """Remove the entry of a pattern; return whether there was one."""
        is_known = self._entries.pop(pattern, None) is not None
        self._index()
        return is_known

    def decide(self, resource: Resource, actions: frozenset[str], source: str) -> PolicyVerdict | None:
        """Return the decision of the most specific entry; None if no entry matches."""
        for pattern in self._patterns(resource):
            found = [one for one in self._entries.get(pattern, ()) if one.is_about(actions, source)]
            if found:
                return DENIED if any(one.decision == DENY for one in found) else ALLOWED
        return None

    def _patterns(self, resource: Resource) -> Iterator[Pattern]:
        """Yield the patterns that a resource matches, the most specific first."""
        kind, name = resource
        if name:
            yield Pattern(kind, name)
        for length in self._lengths.get(kind, ()):
            if length <= len(name):
                yield Pattern(kind, name[:length], is_prefix=True)
        yield Pattern(EVERYTHING, "", is_prefix=True)

    def _index(self) -> None:
        lengths: dict[str, set[int]] = {}
        for pattern in self._entries:
            if pattern.is_prefix:
                lengths.setdefault(pattern.kind, set()).add(len(pattern.name))
        self._lengths = {kind: sorted(found, reverse=True) for kind, found in lengths.items()}


class Acl:
    """All policies of one user."""

    def __init__(self) -> None:
        self.policies: dict[str, PolicyEntries] = {CUSTOM: PolicyEntries(), DEFAULT: PolicyEntries()}

    def __bool__(self) -> bool:
        return any(self.policies.values())

    def decide(self, resource: Resource, actions: frozenset[str], source: str) -> PolicyVerdict:
        """Return what the policies decide."""
        verdict = self.policies[CUSTOM].decide(resource, actions, source)
        if verdict is None:
            verdict = self.policies[DEFAULT].decide(resource, actions, source) or NO_MATCH
            return DENIED_BY_DEFAULT if verdict is DENIED else verdict
        return verdict
