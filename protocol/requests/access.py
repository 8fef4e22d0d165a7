"""Users and policies. RocketMQ: CreateUserRequestHeader ..., UserInfo, AclInfo. And what staticfire's programs send
each other about access: SIGN_IN, JUDGE_CALL, GET_ACCESS.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int64

# Limits of a body, so that a request can't fill the memory.
ENTRIES_MAX = 10_000


class UserInfo(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """A user. RocketMQ returns the secret in clear text, and mqadmin prints it."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class EntryInfo(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """A line of a policy: what it is about, and Allow or Deny."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """The custom or the default entries of a user."""

    policy_type: str | None = None
    entries: list[EntryInfo] | None = None


class AclInfo(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """All policies of a user."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None


_BLANK: Mapping[str, Any] = {"username": ""}
_NO_SUBJECT: Mapping[str, Any] = {"subject": ""}


class UserAnswer(Answer, rename="camel"):
    """One user; no body if it is unknown."""

    body_type: ClassVar[Any] = UserInfo


class UsersAnswer(Answer, rename="camel"):
    """Users; no body if there are none."""

    body_type: ClassVar[Any] = list[UserInfo]


class AclAnswer(Answer, rename="camel"):
    """One user's policies; no body if there are none."""

    body_type: ClassVar[Any] = AclInfo


class AclsAnswer(Answer, rename="camel"):
    """The policies of several users; no body if there are none."""

    body_type: ClassVar[Any] = list[AclInfo]


@request(RequestCode.AUTH_CREATE_USER)
class CreateUser(Request, rename="camel"):
    """Create a user."""

    username: str
    body_type: ClassVar[Any] = UserInfo
    when_absent: ClassVar[Mapping[str, Any]] = _BLANK


@request(RequestCode.AUTH_UPDATE_USER)
class UpdateUser(Request, rename="camel"):
    """Change a user. What the body leaves out stays."""

    username: str
    body_type: ClassVar[Any] = UserInfo
    when_absent: ClassVar[Mapping[str, Any]] = _BLANK


@request(RequestCode.AUTH_DELETE_USER)
class DeleteUser(Request, rename="camel"):
    """Remove a user, with its policies."""

    username: str
    when_absent: ClassVar[Mapping[str, Any]] = _BLANK


@request(RequestCode.AUTH_GET_USER, answer=UserAnswer)
class GetUser(Request, rename="camel"):
    """Ask for a user."""

    username: str
    when_absent: ClassVar[Mapping[str, Any]] = _BLANK


@request(RequestCode.AUTH_LIST_USER, answer=UsersAnswer)
class ListUsers(Request, rename="camel"):
    """Ask for the users whose name contains a text."""

    filter: str | None = None


@request(RequestCode.AUTH_CREATE_ACL)
class CreateAcl(Request, rename="camel"):
    """Add entries to a user's policies; an entry about the same resource is replaced."""

    subject: str
    body_type: ClassVar[Any] = AclInfo
    when_absent: ClassVar[Mapping[str, Any]] = _NO_SUBJECT


@request(RequestCode.AUTH_UPDATE_ACL)
class UpdateAcl(Request, rename="camel"):
    """The same as CreateAcl."""

    subject: str
    body_type: ClassVar[Any] = AclInfo
    when_absent: ClassVar[Mapping[str, Any]] = _NO_SUBJECT


@request(RequestCode.AUTH_DELETE_ACL)
class DeleteAcl(Request, rename="camel"):
    """Remove a user's entry about a resource, or all policies of the user."""

    subject: str
    policy_type: str | None = None
    resource: str | None = None
    when_absent: ClassVar[Mapping[str, Any]] = _NO_SUBJECT


@request(RequestCode.AUTH_GET_ACL, answer=AclAnswer)
class GetAcl(Request, rename="camel"):
    """Ask for a user's policies."""

    subject: str
    when_absent: ClassVar[Mapping[str, Any]] = _NO_SUBJECT


@request(RequestCode.AUTH_LIST_ACL, answer=AclsAnswer)
class ListAcls(Request, rename="camel"):
    """Ask for the policies of the users, and about the resources, whose names contain these texts."""

    subject_filter: str | None = None
    resource_filter: str | None = None


@request(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG)
class UpdateAclConfig(Request, rename="camel"):
    """Create an account of plain_acl.yml, or change it. What is left out stays; lists are separated by commas."""

    access_key: str | None = None
    secret_key: str | None = None
    white_remote_address: str | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    admin: bool | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


