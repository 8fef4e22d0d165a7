"""The users and policies of a broker, and their form on the disk. Pure: a callback saves them.

Each change increases the version and clears the decisions that were remembered. RocketMQ keeps the same in two
RocksDB folders. RocketMQ: AuthenticationMetadataManager, AuthorizationMetadataManager.
"""

from collections.abc import Callable
from itertools import islice

import msgspec

from staticfire.broker.access.policies import CUSTOM, DEFAULT, DENY, Acl, PolicyEntries, PolicyEntry, PolicyVerdict
from staticfire.broker.access.resources import Pattern, Resource, pattern_of
from staticfire.broker.access.users import User
from staticfire.protocol.checksums import crc32
from staticfire.protocol.requests.access import EntryInfo, PolicyInfo

FILE = "access.json"
USERS_MAX = 10_000
# The number of decisions that are remembered: 10 MiB, if clients invent names. They are forgotten with each change.
DECISIONS_MAX = 10_000
NAME_CHARS_MAX = 255
NAMESPACES_TRIED_MAX = 100


class AccessBook:
    """Users by name, and their policies."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called after each change."""
        self.users: dict[str, User] = {}
        self.acls: dict[str, Acl] = {}
        self.had_policies = False
        """Whether there is or was a policy: without the last one, policies are still checked and permit nothing."""
        self.named: set[str] = set()
        """The users that settings named at a start: each is created once, so that a removed one doesn't come back."""
        self._knows_named = True
        self.version = 0
        self._changed = changed
        self._decisions: dict[tuple[str, Resource, frozenset[str], str], PolicyVerdict] = {}

    def user(self, name: str) -> User | None:
        """Return a user; None if it doesn't exist."""
        return self.users.get(name)

    def put_user(self, user: User) -> None:
        """Add a user, or replace it."""
        self.users[user.username] = user
        self.touch()

    def create_named(self, users: list[User]) -> bool:
        """Add the users that settings name, except for those that they named at an earlier start, too.

        Return whether it was known which users that were. A failover, a restore and a restart of the broker are such
        starts. A file of an earlier version doesn't contain the names that settings had: each user that is missing
        counts as removed.
        """
        fresh = [user for user in users if user.username not in self.named]
        knew_named = self._knows_named
        if fresh or not knew_named:
            for user in fresh if knew_named else ():
                self.users.setdefault(user.username, user)
            self.named.update(user.username for user in fresh)
            self._knows_named = True
            self.touch()
        return knew_named

    def remove_user(self, name: str) -> bool:
        """Remove a user and its policies; return whether it existed."""
        is_known = self.users.pop(name, None) is not None
        self.acls.pop(name, None)
        if not self.users:
            self.had_policies = False
        if is_known:
            self.touch()
        return is_known

    def is_last_super(self, name: str) -> bool:
        """Return whether no other super user can sign in."""
        user = self.users.get(name)
        if user is None or not user.is_super:
            return False
        return not any(one.is_super and one.is_enabled for one in self.users.values() if one.username != name)

    def put_entries(self, name: str, policy_type: str, entries: list[PolicyEntry]) -> None:
        """Add entries to the policies of a user. An entry about the same resource is replaced as a whole."""
        acl = self.acls.setdefault(name, Acl())
        acl.policies[policy_type].put(entries)
        self.had_policies = True
        self.touch()

    def remove_entry(self, name: str, policy_type: str, pattern: Pattern) -> None:
        """Remove the entries about a pattern from the policies of a user, if there are any."""
        acl = self.acls[name]
        acl.policies[policy_type].remove(pattern)
        if not acl:
            del self.acls[name]
        self.touch()

    def remove_acl(self, name: str) -> None:
        """Remove all policies of a user."""
        del self.acls[name]
        self.touch()

    def decide(self, name: str, resource: Resource, actions: frozenset[str], source: str) -> PolicyVerdict:
        """Return whether the policies of a user permit one of the actions. Hot path."""
        key = (name, resource, actions, source)
        verdict = self._decisions.get(key)
        if verdict is None:
            acl = self.acls.get(name) or _NO_POLICIES
            verdict = acl.decide(resource, actions, source)
            # No topic has a longer name. A client could fill the memory with such names.
            if len(resource.name) > NAME_CHARS_MAX:
                return verdict
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[key] = verdict
        return verdict

    def in_other_namespace(self, name: str, resource: Resource, actions: frozenset[str], source: str) -> str:
        """Return the same name in another namespace, or in none, if the policies permit it; "" otherwise."""
        acl = self.acls.get(name)
        # Names of dead letters and retries don't begin with a namespace.
        if acl is None or resource.name.startswith("%"):
            return ""
        patterns = (entry.pattern for policy in acl.policies.values() for entry in policy)
        spaces = dict.fromkeys(one.name.partition("%")[0] for one in patterns if "%" in one.name[1:])
        own, _, rest = resource.name.rpartition("%")
        for space in islice(("", *spaces), NAMESPACES_TRIED_MAX):
            other = Resource(resource.kind, f"{space}%{rest}" if space else rest)
            if space != own and acl.decide(other, actions, source).is_allowed:
                return other.text
        return ""

    def touch(self) -> None:
        """Note a change."""
        self.version += 1
        self._decisions.clear()
        self._changed()

    def copy_for(self, version: str) -> tuple[str, str]:
        """Return the content for a slave, and its version; no content if the slave has that version."""
        data = self.snapshot()
        current = f"{crc32(data):08x}-{len(data)}"
        return ("" if version == current else data.decode()), current

    def take_copy(self, data: bytes) -> None:
        """Replace users and policies by the master's. Raises: msgspec.MsgspecError, ValueError (it is invalid)."""
        self.restore(data)
        self._changed()

    def snapshot(self) -> bytes:
        """Return the content of access.json."""
        saved = {
            "users": [self.users[name] for name in sorted(self.users)],
            "acls": {name: policies_of(self.acls[name]) for name in sorted(self.acls)},
            "hadPolicies": self.had_policies,
            "named": sorted(self.named) if self._knows_named else None,
        }
        return msgspec.json.format(msgspec.json.encode(saved), indent=1)

    def restore(self, data: bytes) -> None:
        """Restore from access.json. Raises: msgspec.MsgspecError, ValueError (it is invalid)."""
        saved = msgspec.json.decode(data, type=_Saved)
        acls: dict[str, Acl] = {}
        for name, policies in saved.acls.items():
            acls[name] = acl = Acl()
            for policy in policies:
                kind = DEFAULT if policy.policy_type == DEFAULT else CUSTOM
                acl.policies[kind] = PolicyEntries(map(entry_of, policy.entries or ()))
        self.users = {user.username: user for user in saved.users}
        self.acls = acls
        self.had_policies = saved.had_policies or bool(acls)
        self.named = set(saved.named or ())
        self._knows_named = saved.named is not None or not self.users
        self.version += 1
        self._decisions.clear()


def entry_of(info: EntryInfo) -> PolicyEntry:
    """Return the entry that was saved. Raises: ValueError."""
    pattern = pattern_of(info.resource or "")
    if pattern is None:
        raise ValueError(f"the resource {info.resource!r} is invalid")
    return PolicyEntry(pattern, tuple(info.actions or ()), tuple(info.source_ips or ()), info.decision or DENY)


def policies_of(acl: Acl, resource_filter: str = "") -> list[PolicyInfo]:
    """Return the policies as they are saved and sent; with a filter, only entries whose resource contains it."""
    found = []
    for kind, policy in acl.policies.items():
        entries = [_info(entry) for entry in policy if resource_filter in entry.pattern.text]
        if entries:
            found.append(PolicyInfo(kind, entries))
    return found


def _info(entry: PolicyEntry) -> EntryInfo:
    return EntryInfo(entry.pattern.text, list(entry.actions), list(entry.sources) or None, entry.decision)


class _Saved(msgspec.Struct, rename="camel"):
    users: list[User] = []
    acls: dict[str, list[PolicyInfo]] = {}
    had_policies: bool = False
    named: list[str] | None = None
    """None in files of earlier versions, and in those of slaves whose masters have such a file."""


_NO_POLICIES = Acl()
