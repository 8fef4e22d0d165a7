"""The controller in this nameserver. RocketMQ: ControllerRequestProcessor, with enableControllerInNamesrv.

Behaviour
- It is at the nameserver's own port, and the only one: it is the leader of itself.
- An election is a failover, as `staticfire failover`: refused if messages would be lost.
- Its settings are those of the nameserver.
- Nothing is stored of brokers that are gone, so there is nothing to remove.

Not done: what brokers of RocketMQ's controller mode request (1001, 1003, 1012, 1013), and clean-up of living brokers.
"""

from typing import TYPE_CHECKING

from staticfire.nameserver.advertised_addresses import own_host
from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.controller import (
    CleanBrokerData,
    ControllerMetadataAnswer,
    ElectMaster,
    GetReplicaInfo,
    GetSyncState,
)
from staticfire.runtime.addresses import format_address
from staticfire.runtime.dispatcher import AsyncHandler, Call

if TYPE_CHECKING:
    from staticfire.nameserver.controller import Controller

GROUP, OWN_ID = "staticfire", "n0"
NO_NAMES = "the body must be a list of broker names"
ALIVE = "living brokers can't be removed: stop the broker, and its data is gone"


class ControllerHandlers:
    """The handlers of requests to the controller."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state

    def by_code(self) -> dict[RequestCode, AsyncHandler]:
        return {
            RequestCode.CONTROLLER_GET_METADATA_INFO: self.metadata,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self.sync_state,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self.replica_info,
            RequestCode.CONTROLLER_ELECT_MASTER: self.elect,
            RequestCode.CLEAN_BROKER_DATA: self.clean,
        }

    @property
    def _controller(self) -> "Controller":
        return self._state.controller

    async def metadata(self, call: Call) -> Answer:
        state = self._state
        host, port = call.connection.local_address[:2]
        filed = [one.entry.address for one in state.routes.live.values()]
        address = format_address(own_host(host, filed, state.is_near(call.connection)), port)
        return ControllerMetadataAnswer(GROUP, OWN_ID, address, True, f"{OWN_ID}:{address};")

    async def sync_state(self, call: Call) -> Answer:
        request: GetSyncState = call.request
        if not request.body:
            return refusal(ResponseCode.SYSTEM_ERROR, NO_NAMES)
        return await self._controller.sync_state(request.body, self._state.advertiser(call.connection))

    async def replica_info(self, call: Call) -> Answer:
        request: GetReplicaInfo = call.request
        return await self._controller.replica_info(request.broker_name, self._state.advertiser(call.connection))

    async def elect(self, call: Call) -> Answer:
        request: ElectMaster = call.request
        return await self._controller.elect(request, self._state.advertiser(call.connection))

    async def clean(self, call: Call) -> Answer:
        request: CleanBrokerData = call.request
        if request.is_clean_living_broker:
            return refusal(ResponseCode.ILLEGAL_OPERATION, ALIVE)
        return self._controller.clean(request)
