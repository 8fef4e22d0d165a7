"""Key-value configuration. RocketMQ: DefaultRequestProcessor, KVConfigManager.

Behaviour: if a folder is configured, a change is on the disk before the response. A change that can't be saved is
refused and has no effect (RocketMQ answers success). RESET, staticfire's own, removes the whole configuration, and
restores the settings with which the nameserver started.
"""

from staticfire.nameserver.kv_config import KVConfig
from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import SUCCESS, Answer, refusal
from staticfire.protocol.requests.routes import (
    DeleteKVConfig,
    GetKVConfig,
    GetKVList,
    KVAnswer,
    KVTable,
    KVTableAnswer,
    PutKVConfig,
)
from staticfire.runtime.dispatcher import Call, Handler
from staticfire.runtime.log import logger

log = logger("nameserver")


class KVHandlers:
    """The handlers of requests about the key-value configuration."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state

    def by_code(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.PUT_KV_CONFIG: self.put,
            RequestCode.GET_KV_CONFIG: self.get,
            RequestCode.DELETE_KV_CONFIG: self.delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.get_list,
            RequestCode.RESET: self.forget,
        }

    def put(self, call: Call) -> Answer:
        request: PutKVConfig = call.request
        if request.namespace is None or request.key is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
        return self._keep(self._state.kv.with_value(request.namespace, request.key, request.value))

    def get(self, call: Call) -> Answer:
        request: GetKVConfig = call.request
        value = self._state.kv.get(request.namespace, request.key)
        if value is None:
            words = f"No config item, Namespace: {request.namespace} Key: {request.key}"
            return refusal(ResponseCode.QUERY_NOT_FOUND, words)
        return KVAnswer(value=value)

    def delete(self, call: Call) -> Answer:
        request: DeleteKVConfig = call.request
        return self._keep(self._state.kv.without(request.namespace, request.key))

    def get_list(self, call: Call) -> Answer:
        request: GetKVList = call.request
        table = self._state.kv.table(request.namespace)
        if table is None:
            return refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {request.namespace}")
        return KVTableAnswer(body=KVTable(table))

    def forget(self, _: Call) -> Answer:
        """Remove everything that was ever put, and restore the settings of the start."""
        answer = self._keep(KVConfig()) if self._state.kv.encode() != KVConfig().encode() else Answer()
        if answer.code == SUCCESS:
            self._state.settings = self._state.at_start
        return answer

    def _keep(self, changed: KVConfig) -> Answer:
        if changed is not self._state.kv:
            try:
                self._state.keep(changed)
            except OSError as error:
                log.error("kv_config_not_saved", folder=self._state.settings.folder, error=str(error))
                return refusal(
                    ResponseCode.SYSTEM_ERROR, f"kvConfig.json can't be saved, so nothing was changed: {error}"
                )
        return Answer()
