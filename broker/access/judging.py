"""Decide whether a request is refused: wrong signature, or the user may not do it. Pure; settings are passed in.

The order of the checks is RocketMQ's: the key, the user, the signature; then each need of the request. RocketMQ:
DefaultAuthenticationProvider, DefaultAuthorizationProvider, PlainPermissionManager.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from staticfire.broker.access.book import AccessBook
from staticfire.broker.access.needs import NEEDS, Need
from staticfire.broker.access.plain_acl import PlainAcl
from staticfire.broker.access.refusals import (
    ADMIN_ONLY,
    DISABLED,
    NO_KEY,
    NOT_PERMITTED,
    UNKNOWN,
    UNREADABLE,
    WRONG_SIGNATURE,
    AccessRefusal,
)
from staticfire.broker.access.resources import CLUSTER, Resource
from staticfire.broker.access.users import SUPER, User, type_of
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.signatures import is_same

_USER_CHANGES = frozenset({RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER})
GRPC_PACKAGE = "apache.rocketmq.v2."


class SignedBy(NamedTuple):
    """The access key and signature of a request, and a function to check the signature."""

    access_key: str
    signature: str
    expected: Callable[[str], str]
    """Returns the right signature for a secret."""
    is_silent: bool = False
    """Whether the request has no header fields at all, so that RocketMQ only checks signatures, not policies."""
    problem: str = ""
    """Why they can't be read."""


class AccessSwitches(msgspec.Struct, frozen=True):
    """The settings that decide whether requests are judged. None: from the first user, or the first policy, on."""

    authentication: bool | None = None
    authorization: bool | None = None
    unsigned_codes: frozenset[str] = frozenset()
    """Codes, or names of gRPC messages, of requests that need no signature."""
    unauthorized_codes: frozenset[str] = frozenset()
    """The same, for policies."""


