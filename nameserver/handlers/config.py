"""Read and change settings of a running nameserver. RocketMQ: DefaultRequestProcessor's getConfig and updateConfig.

Behaviour: a request changes all of its values or none. Unknown names, unreadable values and values out of range are
refused; RocketMQ answers such a request with success. A change lasts until a reset, or the end of the process: it isn't
written to the configuration file. The controller in this nameserver has the same settings.
"""

from dataclasses import fields

from staticfire.nameserver.settings import NameserverSettings
from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import UsageError
from staticfire.protocol.java_properties import read_properties, write_properties
from staticfire.protocol.requests.routes import NameserverConfigAnswer
from staticfire.runtime.dispatcher import Call, Handler
from staticfire.runtime.live_settings import as_properties, change_settings
from staticfire.runtime.log import logger
from staticfire.runtime.tls.settings import TlsSettings

log = logger("nameserver")

# RocketMQ's three names, and our settings that can't change while the nameserver runs.
BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "folder", "listenHost", "listenPort"})
AT_START_ONLY = {"folder", "listen_host", "listen_port", "unfinished_frame_bytes_max", "unfinished_frame_ms_max"} | {
    one.name for one in fields(TlsSettings)
}
LIVE = frozenset(one.name for one in fields(NameserverSettings)) - AT_START_ONLY


class NameserverConfigHandlers:
    """The handlers of requests about the nameserver's settings."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state

    def by_code(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.GET_NAMESRV_CONFIG: self.get,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update,
            RequestCode.GET_CONTROLLER_CONFIG: self.get,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self.update,
        }

    def get(self, _: Call) -> Answer:
        properties = as_properties(self._state.settings) | {"configBlackList": ";".join(sorted(BLACK_LIST))}
        return NameserverConfigAnswer(body=write_properties(properties).encode())

    def update(self, call: Call) -> Answer:
        properties = read_properties((call.request.body or b"").decode("utf-8", "replace"))
        if BLACK_LIST & properties.keys():
            return refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        try:
            change = change_settings(self._state.settings, properties, LIVE)
        except UsageError as error:
            log.warning("settings_refused", reason=str(error))
            return refusal(ResponseCode.INVALID_PARAMETER, str(error))
        self._state.settings = change.settings
        if change.changed:
            log.info("settings_updated", settings=change.changed)
        return Answer()
