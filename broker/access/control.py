"""Access control of one broker: users, policies and the gate, created when the first user or setting needs them.

While no setting and no user requires a judgement, requests don't pass through here. From then on, the slow path decodes
all requests, also those of open connections, because only there is a request seen together with its signature.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from staticfire.broker.access.administration import AccessAdministration
from staticfire.broker.access.book import AccessBook
from staticfire.broker.access.gate import AccessGate
from staticfire.broker.access.judging import AccessJudge, AccessSwitches
from staticfire.broker.access.peers import AccessPeers
from staticfire.broker.access.plain_file import PlainAclFile
from staticfire.broker.access.refusals import AccessRefusals, readable
from staticfire.broker.access.users import NORMAL, SUPER, User, type_of
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.access import AccessAnswer, AccessState
from staticfire.runtime.connection import Connection
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock, Files

if TYPE_CHECKING:
    from staticfire.broker.access.plain_administration import PlainAdministration

log = logger("access")


class AccessSite(msgspec.Struct):
    """The parts of a broker that its access control uses."""

    clock: Clock
    files: Files
    settings: Callable[[], BrokerSettings]
    connections: Callable[[], Iterable[Connection]]
    save: Callable[[], None]


class AccessControl:
    """Users and policies of a broker; requests pass through its gate while anything is judged."""

    def __init__(self, site: AccessSite, peers: AccessPeers) -> None:
        """Raises: UsageError (a setting is invalid)."""
        self._site = site
        self._peers = peers
        self.book = AccessBook(self._changed)
        settings = site.settings()
        inner = inner_user(settings)
        self.judge = AccessJudge(self.book, settings.broker_cluster_name, inner)
        self.refusals = AccessRefusals()
        self.gate = AccessGate(self.judge, site.clock, self.refusals, peers)
        self.administration = AccessAdministration(self.book, self.judge)
        self._was_judging = False
        self._file: PlainAclFile | None = None
        self._file_error = ""
        self._has_warned = False

    def begin(self) -> None:
        """Add users that the settings name for the first time; judge if anything requires it. Raises: UsageError."""
        settings = self._site.settings()
        users = check_settings(settings)
        knew_named = self.book.create_named(users)
        for user in users:
            known = self.book.user(user.username)
            if known is None:
                removed = "it was removed after an earlier start"
                unknown = "access.json is of an earlier version and doesn't say whether this user was removed"
                (log.info if knew_named else log.warning)(
                    "user_not_created", user=readable(user.username), reason=removed if knew_named else unknown,
                    way_out=f"staticfire user add {readable(user.username)} --secret ...",
                )  # fmt: skip
            elif known.password != user.password:
                # As in RocketMQ; people would look for a wrong secret elsewhere.
                log.warning(
                    "user_exists", user=readable(user.username), reason="it keeps its secret, which is another one",
                    way_out=f"staticfire user change {readable(user.username)} --secret ...",
                )  # fmt: skip
        if settings.plain_acl_file:
            self._file = PlainAclFile(self._site.files, settings.plain_acl_file)
            self.judge.plain = self._file.read()
        self.apply()

    def read_file_again(self) -> None:
        """Use the accounts of the plain_acl.yml again, if it has changed. If it can't be read, keep those before."""
        if self._file is None:
            return
        try:
            plain = self._file.read()
        except UsageError as error:
            if str(error) != self._file_error:
                log.error("plain_acl_not_read", reason=str(error), way_out="repair the file; the old rules stay")
            self._file_error = str(error)
            return
        self._file_error = ""
        if plain is not None:
            self.judge.plain = plain
            self.refusals.forget()
            log.info("plain_acl_read", path=self._file.path, accounts=len(plain.book.users))
            self.apply()

    @property
    def plain_administration(self) -> "PlainAdministration":
        """What reads and writes plain_acl.yml, for a broker that has one."""
        from staticfire.broker.access.plain_administration import PlainAdministration  # imported here: few use it

        assert self._file is not None
        site = self._site
        settings = site.settings()
        names = settings.broker_name, settings.broker_cluster_name
        return PlainAdministration(site.files, self._file.path, site.clock, names, self.read_file_again)

    def apply(self) -> None:
        """Open or shut the gate, as settings, users and policies require."""
        settings, site = self._site.settings(), self._site
        self.judge.switches = AccessSwitches(
            settings.authentication_enabled,
            settings.authorization_enabled,
            _names(settings.authentication_whitelist),
            _names(settings.authorization_whitelist),
        )
        self.gate.is_old = settings.old_acl_answers
        is_judging = self.judge.is_judging
        self._peers.judge_with(self.gate.screen if is_judging else None)
        self._warn(settings)
        for connection in site.connections() if is_judging else ():
            connection.read_slowly()
        self._peers.notify_endpoints()
        if is_judging != self._was_judging:
            self._was_judging = is_judging
            log.info("access_judged" if is_judging else "access_open", users=len(self.book.users))

    def _warn(self, settings: BrokerSettings) -> None:
        """Log that plain_acl.yml overrules a setting, once."""
        has_no_effect = settings.authentication_enabled is False and self.judge.plain is not None
        if has_no_effect and not self._has_warned:
            reason = f"{settings.plain_acl_file} has signatures checked; start without the file to accept any key"
            log.warning("setting_has_no_effect", setting="authenticationEnabled=false", reason=reason)
        self._has_warned = has_no_effect

    def state(self, group: str) -> AccessAnswer:
        """Return what was refused lately, and who uses which key."""
        judge = self.judge
        found = AccessState(
            judge.is_authenticating,
            judge.is_authorizing,
            self.refusals.of_group(group),
            self._peers.in_use(lambda key: judge.user(key) is not None if judge.is_judging else None),
        )
        return AccessAnswer(body=found)

    def _changed(self) -> None:
        self.refusals.forget()
        self._site.save()
        self.apply()


def inner_user(settings: BrokerSettings) -> User | None:
    """Return the user of the cluster's own programs."""
    text = settings.inner_client_authentication_credentials
    if not text:
        return None
    own = Credentials.parse(text)  # The broker has checked it, because it signs with it.
    return User(own.access_key, own.secret_key, SUPER)


def check_settings(settings: BrokerSettings) -> list[User]:
    """Check the settings of access; return the users that they name. Raises: UsageError, without a secret."""
    if settings.acl_enable and not settings.plain_acl_file:
        words = "RocketMQ 4's access control needs plainAclFile=/path/to/plain_acl.yml"
        raise UsageError(f"aclEnable=true: {words}; for RocketMQ 5's, set authenticationEnabled=true instead")
    return first_users(settings)


class _NamedUser(msgspec.Struct, rename="camel"):
    username: str
    password: str
    user_type: str | None = None


def first_users(settings: BrokerSettings) -> list[User]:
    """Return the users that initAuthenticationUser names: one, as in RocketMQ, or a list. Raises: UsageError.

    The first is a super user by default, the others are normal users.
    """
    text = settings.init_authentication_user
    if not text:
        return []
    try:
        named = msgspec.json.decode(text, type=_NamedUser | list[_NamedUser])
    except msgspec.MsgspecError:
        # The error of msgspec is dropped, because it could contain a secret.
        words = 'it must be like {"username":"admin","password":"..."}, or a list of such objects'
        raise UsageError(f"initAuthenticationUser: {words}") from None
    users = named if isinstance(named, list) else [named]
    if any(not one.username.strip() or not one.password.strip() for one in users):
        raise UsageError("initAuthenticationUser: username and password must not be blank")
    return [
        User(one.username, one.password, type_of(one.user_type, NORMAL if index else SUPER))
        for index, one in enumerate(users)
    ]


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
