"""Settings, read and changed while it runs. RocketMQ: DefaultRequestProcessor's getConfig and updateConfig.

Behaviour: all values of a request or none; unknown names and values that can't be read are ignored, as in RocketMQ. A
change lasts until the process ends: it isn't written to the configuration file.
"""

from dataclasses import fields, replace
from typing import Any

from staticfire.nameserver.settings import NameserverSettings
from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.java_properties import read_properties, write_properties
from staticfire.protocol.requests.routes import NameserverConfigAnswer
from staticfire.runtime.config import field_of, key_of, text_of
from staticfire.runtime.connection import Call, Handler
from staticfire.runtime.log import logger

log = logger("nameserver")

BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "folder", "listenHost", "listenPort"})
# RocketMQ's three, and ours that can't change while the nameserver runs.


class ConfigHandlers:
    """Requests about the nameserver's settings."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state

    def by_code(self) -> dict[RequestCode, Handler]:
        return {RequestCode.GET_NAMESRV_CONFIG: self.get, RequestCode.UPDATE_NAMESRV_CONFIG: self.update}

    def get(self, _: Call) -> Answer:
        return NameserverConfigAnswer(body=write_properties(as_properties(self._state.settings)).encode())

    def update(self, call: Call) -> Answer:
        properties = read_properties((call.request.body or b"").decode("utf-8", "replace"))
        if BLACK_LIST & properties.keys():
            return refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        self._state.settings = updated(self._state.settings, properties)
        log.info("settings_updated", **properties)
        return Answer()


def as_properties(settings: NameserverSettings) -> dict[str, str]:
    """Return the settings under RocketMQ's names."""
    texts = {key_of(one): text_of(getattr(settings, one.name)) for one in fields(settings)}
    return texts | {"configBlackList": ";".join(sorted(BLACK_LIST))}


def updated(settings: NameserverSettings, properties: dict[str, str]) -> NameserverSettings:
    """Return the settings with those values that have a known name and can be read."""
    changes: dict[str, Any] = {}
    for key, text in properties.items():
        name = field_of(NameserverSettings, key)
        value = None if name is None else _value(text.strip(), type(getattr(settings, name)))
        if name is not None and value is not None:
            changes[name] = value
    return replace(settings, **changes)


def _value(text: str, kind: type) -> bool | int | str | None:
    """Read as Java does: whatever isn't `true` is false, a number in decimal digits; None: not a number."""
    if kind is bool:
        return text.lower() == "true"
    if kind is int:
        return int(text) if text.removeprefix("-").isdecimal() else None
    return text
