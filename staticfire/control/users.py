"""Users and policies over HTTP. Every program that may use the control endpoint may change them.

Behaviour
- GET /users returns all users with their policies, never a secret. POST /users `{"user": "shop", "secret": "s3cret"}`
  adds one, PATCH /users/shop changes one, DELETE /users/shop removes it with its policies.
- PUT /users/shop/policies `{"resource": "Topic:orders", "actions": "Pub,Sub"}` sets its policy about a
  resource; DELETE /users/shop/policies?resource=Topic:orders removes it.
- GET /access returns what brokers refused lately, and which clients use which access keys.
- 400 for invalid values and unknown users.
"""

from typing import Any, Literal

import msgspec

from staticfire.client.admin.access import AccessAdmin, UserLine, actions_of, resource_of
from staticfire.control.routes import ControlCall, Parameter, Reply, Route, read_body
from staticfire.protocol.errors import UsageError

FORMS = 'write {"user": "shop", "secret": "s3cret"}'
CHANGE_FORMS = 'write {"secret": "s3cret"} or {"enabled": false}'
POLICY_FORMS = 'write {"resource": "Topic:orders", "actions": "Pub,Sub"}'


class UserChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a PATCH."""

    secret: str | None = None
    super: bool | None = None
    enabled: bool | None = None


class NewUser(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a POST."""

    user: str
    secret: str
    super: bool = False


class PolicyChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a PUT."""

    resource: str
    actions: str
    decision: Literal["Allow", "Deny"] = "Allow"
    sources: list[str] = []


def shown(one: UserLine) -> dict[str, Any]:
    """Return a user for JSON, without its secret."""
    policies = [
        {
            "decision": line.decision, "resource": line.resource, "actions": line.actions, "sources": line.sources,
            "default": line.is_default, "onlyOn": list(line.only_on),
        }
        for line in one.policies
    ]  # fmt: skip
    return {"user": one.name, "type": one.kind, "enabled": one.is_enabled, "policies": policies}


async def show(call: ControlCall) -> Reply:
    """Return all users."""
    async with call.cluster.admin() as admin:
        return Reply({"users": [shown(one) for one in await AccessAdmin(admin).users()]})


async def add(call: ControlCall) -> Reply:
    """Add a user."""
    wanted: NewUser = read_body(call.body, NewUser, FORMS)
    async with call.cluster.admin() as admin:
        await AccessAdmin(admin).add_user(wanted.user, wanted.secret, wanted.super)
    return Reply({"user": wanted.user})


async def change(call: ControlCall) -> Reply:
    """Change a user."""
    wanted: UserChange = read_body(call.body, UserChange, CHANGE_FORMS)
    async with call.cluster.admin() as admin:
        await AccessAdmin(admin).change_user(call.place["user"], wanted.secret, wanted.super, wanted.enabled)
    return Reply({"user": call.place["user"]})


async def remove(call: ControlCall) -> Reply:
    """Remove a user."""
    async with call.cluster.admin() as admin:
        await AccessAdmin(admin).remove_user(call.place["user"])
    return Reply({"removed": call.place["user"]})


async def set_policy(call: ControlCall) -> Reply:
    """Set a user's policy about a resource."""
    wanted: PolicyChange = read_body(call.body, PolicyChange, POLICY_FORMS)
    resource, actions = resource_of(wanted.resource), actions_of(wanted.actions)
    async with call.cluster.admin() as admin:
        access = AccessAdmin(admin)
        await access.set_policy(call.place["user"], wanted.decision, resource, actions, wanted.sources)
    return Reply({"user": call.place["user"], "resource": resource, "actions": actions, "decision": wanted.decision})


async def remove_policy(call: ControlCall) -> Reply:
    """Remove a user's policy about a resource."""
    if "resource" not in call.query:
        raise UsageError("say which: ?resource=Topic:orders")
    resource = resource_of(call.query["resource"])
    async with call.cluster.admin() as admin:
        await AccessAdmin(admin).remove_policy(call.place["user"], resource)
    return Reply({"user": call.place["user"], "removed": resource})


async def access(call: ControlCall) -> Reply:
    """Return refusals and keys in use."""
    async with call.cluster.admin() as admin:
        states = await AccessAdmin(admin).states(call.query.get("group", ""))
    return Reply({"brokers": {name: msgspec.to_builtins(state) for name, state in states.items()}})


ROUTES = (
    Route("GET", "/users", "all users with what they may do, without their secrets", show),
    Route("POST", "/users", f"add a user: {FORMS.removeprefix('write ')}", add, body=NewUser),
    Route("PATCH", "/users/{user}", f"change a user: {CHANGE_FORMS.removeprefix('write ')}", change, body=UserChange),
    Route("DELETE", "/users/{user}", "remove a user with its policies", remove),
    Route(
        "PUT", "/users/{user}/policies", f"allow or deny a user something: {POLICY_FORMS.removeprefix('write ')}",
        set_policy, body=PolicyChange,
    ),
    Route(
        "DELETE", "/users/{user}/policies", "remove what a user's policies say about a resource", remove_policy,
        (Parameter("resource", "the resource, like Topic:orders"),),
    ),
    Route(
        "GET", "/access", "what brokers refused lately, and which clients use which access keys", access,
        (Parameter("group", "only what was refused to this group"),),
    ),
)  # fmt: skip
