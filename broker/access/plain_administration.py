"""Reads and writes plain_acl.yml for RocketMQ 4's mqadmin: codes 50 to 54.

Behaviour
- Codes, texts and the fields that an update doesn't change are those of RocketMQ 4.9.7. RocketMQ: AdminBrokerProcessor,
  PlainPermissionManager.
- The file is written, with a new dataVersion, and its rules apply at once.
- A value with which the file couldn't be read again is refused. RocketMQ accepts a wrong white address (53) and a wrong
  default permission (50); with the address, it can't read its file any more.
- Comments in the file are lost, as in RocketMQ.

Not done
- 53 for another file than plainAclFile (aclFileFullPath).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from staticfire.broker.access.plain_acl import KEY_CHARS_MIN, PERMISSIONS, address_test
from staticfire.broker.access.plain_file import list_of, rules_of, table_of, text_of
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer, UsageError
from staticfire.protocol.requests.access import (
    AclConfigAnswer,
    AclVersionAnswer,
    DeleteAclConfig,
    GetAclConfig,
    GetAclVersion,
    PlainAccessInfo,
    PlainAclInfo,
    UpdateAclConfig,
    UpdateWhiteAddresses,
)
from staticfire.runtime.machine import Clock, Files

UPDATE_FAILED, DELETE_FAILED, WHITE_FAILED = 209, 210, 211
"""Response codes of RocketMQ 4. RocketMQ 5 has given 209 to 211 other meanings, too."""
ACCOUNTS_MAX = 10_000
_PERMS_EXPECTED = "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."


class PlainAdministration:
    """Changes the file of one broker."""

    def __init__(
        self, files: Files, path: str, clock: Clock, names: tuple[str, str], changed: Callable[[], None]
    ) -> None:
        """`names`: of the broker and its cluster. `changed` is called when the file was written."""
        self._files = files
        self._path = path
        self._clock = clock
        self._names = names
        self._changed = changed

    def update(self, request: UpdateAclConfig) -> Answer:
        """Create or change an account. Raises: BrokerAnswer."""
        key, secret = request.access_key, request.secret_key
        if min(len(key or ""), len(secret or "")) <= KEY_CHARS_MIN:
            names = f"accessKey={_or_null(key)} and secretKey={_or_null(secret)}"
            raise BrokerAnswer(
                UPDATE_FAILED, f"The {names} cannot be null and length should longer than {KEY_CHARS_MIN}"
            )
        topics, groups = _permissions(request.topic_perms), _permissions(request.group_perms)
        _check_address(request.white_remote_address)
        wanted = {
            "accessKey": key,
            "secretKey": secret,
            "whiteRemoteAddress": request.white_remote_address,
            "admin": request.admin,
            "defaultTopicPerm": request.default_topic_perm,
            "defaultGroupPerm": request.default_group_perm,
            "topicPerms": topics,
            "groupPerms": groups,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        table = self._table(UPDATE_FAILED)
        accounts = table.setdefault("accounts", None) or []
        found = next((one for one in accounts if isinstance(one, dict) and one.get("accessKey") == key), None)
        if found is not None:
            found.update(given)
        elif len(accounts) >= ACCOUNTS_MAX:
            raise BrokerAnswer(UPDATE_FAILED, f"the file has {ACCOUNTS_MAX} accounts, which is the limit: remove some")
        else:
            accounts.append(given)
        table["accounts"] = accounts
        self._write(table, UPDATE_FAILED)
        return Answer()

    def delete(self, request: DeleteAclConfig) -> Answer:
        """Remove an account. Raises: BrokerAnswer."""
        table = self._table(DELETE_FAILED)
        accounts = table.get("accounts") or []
        rest = [one for one in accounts if not isinstance(one, dict) or one.get("accessKey") != request.access_key]
        if len(rest) == len(accounts):
            key = _or_null(request.access_key)
            words = f"The accesskey[{key}] corresponding to accessConfig has been deleted failed."
            raise BrokerAnswer(DELETE_FAILED, words)
        table["accounts"] = rest
        self._write(table, DELETE_FAILED)
        return Answer()

    def update_white_addresses(self, request: UpdateWhiteAddresses) -> Answer:
        """Replace the addresses that need no account. Raises: BrokerAnswer."""
        text = request.global_white_addrs
        words = f"The globalWhiteAddresses[{_or_null(text)}] has been updated failed."
        if text is None:
            raise BrokerAnswer(WHITE_FAILED, words)
        addresses = [one.strip() for one in text.split(",") if one.strip()]
        try:
            for one in addresses:
                address_test(one)
        except UsageError as error:
            raise BrokerAnswer(WHITE_FAILED, f"{words} {error}") from None
        table = self._table(WHITE_FAILED)
        self._write({**table, "globalWhiteRemoteAddresses": addresses}, WHITE_FAILED)
        return Answer()

    def version(self, _: GetAclVersion) -> AclVersionAnswer:
        """Return the version of the file. Raises: BrokerAnswer."""
        text = msgspec.json.encode(_version_of(self._table(UPDATE_FAILED))).decode()
        of_files = msgspec.json.encode({self._path: msgspec.Raw(text.encode())}).decode()
        broker, cluster = self._names
        return AclVersionAnswer(text, of_files, broker, "", cluster)

    def config(self, _: GetAclConfig) -> AclConfigAnswer:
        """Return the content of the file. Raises: BrokerAnswer."""
        table = self._table(UPDATE_FAILED)
        accounts = [_info(one) for one in list_of(table, "accounts") if isinstance(one, dict)]
        addresses = [str(one) for one in list_of(table, "globalWhiteRemoteAddresses")]
        return AclConfigAnswer(body=PlainAclInfo(addresses, accounts))

    # -- the file ------------------------------------------------------------------------------------------------

    def _table(self, code: int) -> dict[str, Any]:
        try:
            return table_of(self._files.read_bytes(self._path))
        except (OSError, UsageError) as error:
            raise BrokerAnswer(code, f"{self._path} can't be read: {error}") from None

    def _write(self, table: dict[str, Any], code: int) -> None:
        version = _version_of(table)
        changed = {"counter": version["counter"] + 1, "timestamp": self._clock.wall_ms()}
        data = text_of({**table, "dataVersion": [changed]})
        try:
            rules_of(data)
            self._files.replace(self._path, data, is_private=True)
        except UsageError as error:
            raise BrokerAnswer(code, str(error)) from None
        except OSError as error:
            raise BrokerAnswer(code, f"{self._path} can't be written: {error.strerror or error}") from None
        self._changed()


def _or_null(text: str | None) -> str:
    """Return a text as Java shows it."""
    return "null" if text is None else text


def _permissions(text: str | None) -> list[str] | None:
    """Return the lines of a list. Raises: BrokerAnswer."""
    if text is None:
        return None
    lines = [one.strip() for one in text.split(",") if one.strip()]
    for line in lines:
        name, separator, perm = line.partition("=")
        if not separator or not name or "=" in perm:
            words = f"Parse Resource format error for {line}.\nThe expected resource format is 'Res=Perm'."
            raise BrokerAnswer(UPDATE_FAILED, f"{words} For example: topicA=SUB")
        if perm.strip() not in PERMISSIONS:
            words = f"Parse resource permission error for {line}.\n{_PERMS_EXPECTED}"
            raise BrokerAnswer(UPDATE_FAILED, words)
    return lines


def _check_address(text: str | None) -> None:
    try:
        address_test(text or "*")
    except UsageError:
        raise BrokerAnswer(UPDATE_FAILED, f"Netaddress examine Exception netaddress is {text}") from None


def _version_of(table: dict[str, Any]) -> dict[str, int]:
    """Return the version in a file; zeros if it has none, because no broker has written it yet."""
    versions = table.get("dataVersion")
    last = versions[-1] if isinstance(versions, list) and versions and isinstance(versions[-1], dict) else {}
    return {name: _number(last.get(name)) for name in ("counter", "timestamp")}


def _number(value: Any) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() else 0


def _info(account: dict[str, Any]) -> PlainAccessInfo:
    def text(name: str) -> str | None:
        value = account.get(name)
        return value if isinstance(value, str) and value not in ("", "null") else None

    def texts(name: str) -> list[str] | None:
        found = account.get(name)
        return [str(one) for one in found] if isinstance(found, list) else None

    return PlainAccessInfo(
        access_key=text("accessKey"),
        admin=(text("admin") or "").lower() == "true",
        default_group_perm=text("defaultGroupPerm"),
        default_topic_perm=text("defaultTopicPerm"),
        group_perms=texts("groupPerms"),
        secret_key=text("secretKey"),
        topic_perms=texts("topicPerms"),
        white_remote_address=text("whiteRemoteAddress"),
    )
