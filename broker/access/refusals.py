"""A refusal: why a request is refused, in the words of RocketMQ 5 or 4; and the latest refusals, for explain.

Pure. RocketMQ's clients show refusals badly: a refused consumer starts without an error and gets nothing. So a broker
remembers which request of which client it refused.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from staticfire.broker.access.needs import group_of_retry
from staticfire.broker.access.resources import GROUP, Resource
from staticfire.protocol.codes import ResponseCode, name_of_request
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.access import RefusedAccess
from staticfire.protocol.times import UptimeMs

NO_KEY, UNKNOWN, DISABLED, WRONG_SIGNATURE = "no access key", "unknown user", "disabled user", "wrong signature"
NOT_PERMITTED, ADMIN_ONLY, UNREADABLE = "not permitted", "needs a super user", "unreadable request"
# How many different refusals are remembered.
REFUSALS_MAX = 1_000
# Texts of clients are cut to this length, and a refusal is noted for so many groups: clients may send megabytes.
CHARS_MAX = 255
GROUPS_MAX = 50
# The maximum of log lines about refusals in this time. A client can invent a user name for each request.
LINES_MAX, LINES_MS = 100, 60_000
_ACL_1 = "org.apache.rocketmq.acl.common.AclException: "


class AccessRefusal(NamedTuple):
    """Why a request is refused."""

    reason: str
    code: int
    """The request code."""
    user: str = ""
    source: str = ""
    resource: Resource | None = None
    actions: frozenset[str] = frozenset()
    detail: str = ""
    """The reason of the policies, or why the request can't be read."""
    is_default: bool = False
    """Whether no custom entry of the policies matched."""
    is_unsigned: bool = False
    """Whether signatures aren't checked, only policies."""

    def answer(self, is_old: bool) -> Answer:
        """Return the response. `is_old`: that of RocketMQ 4."""
        if is_old:
            return refusal(ResponseCode.SYSTEM_ERROR, _ACL_1 + self._old_words())
        return refusal(ResponseCode.NO_PERMISSION, self.words())

    def words(self) -> str:
        """Return the text of RocketMQ 5."""
        match self.reason:
            case _ if self.reason == NO_KEY and self.is_unsigned:
                return "Authorization failed. Please verify your access rights and try again."
            case _ if self.reason == NO_KEY:
                return "username cannot be null."
            case _ if self.reason == UNKNOWN:
                return f"User:{self.user} {'' if self.is_unsigned else 'is '}not found."
            case _ if self.reason == DISABLED:
                return f"User:{self.user} is disabled."
            case _ if self.reason == WRONG_SIGNATURE:
                return "check signature failed."
            case _ if self.reason == UNREADABLE:
                return self.detail or "parse authorization context error."
        named = "" if self.resource is None else self.resource.text
        return f"User:{self.user} has no permission to access {named} from {self.source}, {self.detail}"

    def _old_words(self) -> str:
        """Return the text of RocketMQ 4."""
        if self.reason == NO_KEY:
            return "No accessKey is configured"
        if self.reason in (UNKNOWN, DISABLED):
            return f"No acl config for {self.user}"
        if self.reason == WRONG_SIGNATURE:
            return f"Check signature failed for accessKey={self.user}"
        if self.reason == ADMIN_ONLY:
            return f"Need admin permission for request code={self.code}, but accessKey={self.user} is not"
        kind = "group" if self.resource is not None and self.resource.kind == GROUP else "topic"
        default = "default " if self.is_default else ""
        return f"No {default}permission for {kind}:{'' if self.resource is None else self.resource.name}"


class AccessRefusals:
    """The latest different refusals, and how often each was repeated."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], RefusedAccess] = {}

    def note(
        self,
        one: AccessRefusal,
        client: str,
        groups: Iterable[str],
        name: str,
        wall_ms: int,
        similar: Callable[[AccessRefusal], str] = lambda _: "",
    ) -> RefusedAccess | None:
        """Note a refusal for each group that the request is about; return it if it is new.

        `similar` returns the value of the record's field of that name.
        """
        new = None
        resource = "" if one.resource is None else readable(one.resource.text)
        user, client, name = readable(one.user), readable(client), readable(name)
        for group in map(readable, islice(groups, GROUPS_MAX)):
            key = (one.code, name, user, client, group, resource, one.reason, one.detail)
            found = self._kept.pop(key, None)
            if found is None:
                new = found = RefusedAccess(
                    name or name_of_request(one.code), user, client, group, resource, sorted(one.actions),
                    one.reason, 0, wall_ms, wall_ms, readable(similar(one)) if new is None else new.similar,
                )  # fmt: skip
            found.count += 1
            found.last_ms = wall_ms
            # The last one is the newest, so the first one is dropped if there are too many.
            self._kept[key] = found
            if len(self._kept) > REFUSALS_MAX:
                del self._kept[next(iter(self._kept))]
        return new

    def of_group(self, group: str) -> list[RefusedAccess]:
        """Return what was refused to a group, the newest first; to all groups and producers if the name is empty."""
        return [one for one in reversed(self._kept.values()) if not group or one.group == group]

    def forget(self) -> None:
        """Forget all, because users or policies have changed."""
        self._kept.clear()


class RefusalLines:
    """Limits the lines of the log about refusals."""

    def __init__(self) -> None:
        self._count = 0
        self._left_out = 0
        self._since_ms: UptimeMs | None = None

    def admits(self, uptime_ms: UptimeMs) -> bool:
        """Return whether another line may be written now; otherwise it is counted."""
        if self._since_ms is None or uptime_ms - self._since_ms >= LINES_MS:
            self._since_ms, self._count = uptime_ms, 0
        self._count += 1
        if self._count > LINES_MAX:
            self._left_out += 1
            return False
        return True

    def take_left_out(self) -> int:
        """Return how many lines were left out since the last call."""
        count, self._left_out = self._left_out, 0
        return count


def readable(text: str) -> str:
    """Return a text of a client as the log and people may see it: not long, without control characters."""
    if len(text) <= CHARS_MAX and text.isprintable():
        return text
    line = "".join(char if char.isprintable() else "?" for char in text[:CHARS_MAX])
    return line if len(text) <= CHARS_MAX else f"{line}..."


def groups_of(request: object, resource: Resource | None) -> list[str]:
    """Return the groups that a request is about: refusals are looked up by group."""
    body = getattr(request, "body", None)
    consumers = getattr(body, "consumer_data_set", None)
    if consumers:
        return [one.group_name for one in consumers]
    for holder in (request, body):
        for field in ("consumer_group", "group", "group_name", "dest_group"):
            if found := getattr(holder, field, None):
                return [str(found)]
    if owner := group_of_retry(str(getattr(request, "topic", ""))):
        return [owner]
    return [resource.name if resource is not None and resource.kind == GROUP else ""]
