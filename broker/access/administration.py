"""Users and policies, as administrators change and read them: codes 3001 to 3010.

Behaviour
- Codes, texts and their order are those of RocketMQ 5.3.3, whose mqadmin shows them to people. RocketMQ:
  AdminBrokerProcessor, AuthenticationMetadataManagerImpl, AuthorizationMetadataManagerImpl.
- The last super user that can sign in can't be removed, disabled or made a normal one, unless nothing is checked
  (authenticationEnabled=false). RocketMQ allows that, and then no client can change a user any more.
- Unknown actions are left out, as in RocketMQ, so an entry with nothing else has no action and is refused.
"""

from staticfire.broker.access.book import USERS_MAX, AccessBook, policies_of
from staticfire.broker.access.judging import AccessJudge
from staticfire.broker.access.policies import ACTIONS, ALLOW, CUSTOM, DEFAULT, DENY, PolicyEntry, network_of
from staticfire.broker.access.resources import pattern_of
from staticfire.broker.access.users import User, status_of, type_of
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.access import (
    ENTRIES_MAX,
    AclAnswer,
    AclInfo,
    AclsAnswer,
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeleteUser,
    EntryInfo,
    GetAcl,
    GetUser,
    ListAcls,
    ListUsers,
    UpdateAcl,
    UpdateUser,
    UserAnswer,
    UserInfo,
    UsersAnswer,
)

DONE = "not set any response code"
"""The remark of a success. RocketMQ doesn't set it, and this is what its responses contain then."""
SUBJECT_PREFIX = "User:"
_DECISIONS = {ALLOW.lower(): ALLOW, DENY.lower(): DENY}
_ACTIONS = {name.lower(): name for name in ACTIONS}


def _refused(words: str, code: int = ResponseCode.NO_PERMISSION) -> BrokerAnswer:
    return BrokerAnswer(code, words)


