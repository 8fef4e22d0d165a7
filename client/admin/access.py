"""Users and policies of a cluster: sends changes to all its brokers, and combines what they report.

Each broker keeps its own users, as in RocketMQ; all get the same here, one after the other. The words are RocketMQ's:
`Topic:orders`, `Pub`, `Allow`. mqadmin's commands for users and acls do the same on the same brokers.
"""

import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from staticfire.client.admin.admin import Admin
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import UsageError, broker_answer
from staticfire.protocol.names import has_legal_characters, user_fault
from staticfire.protocol.requests.access import (
    AccessState,
    AclInfo,
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeleteUser,
    EntryInfo,
    GetAccess,
    GetUser,
    ListAcls,
    ListUsers,
    PolicyInfo,
    UpdateUser,
    UserInfo,
)

SUPER, NORMAL = "Super", "Normal"
ALLOW, DENY = "Allow", "Deny"
ACTIONS = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
KINDS = ("Cluster", "Namespace", "Topic", "Group")
_ACTIONS = {name.lower(): name for name in ACTIONS}
_KINDS = {name.lower(): name for name in KINDS}


class PolicyLine(NamedTuple):
    """One entry of a policy, as users see it."""

    user: str
    decision: str
    resource: str
    actions: list[str]
    sources: list[str]
    is_default: bool = False
    only_on: tuple[str, ...] = ()
    """The brokers that have it, if another one that knows the user doesn't: it was away when this was changed."""

    def __str__(self) -> str:
        source = f" from {','.join(self.sources)}" if self.sources else ""
        default = " (default)" if self.is_default else ""
        only = f" (only on {','.join(self.only_on)})" if self.only_on else ""
        return f"{self.decision} {self.resource} {','.join(self.actions)}{source}{default}{only}"


class UserLine(NamedTuple):
    """One user, without its secret."""

    name: str
    kind: str
    """Super if it is one on any broker."""
    is_enabled: bool
    """Whether it is enabled on any broker."""
    policies: list[PolicyLine]
    brokers: list[str]
    """The brokers that know it: all, unless one was away when it was added."""


def resource_of(text: str) -> str:
    """Return a resource in RocketMQ's form. Raises: UsageError."""
    if text.strip() == "*":
        return "*"
    kind, separator, name = text.partition(":")
    known = _KINDS.get(kind.strip().lower())
    if not separator or known is None or not name.strip():
        words = "write Topic:orders, Topic:ord*, Group:billing, Cluster:DefaultCluster, or * for everything"
        raise UsageError(f"{text!r} is not a resource: {words}")
    return f"{known}:{name.strip()}"