class AccessJudge:
    """Decides about requests, by users and policies, and by a file of RocketMQ 4 if there is one."""

    def __init__(self, book: AccessBook, cluster: str, inner: User | None) -> None:
        """`inner`: the user of the cluster's own programs. It isn't in the book, and nothing can remove it."""
        self._book = book
        self._cluster = cluster
        self._inner = inner
        self.switches = AccessSwitches()
        self.plain: PlainAcl | None = None
        """The accounts of a plain_acl.yml."""

    @property
    def is_authenticating(self) -> bool:
        """Whether signatures are checked: always with a plain_acl.yml, else as RocketMQ 5's setting requires."""
        wanted = self.switches.authentication
        return self.plain is not None or (bool(self._book.users) if wanted is None else wanted)

    @property
    def is_authorizing(self) -> bool:
        """Whether policies are checked."""
        wanted = self.switches.authorization
        return (self._book.had_policies or self.plain is not None) if wanted is None else wanted

    @property
    def is_judging(self) -> bool:
        """Whether anything is checked."""
        return self.is_authenticating or self.is_authorizing

    def user(self, name: str) -> User | None:
        """Return the user of a name: the inner user, one of RocketMQ 5, or an account of the file; None if unknown."""
        if self._inner is not None and name == self._inner.username:
            return self._inner
        found = self._book.user(name)
        if found is None and self.plain is not None:
            return self.plain.book.user(name)
        return found

    def _is_plain(self, name: str) -> bool:
        """Return whether the rules of RocketMQ 4 apply to a user: it is only in the file, or there is only the file."""
        is_inner = self._inner is not None and name == self._inner.username
        return self.plain is not None and not is_inner and self._book.user(name) is None

    def judge(self, code: int, request: Any, by: SignedBy, source: str) -> AccessRefusal | None:
        """Return why a remoting request is refused; None: it is accepted. `request` is None if it can't be decoded."""
        if self._is_plain(by.access_key):
            return self._judge_plain(code, request, by, source)
        refused = self._check(str(code), code, by, source) or self._protect_supers(code, request, by, source)
        if refused is not None or not self.is_authorizing or str(code) in self.switches.unauthorized_codes:
            return refused
        table = NEEDS.get(code)
        try:
            needs = () if table is None else tuple(table(request, self._cluster))
        except (AttributeError, TypeError):
            return AccessRefusal(UNREADABLE, code, by.access_key, source)
        return self._check_needs(code, needs, by, source)

    def judge_call(self, name: str, needs: Sequence[Need], by: SignedBy, source: str) -> AccessRefusal | None:
        """Return why the call of a gRPC client is refused; None: it is accepted."""
        if self._is_plain(by.access_key):
            assert self.plain is not None
            refused = self._check_plain(0, by, source)
            return refused if refused or self._is_white_listed(by, source) else self._check_needs(0, needs, by, source)
        full_name = GRPC_PACKAGE + name
        if {name, full_name}.isdisjoint(self.switches.unsigned_codes):
            refused = self._check(name, 0, by, source)
            if refused is not None:
                return refused
        if not self.is_authorizing or not {name, full_name}.isdisjoint(self.switches.unauthorized_codes):
            return None
        return self._check_needs(0, needs, by, source)

    def _check(self, named: str, code: int, by: SignedBy, source: str) -> AccessRefusal | None:
        """Check key, user and signature."""
        if not self.is_authenticating or named in self.switches.unsigned_codes:
            return None
        if by.problem:
            return AccessRefusal(UNREADABLE, code, source=source, detail=by.problem)
        if not by.access_key:
            return AccessRefusal(NO_KEY, code, source=source)
        user = self.user(by.access_key)
        if user is None:
            return AccessRefusal(UNKNOWN, code, by.access_key, source)
        if not user.is_enabled:
            return AccessRefusal(DISABLED, code, by.access_key, source)
        if not is_same(by.signature, by.expected(user.password)):
            return AccessRefusal(WRONG_SIGNATURE, code, by.access_key, source)
        return None

    def _protect_supers(self, code: int, request: Any, by: SignedBy, source: str) -> AccessRefusal | None:
        """Refuse requests of normal users that create, change or remove a super user. RocketMQ: isNotSuperUserLogin."""
        if code not in _USER_CHANGES or request is None:
            return None
        user, target = self.user(by.access_key), self._book.user(request.username)
        if user is None or user.is_super:
            return None
        wanted = type_of(getattr(request.body, "user_type", None))
        if wanted != SUPER and (target is None or not target.is_super):
            return None
        verb = "create" if code == RequestCode.AUTH_CREATE_USER else "update"
        words = f"The super user can only be {verb} by super user"
        return AccessRefusal(UNREADABLE, code, by.access_key, source, detail=words)

    def _check_needs(self, code: int, needs: Sequence[Need], by: SignedBy, source: str) -> AccessRefusal | None:
        if not by.access_key and by.is_silent:
            return None
        if not by.access_key:
            return AccessRefusal(NO_KEY, code, source=source, is_unsigned=True)
        user = self.user(by.access_key)
        if user is None:
            return AccessRefusal(UNKNOWN, code, by.access_key, source, is_unsigned=True)
        if user.user_type == SUPER:
            return None
        book = self._book
        if self._is_plain(by.access_key) and self.plain is not None:
            book = self.plain.book
        for resource, actions in needs:
            verdict = book.decide(user.username, resource, actions, source)
            if not verdict.is_allowed:
                return AccessRefusal(
                    NOT_PERMITTED, code, user.username, source, resource, actions, verdict.reason, verdict.is_default
                )
        return None

    def similar(self, refused: AccessRefusal) -> str:
        """Return what the user may use instead, if the client's namespace is missing or wrong; "" otherwise."""
        if refused.reason != NOT_PERMITTED or refused.resource is None:
            return ""
        return self._book.in_other_namespace(refused.user, refused.resource, refused.actions, refused.source)

    # -- RocketMQ 4 ----------------------------------------------------------------------------------------------

    def _judge_plain(self, code: int, request: Any, by: SignedBy, source: str) -> AccessRefusal | None:
        assert self.plain is not None
        if self._is_white_listed_for_all(source):
            return None
        refused = self._check_plain(code, by, source)
        if refused is not None or self._is_white_listed(by, source):
            return refused
        user = self.user(by.access_key)
        assert user is not None
        if self.plain.is_trace(code, request) or user.is_super:
            return None
        if self.plain.needs_admin(code):
            return AccessRefusal(
                ADMIN_ONLY,
                code,
                by.access_key,
                source,
                Resource(CLUSTER, self._cluster),
                detail="only an admin account may do this.",
            )
        try:
            needs = tuple(self.plain.needs(code, request))
        except (AttributeError, TypeError):
            return AccessRefusal(UNREADABLE, code, by.access_key, source)
        return self._check_needs(code, needs, by, source)

    def _check_plain(self, code: int, by: SignedBy, source: str) -> AccessRefusal | None:
        """Check key, account and signature in the order of RocketMQ 4."""
        if self._is_white_listed_for_all(source):
            return None
        if not by.access_key:
            return AccessRefusal(NO_KEY, code, source=source)
        user = self.user(by.access_key)
        if user is None:
            return AccessRefusal(UNKNOWN, code, by.access_key, source)
        if not self._is_white_listed(by, source) and not is_same(by.signature, by.expected(user.password)):
            return AccessRefusal(WRONG_SIGNATURE, code, by.access_key, source)
        return None

    def _is_white_listed_for_all(self, source: str) -> bool:
        return self.plain is not None and self.plain.is_white_listed(source)

    def _is_white_listed(self, by: SignedBy, source: str) -> bool:
        return self.plain is not None and (
            self.plain.is_white_listed(source) or self.plain.is_white_listed(source, by.access_key)
        )