class AccessAdministration:
    """Changes and reads the book."""

    def __init__(self, book: AccessBook, judge: AccessJudge) -> None:
        self._book = book
        self._judge = judge

    # -- users ---------------------------------------------------------------------------------------------------

    def create_user(self, request: CreateUser) -> Answer:
        """Create a user. Raises: BrokerAnswer."""
        name, info = _username(request.username), _user_info(request.body)
        if self._book.user(name) is not None:
            raise _refused("The user is existed")
        if not (info.password or "").strip():
            raise _refused("password can not be blank")
        if len(self._book.users) >= USERS_MAX:
            raise _refused(f"there are {USERS_MAX} users, which is the limit: remove some")
        self._book.put_user(User(name, info.password or "", type_of(info.user_type), status_of(info.user_status)))
        return Answer(remark=DONE)

    def update_user(self, request: UpdateUser) -> Answer:
        """Change a user. Raises: BrokerAnswer."""
        name, info = _username(request.username), _user_info(request.body)
        old = self._book.user(name)
        if old is None:
            raise _refused("The user is not exist")
        new = User(
            name, info.password or old.password, type_of(info.user_type, old.user_type),
            status_of(info.user_status, old.user_status),
        )  # fmt: skip
        if not (new.is_super and new.is_enabled):
            self._keep_a_super(name)
        self._book.put_user(new)
        return Answer(remark=DONE)

    def delete_user(self, request: DeleteUser) -> Answer:
        """Remove a user and its policies. Raises: BrokerAnswer."""
        if not request.username.strip():
            raise _refused("username can not be blank")
        self._keep_a_super(request.username)
        self._book.remove_user(request.username)
        return Answer(remark=DONE)

    def get_user(self, request: GetUser) -> Answer:
        """Return a user; no body if it is unknown. Raises: BrokerAnswer."""
        user = self._book.user(_username(request.username))
        return UserAnswer(remark=DONE, body=None if user is None else _info_of(user))

    def list_users(self, request: ListUsers) -> Answer:
        """Return all users whose name contains the filter."""
        found = [_info_of(user) for name, user in sorted(self._book.users.items()) if (request.filter or "") in name]
        return UsersAnswer(remark=DONE, body=found or None)

    def _keep_a_super(self, name: str) -> None:
        """Refuse to lose the last super user while it is needed."""
        if self._judge.switches.authentication is not False and self._book.is_last_super(name):
            raise _refused(
                f"User:{name} is the last super user that can sign in: without it, no client could change users or "
                "policies; make another user a super user first"
            )

    # -- policies ------------------------------------------------------------------------------------------------

    def put_acl(self, request: CreateAcl | UpdateAcl) -> Answer:
        """Add entries to a user's policies, or replace them. Raises: BrokerAnswer."""
        info: AclInfo | None = request.body
        if info is None or not info.policies:
            words = "The body of acl is null, the acl can't be created without policies"
            raise _refused(words, ResponseCode.SYSTEM_ERROR)
        name = _subject(request.subject)
        policies: list[tuple[str, list[PolicyEntry]]] = []
        for policy in info.policies:
            if not policy.entries:
                raise _refused("The policies is empty.")
            kind = DEFAULT if (policy.policy_type or "").lower() == DEFAULT.lower() else CUSTOM
            policies.append((kind, [_entry(entry) for entry in policy.entries]))
        if self._book.user(name) is None:
            raise _refused(f"The subject of {SUBJECT_PREFIX}{name} is not exist.")
        self._refuse_too_many(name, sum(len(entries) for _, entries in policies))
        for kind, entries in policies:
            self._book.put_entries(name, kind, entries)
        return Answer(remark=DONE)

    def delete_acl(self, request: DeleteAcl) -> Answer:
        """Remove an entry of a user, or all its policies. Raises: BrokerAnswer."""
        name = self._known_subject(request.subject)
        if name not in self._book.acls:
            raise _refused("The acl is not exist.")
        if not request.resource:
            self._book.remove_acl(name)
            return Answer(remark=DONE)
        kind = DEFAULT if (request.policy_type or "").lower() == DEFAULT.lower() else CUSTOM
        pattern = pattern_of(request.resource)
        if pattern is not None:
            self._book.remove_entry(name, kind, pattern)
        return Answer(remark=DONE)

    def get_acl(self, request: GetAcl) -> Answer:
        """Return a user's policies; no body if there are none. Raises: BrokerAnswer."""
        name = self._known_subject(request.subject)
        return AclAnswer(remark=DONE, body=self._acl_info(name, ""))

    def list_acls(self, request: ListAcls) -> Answer:
        """Return the policies of all users whose subject contains the filter."""
        found = []
        for name in sorted(self._book.acls):
            if (request.subject_filter or "") in SUBJECT_PREFIX + name:
                info = self._acl_info(name, request.resource_filter or "")
                if info is not None:
                    found.append(info)
        return AclsAnswer(remark=DONE, body=found or None)

    def _acl_info(self, name: str, resource_filter: str) -> AclInfo | None:
        acl = self._book.acls.get(name)
        policies = [] if acl is None else policies_of(acl, resource_filter)
        return AclInfo(SUBJECT_PREFIX + name, policies) if policies else None

    def _known_subject(self, subject: str) -> str:
        name = _subject(subject)
        if self._book.user(name) is None:
            raise _refused("The subject is not exist.")
        return name

    def _refuse_too_many(self, name: str, count: int) -> None:
        acl = self._book.acls.get(name)
        there = 0 if acl is None else sum(len(list(policy)) for policy in acl.policies.values())
        if there + count > ENTRIES_MAX:
            raise _refused(f"{SUBJECT_PREFIX}{name} would have more than {ENTRIES_MAX} entries: use prefixes like ab*")


def _username(text: str) -> str:
    if not text.strip():
        raise _refused("The username is blank", ResponseCode.INVALID_PARAMETER)
    return text


def _user_info(body: UserInfo | None) -> UserInfo:
    if body is None:
        raise _refused("The body of the request is null: it must describe the user", ResponseCode.SYSTEM_ERROR)
    return body


def _info_of(user: User) -> UserInfo:
    return UserInfo(user.username, user.password, user.user_type, user.user_status)


def _subject(text: str) -> str:
    """Return the user's name in a subject. RocketMQ has no other type of subject."""
    kind, separator, name = text.partition(":")
    if not separator or kind.lower() != "user":
        words = "An system error occurred, please try again later."
        raise _refused(words, ResponseCode.SYSTEM_ERROR)
    return name


def _entry(info: EntryInfo) -> PolicyEntry:
    """Return an entry that was sent. Raises: BrokerAnswer, in RocketMQ's order."""
    pattern = pattern_of(info.resource or "")
    if pattern is None:
        raise _refused("The resource is null.")
    if any(text.lower() == "any" for text in info.actions or ()):
        raise _refused("The actions can not be Any.")
    actions = tuple(dict.fromkeys(_ACTIONS[text.lower()] for text in info.actions or () if text.lower() in _ACTIONS))
    if not actions:
        raise _refused("The actions is empty.")
    for source in info.source_ips or ():
        if not source.strip():
            raise _refused("The source ip is empty.")
        if network_of(source) is None:
            raise _refused("The source ip is invalid.")
    decision = _DECISIONS.get((info.decision or "").lower())
    if decision is None:
        raise _refused("The decision is null or illegal.")
    return PolicyEntry(pattern, actions, tuple(info.source_ips or ()), decision)
