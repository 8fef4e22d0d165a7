"""Consumer groups over HTTP, as on the command line.

GET /groups lists them. GET /group/billing returns what `staticfire group billing --json` prints, or 404. GET
/explain/billing returns what `staticfire explain billing --json` prints, for any name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.client.admin.listing import group_totals, list_groups, member_counts, own_groups
from staticfire.control.listed import list_parameters, listed, ranks_of
from staticfire.control.overview import lags
from staticfire.control.routes import ControlCall, Parameter, Reply, Route
from staticfire.protocol.names import is_system_group

ALL_OF_THEM = Parameter("all", "with RocketMQ's own", "boolean")
SURVEY = Parameter(
    "survey",
    "false: what staticfire's brokers know, without asking members: much faster, with fewer warnings",
    "boolean",
)


async def show_all(call: ControlCall) -> Reply:
    """Return all groups, or a page of them."""
    has_all = call.query.get("all", False)
    async with call.cluster.admin() as admin:
        totals = None if call.query.get("survey", True) else await group_totals(admin)
        if totals is not None:
            found = await _of_totals(totals, call.query, has_all)
        else:
            names = await (admin.groups() if has_all else own_groups(admin))
            ranks = {
                "lag": lambda: lags(admin),
                "deadLetters": admin.dead_letters,
                "members": lambda: member_counts(admin, names),
            }
            found = await listed(names, call.query, lambda some: list_groups(admin, names=some), "group", ranks)
    return Reply({"groups": found.pop("rows"), **(found if call.query.keys() - {"all", "survey"} else {})})


async def _of_totals(totals: list[dict[str, Any]], query: Mapping[str, Any], has_all: bool) -> dict[str, Any]:
    """Return a page of groups that are known already."""
    by_name = {row["group"]: row for row in totals if has_all or not is_system_group(row["group"])}

    async def read(some: Sequence[str]) -> list[dict[str, Any]]:
        return [by_name[name] for name in some]

    return await listed([*by_name], query, read, "group", ranks_of([*by_name.values()], "group"))


async def show(call: ControlCall) -> Reply:
    """Return the state of a group."""
    async with call.cluster.admin() as admin:
        return Reply((await admin.group(call.place["group"])).as_json())


async def explain(call: ControlCall) -> Reply:
    """Return why a group consumes nothing."""
    from staticfire.client.explain.explainer import explain_group

    async with call.cluster.admin() as admin:
        topic = call.query.get("topic") or None
        found = await explain_group(admin, call.place["group"], topic, call.cluster.view.addresses)
        return Reply(found.as_json())


ROUTES = (
    Route(
        "GET", "/groups", "all consumer groups: members, lag, dead letters; ?all=1: with RocketMQ's own",
        show_all, (ALL_OF_THEM, SURVEY, *list_parameters(("group", "members", "lag", "deadLetters"))),
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