def actions_of(text: str) -> list[str]:
    """Return the actions in `Pub,Sub`. Raises: UsageError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word.lower() not in _ACTIONS]
    if unknown or not words:
        raise UsageError(f"{(unknown or [text])[0]!r} is not an action; actions are {', '.join(ACTIONS)}")
    return list(dict.fromkeys(_ACTIONS[word.lower()] for word in words))


class AccessAdmin:
    """Users and policies on all brokers of a cluster."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def add_user(self, name: str, secret: str, is_super: bool = False) -> None:
        """Add a user. Raises: UsageError (it exists), BrokerAnswer, NetworkError."""
        _check_user(name, secret)
        masters = await self._admin.masters()
        if not is_super and not self._admin.client.pool.is_signing and not await self.users():
            words = "from the first user on, requests must be signed, and yours aren't: add a super user first, and set"
            raise UsageError(f"{words} ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY to it; or use the owner's account")
        there = [broker for broker, address in masters.items() if await self._knows(address, name)]
        if len(there) == len(masters):
            raise UsageError(
                f"the user {name} exists; to change its secret: staticfire user change {name} --secret ..."
            )
        info = UserInfo(name, secret, SUPER if is_super else NORMAL, "enable")
        for broker, address in masters.items():
            # A broker that was away when the user was added gets it now.
            known = broker in there
            await self._ask(address, UpdateUser(name, body=info) if known else CreateUser(name, body=info))

    async def change_user(
        self, name: str, secret: str | None = None, is_super: bool | None = None, is_enabled: bool | None = None
    ) -> None:
        """Change a user; None: as before. Raises: UsageError (it doesn't exist), BrokerAnswer, NetworkError."""
        if secret is not None:
            _check_user(name, secret)
        kind = None if is_super is None else SUPER if is_super else NORMAL
        status = None if is_enabled is None else "enable" if is_enabled else "disable"
        await self._check_known(name)
        for address in (await self._admin.masters()).values():
            await self._ask(address, UpdateUser(name, body=UserInfo(name, secret, kind, status)))

    async def remove_user(self, name: str) -> None:
        """Remove a user and its policies. Raises: UsageError (it doesn't exist), BrokerAnswer (the last super user)."""
        await self._check_known(name)
        for address in (await self._admin.masters()).values():
            await self._ask(address, DeleteUser(name))

    async def users(self) -> list[UserLine]:
        """Return all users with their policies. Raises: BrokerAnswer, NetworkError."""
        infos: dict[str, dict[str, UserInfo]] = {}
        policies: dict[str, dict[str, list[PolicyLine]]] = {}
        for broker, address in (await self._admin.masters()).items():
            for one in (await self._ask(address, ListUsers())).body or []:
                infos.setdefault(one.username or "", {})[broker] = one
            for acl in (await self._ask(address, ListAcls())).body or []:
                name = (acl.subject or "").removeprefix("User:")
                policies.setdefault(name, {})[broker] = _lines(name, acl)
        return [_user_line(name, infos[name], policies.get(name, {})) for name in sorted(infos)]

    async def set_policy(
        self,
        name: str,
        decision: str,
        resource: str,
        actions: Sequence[str],
        sources: Sequence[str] = (),
        is_default: bool = False,
    ) -> None:
        """Allow or deny something to a user. What there was about the same resource is replaced.

        Raises: UsageError (no such user, no such resource or address), BrokerAnswer, NetworkError.
        """
        _check_name(resource)
        _check_sources(sources)
        await self._check_known(name)
        entry = EntryInfo(resource, list(actions), list(sources) or None, decision)
        policy = PolicyInfo("Default" if is_default else "Custom", [entry])
        subject = f"User:{name}"
        for address in (await self._admin.masters()).values():
            await self._ask(address, CreateAcl(subject, body=AclInfo(subject, [policy])))

    async def add_policy(self, wanted: PolicyLine) -> tuple[PolicyLine, PolicyLine | None]:
        """Allow or deny something more to a user; return the policy about the resource, and the one that it replaces.

        A user has one policy per resource. Actions are added to it; another decision or other addresses replace it.
        Raises: as set_policy.
        """
        name, resource = wanted.user, wanted.resource
        lines = await self._policies_of(name)
        same = (line for line in lines if (line.resource, line.is_default) == (resource, wanted.is_default))
        before = next(same, None)
        if before is not None and (before.decision, before.sources) == (wanted.decision, wanted.sources):
            actions = list(dict.fromkeys([*before.actions, *wanted.actions]))
            wanted, before = wanted._replace(actions=["All"] if "All" in actions else actions), None
        await self.set_policy(name, wanted.decision, resource, wanted.actions, wanted.sources, wanted.is_default)
        return wanted, before

    async def remove_policy(self, name: str, resource: str, is_default: bool = False) -> None:
        """Remove what the policies of a user say about a resource. Raises: UsageError (nothing), BrokerAnswer."""
        lines = await self._policies_of(name)
        removed = [line for line in lines if (line.resource, line.is_default) == (resource, is_default)]
        if not removed:
            known = ", ".join(line.resource for line in lines) or "none"
            raise UsageError(f"user {name} has no policy about {resource}; it has: {known}")
        kind = "Default" if is_default else "Custom"
        only_on = {broker for line in removed for broker in line.only_on}
        for broker, address in (await self._admin.masters()).items():
            if broker in only_on or not only_on:
                await self._ask(address, DeleteAcl(f"User:{name}", kind, resource))

    async def states(self, group: str = "") -> dict[str, AccessState]:
        """Return what each broker refused lately, and which clients use which keys. RocketMQ's brokers have no state.

        Raises: NetworkError.
        """
        found = {}
        for broker, address in (await self._admin.masters()).items():
            answer = await self._admin.client.pool.ask(address, GetAccess(group), self._admin.timeout_ms)
            if answer.code == SUCCESS and answer.body is not None:
                found[broker] = answer.body
        return found

    async def _policies_of(self, name: str) -> list[PolicyLine]:
        return [line for user in await self.users() if user.name == name for line in user.policies]

    async def _check_known(self, name: str) -> None:
        users = await self.users()
        if all(user.name != name for user in users):
            known = ", ".join(user.name for user in users)
            raise UsageError(f"there is no user {name}; " + (f"the users are {known}" if known else _NO_USERS))

    async def _knows(self, address: str, name: str) -> bool:
        return (await self._ask(address, GetUser(name))).body is not None

    async def _ask(self, address: str, request: Request) -> Answer:
        answer = await self._admin.client.pool.ask(address, request, self._admin.timeout_ms)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise UsageError(f"the broker at {address} knows no users: RocketMQ has them since 5.3.0")
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, address)
        return answer


def _user_line(name: str, infos: dict[str, UserInfo], policies: dict[str, list[PolicyLine]]) -> UserLine:
    """Return a user as its brokers know it, which may differ. `infos`, `policies`: by broker."""
    found: list[tuple[PolicyLine, list[str]]] = []
    for broker in infos:
        for line in policies.get(broker, ()):
            brokers = next((brokers for known, brokers in found if known == line), None)
            if brokers is None:
                found.append((line, [broker]))
            else:
                brokers.append(broker)
    lines = [line if len(brokers) == len(infos) else line._replace(only_on=tuple(brokers)) for line, brokers in found]
    is_super = any(one.user_type == SUPER for one in infos.values())
    is_enabled = any(one.user_status != "disable" for one in infos.values())
    return UserLine(name, SUPER if is_super else NORMAL, is_enabled, lines, list(infos))


def _lines(user: str, acl: AclInfo) -> list[PolicyLine]:
    return [
        PolicyLine(
            user, entry.decision or "", entry.resource or "", list(entry.actions or ()), list(entry.source_ips or ()),
            policy.policy_type == "Default",
        )
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    ]  # fmt: skip


def _check_name(resource: str) -> None:
    kind, _, name = resource.partition(":")
    beginning = name.removesuffix("*")
    if kind in ("Topic", "Group") and beginning and not has_legal_characters(beginning):
        raise UsageError(
            f"{resource!r} can't be the name of a {kind.lower()}: names have letters, digits, %, |, - and _; here "
            "they may end in *"
        )


def _check_sources(sources: Sequence[str]) -> None:
    for source in sources:
        try:
            ipaddress.ip_network(source.strip(), strict=False)
        except ValueError:
            raise UsageError(f"{source!r} is not an address or network; write 10.0.0.7 or 10.0.0.0/8") from None


def _check_user(name: str, secret: str) -> None:
    if fault := user_fault(name):
        raise UsageError(fault)
    if not secret.strip():
        raise UsageError(f"user {name}: the secret is empty")


_NO_USERS = "there are no users yet: staticfire user add NAME --secret SECRET"
