"""Administration of consumer groups over HTTP.

Behaviour
- POST /groups `{"group": "billing", "retries": 3}` creates a group on all brokers. The same request again succeeds;
  other values for a group that exists are refused (409). PATCH /groups/billing changes the given values.
- GET /groups/billing returns its values on each broker.
- DELETE /groups/billing deletes it with its offsets, retries and dead letters.
- 400 for invalid values, 404 for an unknown group.
"""

from typing import Annotated

import msgspec

from staticfire.client.admin.creating_groups import GroupWish, change_group, create_group, delete_group, group_facts
from staticfire.control.routes import ControlCall, Reply, Route, read_body
from staticfire.control.topic_changes import checked

FORMS = 'write {"group": "billing", "retries": 3}'
CHANGE_FORMS = 'write {"retries": 3} or {"consume": false}'
RETRIES_MAX = (1 << 31) - 1

Retries = Annotated[
    int, msgspec.Meta(ge=-1, le=RETRIES_MAX, description="how often a failed message is redelivered before it dies")
]


class GroupChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a PATCH."""

    retries: Retries | None = None
    consume: bool | None = None
    broadcast: bool | None = None
    orderly: bool | None = None
    attributes: dict[str, str] = {}

    def wish(self) -> GroupWish:
        """Return the values."""
        return GroupWish(self.retries, self.consume, self.broadcast, self.orderly, self.attributes)


class NewGroup(GroupChange, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of a POST."""

    group: str


async def create(call: ControlCall) -> Reply:
    """Create a group."""
    wanted: NewGroup = read_body(call.body, NewGroup, FORMS)
    async with call.cluster.admin() as admin:
        return await checked(create_group(admin, wanted.group, wanted.wish()))


async def show(call: ControlCall) -> Reply:
    """Return the configuration of a group."""
    async with call.cluster.admin() as admin:
        return Reply(await group_facts(admin, call.place["group"]))


async def change(call: ControlCall) -> Reply:
    """Change a group."""
    wanted: GroupChange = read_body(call.body, GroupChange, CHANGE_FORMS)
    async with call.cluster.admin() as admin:
        return await checked(change_group(admin, call.place["group"], wanted.wish()))


async def delete(call: ControlCall) -> Reply:
    """Delete a group."""
    group = call.place["group"]
    async with call.cluster.admin() as admin:
        await delete_group(admin, group)
        return Reply({"deleted": group})


ROUTES = (
    Route(
        "POST", "/groups", f"create a consumer group: {FORMS.removeprefix('write ')}", create, body=NewGroup,
        refusals={409: "the group exists with other values"},
    ),
    Route(
        "GET", "/groups/{group}", "the configuration of a group on each broker; its state is at /group/{group}", show,
        refusals={404: "no broker knows the group"},
    ),
    Route(
        "PATCH", "/groups/{group}", f"change a group, and keep its other values: {CHANGE_FORMS.removeprefix('write ')}",
        change, body=GroupChange, refusals={404: "no broker knows the group"},
    ),
    Route(
        "DELETE", "/groups/{group}", "delete a group with its offsets, retries and dead letters", delete,
        refusals={404: "no broker knows the group"},
    ),
)  # fmt: skip
