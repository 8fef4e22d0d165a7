"""Consumer groups are created and changed. RocketMQ: AdminBrokerProcessor.updateAndCreateSubscriptionGroup.

Behaviour
- Any name is stored, as in 5.3; auto-creation checks names, this does not.
- Answered when it is saved.
"""

from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.groups import GetGroupConfig, GroupConfigAnswer, UpdateGroup
from staticfire.runtime.connection import Call, Dispatcher


class GroupHandlers:
    """Administers consumer groups."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def register(self, dispatcher: Dispatcher) -> None:
        """File the handlers."""
        dispatcher.handle(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.update)
        dispatcher.handle(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, self.config)

    async def update(self, call: Call) -> Answer:
        """Create or change a group."""
        request: UpdateGroup = call.request
        if request.body is None or request.body.group_name is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "a group needs a body with a groupName")
        self._state.groups.put(request.body)
        await self._state.small_state.saved()
        return Answer()

    def config(self, call: Call) -> Answer:
        """One group's configuration."""
        request: GetGroupConfig = call.request
        group = self._state.groups.find(request.group)
        if group is None:
            return refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return GroupConfigAnswer(body=group)
