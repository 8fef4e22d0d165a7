"""Consumer groups over HTTP, as on the command line.

GET /groups lists them. GET /group/billing returns what `staticfire group billing --json` prints, or 404. GET
/explain/billing returns what `staticfire explain billing --json` prints, for any name.
"""

from staticfire.client.admin.listing import list_groups, own_groups
from staticfire.control.listed import list_parameters, listed
from staticfire.control.overview import lags
from staticfire.control.routes import ControlCall, Parameter, Reply, Route

ALL_OF_THEM = Parameter("all", "with RocketMQ's own", "boolean")


async def show_all(asked: ControlCall) -> Reply:
    """Return all groups, or a page of them."""
    async with asked.cluster.admin() as admin:
        names = await (admin.groups() if asked.query.get("all", False) else own_groups(admin))
        ranks = {"lag": lambda: lags(admin), "deadLetters": admin.dead_letters}
        found = await listed(names, asked.query, lambda some: list_groups(admin, names=some), "group", ranks)
    return Reply({"groups": found.pop("rows"), **(found if asked.query.keys() - {"all"} else {})})


async def show(asked: ControlCall) -> Reply:
    """Return the state of a group."""
    async with asked.cluster.admin() as admin:
        return Reply((await admin.group(asked.place["group"])).as_json())


async def explain(asked: ControlCall) -> Reply:
    """Return why a group consumes nothing."""
    from staticfire.client.explain.explainer import explain_group

    async with asked.cluster.admin() as admin:
        found = await explain_group(admin, asked.place["group"], asked.query.get("topic") or None)
        return Reply(found.as_json())


ROUTES = (
    Route(
        "GET", "/groups", "all consumer groups: members, lag, dead letters; ?all=1: with RocketMQ's own",
        show_all, (ALL_OF_THEM, *list_parameters(("group", "members", "lag", "deadLetters"))),
    ),
    Route(
        "GET", "/group/{group}", "a consumer group: members, their queues, lag, rates, problems", show,
        refusals={404: "no broker knows the group"},
    ),
    Route(
        "GET", "/explain/{group}", "why a group consumes nothing: causes with evidence and what to do; ?topic=",
        explain, (Parameter("topic", "a topic that it should consume, whether it subscribes to it or not"),),
    ),
)  # fmt: skip
