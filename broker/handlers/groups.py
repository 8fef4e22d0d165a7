"""Create, change and delete consumer groups. RocketMQ: AdminBrokerProcessor.updateAndCreateSubscriptionGroup.

Behaviour
- Any name is stored, as in RocketMQ 5.3: only auto-creation checks names. Of a list either all groups are made or none.
- More retry queues than a topic may have are refused. RocketMQ accepts any number.
- The response is sent after the change is saved, and copied if sends wait for slaves.
- A deleted group may be created again automatically, with defaults. Its retry and dead-letter topics are kept: tools
  delete those.
- A group can be forbidden to read a topic; then its pulls of the topic are refused.
"""

from staticfire.broker.changes import Changes
from staticfire.broker.config_files import GROUPS_FILE, OFFSETS_FILE
from staticfire.broker.groups.subscription_groups import changed_group
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.groups import (
    AllGroupsAnswer,
    DeleteGroup,
    ForbidGroup,
    GetGroupConfig,
    GroupConfigAnswer,
    GroupConfigTable,
    GroupForbidden,
    GroupForbiddenAnswer,
    UpdateGroup,
    UpdateGroups,
)
from staticfire.runtime.dispatcher import Call, Dispatcher


class GroupHandlers:
    """Handles requests that administer consumer groups."""

    def __init__(self, groups: GroupTables, changes: Changes, pops: LazyPopService) -> None:
        self._groups = groups
        self._changes = changes
        self._pops = pops

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.update)
        dispatcher.handle(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, self.update_all)
        dispatcher.handle(RequestCode.DELETE_SUBSCRIPTIONGROUP, self.delete)
        dispatcher.handle(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, self.config)
        dispatcher.handle(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self.all_configs)
        dispatcher.handle(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, self.forbid)

    async def update(self, call: Call) -> Answer:
        """Create or change a group."""
        request: UpdateGroup = call.request
        if request.body is None or request.body.group_name is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "the body of a group must have a groupName")
        self._changes.require_allowed()
        configs = self._groups.configs
        configs.put(changed_group(request.body, configs.get(request.body.group_name)))
        await self._changes.settled(GROUPS_FILE)
        return Answer()

    def config(self, call: Call) -> Answer:
        """Return the configuration of one group."""
        request: GetGroupConfig = call.request
        group = self._groups.configs.find(request.group)
        if group is None:
            return refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return GroupConfigAnswer(body=group)

    async def update_all(self, call: Call) -> Answer:
        """Create or change groups, all of them or none."""
        request: UpdateGroups = call.request
        if request.body is None or any(group.group_name is None for group in request.body.group_config_list):
            return refusal(ResponseCode.SYSTEM_ERROR, "the body of a list of groups must have a groupConfigList")
        self._changes.require_allowed()
        configs, wanted = self._groups.configs, request.body.group_config_list
        for group in [changed_group(group, configs.get(group.group_name or "")) for group in wanted]:
            configs.put(group)
        await self._changes.settled(GROUPS_FILE)
        return Answer()

    async def delete(self, call: Call) -> Answer:
        """Delete a group, and its offsets if requested."""
        request: DeleteGroup = call.request
        self._changes.require_allowed()
        self._groups.configs.delete(request.group_name)
        self._pops.forget_group(request.group_name)
        if request.clean_offset:
            self._groups.offsets.forget_group(request.group_name)
            self._groups.first_offsets.forget_group(request.group_name)
            self._changes.files.changed(OFFSETS_FILE)
        await self._changes.settled(GROUPS_FILE, OFFSETS_FILE)
        return Answer()

    def all_configs(self, call: Call) -> Answer:
        """Return the configurations of all groups."""
        configs = self._groups.configs
        return AllGroupsAnswer(body=GroupConfigTable(configs.groups, configs.forbidden, configs.version))

    async def forbid(self, call: Call) -> Answer:
        """Allow or forbid a group to read a topic, and return whether it may now."""
        request: ForbidGroup = call.request
        configs = self._groups.configs
        if request.readable is not None:
            self._changes.require_allowed()
            configs.let_read(request.group, request.topic, request.readable)
            await self._changes.settled(GROUPS_FILE)
        readable = configs.may_read(request.group, request.topic)
        return GroupForbiddenAnswer(body=GroupForbidden(request.group, request.topic, readable))