@request(RequestCode.DELETE_ACL_CONFIG)
class DeleteAclConfig(Request, rename="camel"):
    """Remove an account of plain_acl.yml."""

    access_key: str | None = None


class AclVersionAnswer(Answer, rename="camel"):
    """The version of plain_acl.yml, as JSON."""

    version: str = ""
    all_acl_file_version: str = ""
    broker_name: str = ""
    broker_addr: str = ""
    cluster_name: str = ""


@request(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, answer=AclVersionAnswer)
class GetAclVersion(Request, rename="camel"):
    """Ask for the version of plain_acl.yml."""


@request(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)
class UpdateWhiteAddresses(Request, rename="camel"):
    """Replace the white list of plain_acl.yml. Addresses are separated by commas."""

    global_white_addrs: str | None = None
    acl_file_full_path: str | None = None


class PlainAccessInfo(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """An account of plain_acl.yml, with its secret, as RocketMQ returns it."""

    access_key: str | None = None
    admin: bool | None = None
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] | None = None
    secret_key: str | None = None
    topic_perms: list[str] | None = None
    white_remote_address: str | None = None


class PlainAclInfo(msgspec.Struct, rename="camel", gc=False):
    """The content of plain_acl.yml."""

    global_white_addrs: list[str] = []
    plain_access_configs: list[PlainAccessInfo] = []


class AclConfigAnswer(Answer, rename="camel"):
    """The content of plain_acl.yml."""

    body_type: ClassVar[Any] = PlainAclInfo


@request(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, answer=AclConfigAnswer)
class GetAclConfig(Request, rename="camel"):
    """Ask for the content of plain_acl.yml."""


@request(RequestCode.SIGN_IN)
class SignIn(Request, rename="camel"):
    """Sent first on a connection, one-way: the access key for all requests on it that aren't signed themselves."""

    access_key: str
    random: str
    signature: str
    security_token: str | None = None


class NeedInfo(msgspec.Struct, rename="camel", gc=False):
    """A resource that a call needs, with the actions of which one must be permitted."""

    kind: str
    name: str
    actions: list[str]


class JudgedCall(msgspec.Struct, rename="camel", gc=False):
    """A call of a gRPC client, as a gRPC endpoint passes it on: its metadata, and what it needs."""

    access_key: str
    signed_text: str
    signature: str
    source: str
    name: str
    """The name of the call's message, like SendMessageRequest."""
    client_id: str
    needs: list[NeedInfo] = []
    problem: str = ""
    """Why the metadata can't be read, in RocketMQ's words."""


class JudgeAnswer(Answer, rename="camel"):
    """The call is permitted."""

    is_judging: bool = False
    """Whether the broker checks anything at all. If not, no call needs to be passed on until ACCESS_CHANGED."""


@request(RequestCode.JUDGE_CALL, answer=JudgeAnswer)
class JudgeCall(Request, rename="camel"):
    """Ask whether a gRPC client may do something. A refusal is the response to that client."""

    body_type: ClassVar[Any] = JudgedCall


class RefusedAccess(msgspec.Struct, rename="camel", gc=False):
    """Requests of the same kind that were refused for the same reason."""

    request: str
    user: str
    """The access key of the requests; empty: none."""
    client: str
    """The client's id, or its address."""
    group: str
    resource: str
    actions: list[str]
    reason: str
    count: Int64 = 1
    first_ms: Int64 = 0
    """Wall-clock time."""
    last_ms: Int64 = 0
    similar: str = ""
    """A resource of the same name in another namespace, or in none, that the user may use; empty: there is none."""


class KeyInUse(msgspec.Struct, rename="camel", gc=False):
    """A client that sends an access key."""

    access_key: str
    client: str
    is_known: bool | None = None
    """Whether a user has that name; None: no users are known."""


class AccessState(msgspec.Struct, rename="camel", gc=False):
    """What a broker knows about access."""

    is_judging: bool = False
    """Whether signatures are checked."""
    is_authorizing: bool = False
    """Whether policies are checked."""
    refused: list[RefusedAccess] = []
    keys: list[KeyInUse] = []


class AccessAnswer(Answer, rename="camel"):
    """What a broker knows about access."""

    body_type: ClassVar[Any] = AccessState


@request(RequestCode.GET_ACCESS, answer=AccessAnswer)
class GetAccess(Request, rename="camel"):
    """Ask which requests were refused lately, and which clients use which keys. A group's name limits both."""

    group: str = ""


@request(RequestCode.ACCESS_CHANGED)
class AccessChanged(Request, rename="camel"):
    """A broker sends it to the cluster's gRPC endpoints, one-way: its data about access may be outdated."""
