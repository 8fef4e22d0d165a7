"""Reads a plain_acl.yml, and reads it again when it has changed. RocketMQ: PlainPermissionManager, FileWatchService.

A broker whose file can't be read doesn't start. If the file can't be read later, the rules before stay active, as in
RocketMQ, and the log has the reason.
"""

from typing import Any

from staticfire.broker.access.plain_acl import Account, PlainAcl
from staticfire.protocol.errors import UsageError
from staticfire.runtime.machine import Files

FILE_BYTES_MAX = 16 * 1024 * 1024
HOW_TO_GET_IT = "pip install 'staticfire[acl]'"
_KEYS = {
    "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms",
    "groupPerms",
}  # fmt: skip


class PlainAclFile:
    """The file, with its content at the last reading."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._data: bytes | None = None

    def read(self) -> PlainAcl | None:
        """Return the rules if the file has changed since the last call, or at the first one. Raises: UsageError."""
        try:
            data = self._files.read_bytes(self.path)
        except OSError as error:
            # A changed file that can be read again later counts as changed.
            raise UsageError(f"{self.path} can't be read: {error.strerror or error}") from None
        if data == self._data:
            return None
        self._data = data
        try:
            return rules_of(data)
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from None


def text_of(table: dict[str, Any]) -> bytes:
    """Return the content of a file. RocketMQ: AclUtils.writeDataObject."""
    import yaml

    accounts = [_typed(one) if isinstance(one, dict) else one for one in list_of(table, "accounts")]
    text: str = yaml.safe_dump(
        {**table, "accounts": accounts}, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text.encode()


def _typed(account: dict[str, Any]) -> dict[str, Any]:
    """Return an account with the types that RocketMQ 4 expects, because all values were read as texts."""
    typed = {name: None if value in ("", "null") else value for name, value in account.items()}
    if isinstance(admin := typed.get("admin"), str):
        typed["admin"] = admin.lower() == "true"
    return typed


def rules_of(data: bytes) -> PlainAcl:
    """Return the rules in the content of a file. Raises: UsageError."""
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(f"it has {len(data)} bytes; at most {FILE_BYTES_MAX} are read")
    table = table_of(data)
    accounts = [_account(one) for one in list_of(table, "accounts")]
    return PlainAcl([str(one) for one in list_of(table, "globalWhiteRemoteAddresses")], accounts)


def table_of(data: bytes) -> dict[str, Any]:
    """Return the content of a file, with all values as texts. Raises: UsageError."""
    try:
        import yaml
    except ImportError:
        raise UsageError(f"reading YAML needs an optional package: {HOW_TO_GET_IT}") from None
    try:
        # BaseLoader takes each value as text, so that a secret of digits stays what was written. Like SafeLoader, it
        # creates nothing but texts, lists and mappings.
        found = yaml.load(data, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        words = "a tab; YAML is indented with blanks" if "\\t" in str(getattr(error, "problem", "")) else "invalid YAML"
        raise UsageError(f"{place}{words}") from None
    except (UnicodeDecodeError, RecursionError, ValueError):
        raise UsageError("it is not YAML in UTF-8") from None
    if not isinstance(found, dict):
        raise UsageError("it must have a list `accounts`, as RocketMQ's plain_acl.yml has")
    return found


def list_of(table: dict[str, Any], name: str) -> list[Any]:
    """Return one of the lists, empty if it is missing. Raises: UsageError."""
    found = table.get(name) or []
    if not isinstance(found, list):
        raise UsageError(f"`{name}` must be a list: each line begins with a dash")
    return found


def _account(found: Any) -> Account:
    if not isinstance(found, dict):
        raise UsageError("each of `accounts` must have accessKey and secretKey")
    unknown = sorted(str(key) for key in found if key not in _KEYS)
    if unknown:
        raise UsageError(f"an account has {unknown[0]!r}, which is unknown; known are {', '.join(sorted(_KEYS))}")
    return Account(
        access_key=_text(found, "accessKey"),
        secret_key=_text(found, "secretKey"),
        white_addresses=_text(found, "whiteRemoteAddress"),
        is_admin=_text(found, "admin").lower() == "true",
        default_topic_perm=_text(found, "defaultTopicPerm") or "DENY",
        default_group_perm=_text(found, "defaultGroupPerm") or "DENY",
        topic_perms=tuple(str(one) for one in list_of(found, "topicPerms")),
        group_perms=tuple(str(one) for one in list_of(found, "groupPerms")),
    )


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if value is None or value == "null":
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text")
    return value.strip()
