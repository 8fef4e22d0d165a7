"""`staticfire allow` and `deny`: what a user may do. RocketMQ: policies of ACL 2.0."""

from typing import Any, NamedTuple

import click

from staticfire.cli.family import json_flag
from staticfire.cli.listing import print_done
from staticfire.cli.options import Command, all_flags, namesrv_flag, protocol_flag
from staticfire.cli.user import on_brokers
from staticfire.protocol.documentation import page
from staticfire.protocol.errors import UsageError

OPTION = click.option


def policy_flags(command: Command) -> Command:
    """Add the flags and arguments of `allow` and `deny`."""
    return all_flags(
        command,
        namesrv_flag,
        protocol_flag,
        json_flag,
        OPTION(
            "--from", "sources", metavar="IP,IP", default="",
            help="Only for requests from these addresses or networks, like 10.0.0.0/8.",
        ),
        OPTION("--default", "is_default", is_flag=True, help="Counts only where no other policy of the user matches."),
        OPTION("--remove", is_flag=True, help="Remove what the user's policies say about the resource."),
        click.argument("name", metavar="USER"),
        click.argument("resource"),
        click.argument("actions", default=""),
    )  # fmt: skip


@click.command(epilog=f"More about access: {page('access')}")
@policy_flags
def allow(**given: Any) -> None:
    """Allow USER some ACTIONS on a RESOURCE, from the next request on.

    ACTIONS are Pub (send), Sub (consume), Create, Update, Delete, Get, List, or All. RESOURCE is Topic:NAME or
    Group:NAME, where NAME may end in *; Cluster:NAME; or * for everything. A consumer needs Sub on its topic and on its
    group; if the group is new, also Get on the topic. As soon as there is a policy, brokers check what users may do;
    super users may do everything.

    A user has one policy for each RESOURCE. ACTIONS are added to it; `deny` or another --from replaces it.

    \b
    Examples:
        staticfire allow shop Topic:orders Pub,Sub
        staticfire allow shop 'Group:billing*' Sub
        staticfire allow shop Topic:orders --remove
    """
    set_policy("Allow", WantedPolicy(**given))


class WantedPolicy(NamedTuple):
    """What `allow` or `deny` was given."""

    namesrv: str
    protocol: str
    as_json: bool
    sources: str
    is_default: bool
    remove: bool
    name: str
    resource: str
    actions: str


def set_policy(decision: str, wanted: WantedPolicy) -> None:
    """Set or remove a policy. Raises: UsageError."""
    from staticfire.client.admin.access import PolicyLine, actions_of, resource_of

    about, name, is_default = resource_of(wanted.resource), wanted.name, wanted.is_default
    place = wanted.namesrv, wanted.protocol
    if wanted.remove:
        if wanted.actions or wanted.sources:
            raise UsageError("--remove takes a user and a resource, and nothing else")
        on_brokers(*place, lambda access: access.remove_policy(name, about, is_default))
        done = {"user": name, "resource": about, "removed": 1}
        print_done(f"removed the policy of {name} about {about}", done, wanted.as_json)
        return
    if not wanted.actions:
        raise UsageError(f"{decision.lower()}: give the actions: staticfire {decision.lower()} {name} {about} Pub,Sub")
    sources = [one.strip() for one in wanted.sources.split(",") if one.strip()]
    line = PolicyLine(name, decision, about, actions_of(wanted.actions), sources, is_default)
    now, replaced = on_brokers(*place, lambda access: access.add_policy(line))
    verb = "may" if decision == "Allow" else "may not"
    done = {"user": name, "decision": decision, "resource": about, "actions": now.actions, "sources": sources}
    words = f"{name} {verb} {', '.join(now.actions)} on {about}{' from ' + ', '.join(sources) if sources else ''}"
    if replaced is not None:
        done["replaced"] = str(replaced)
        words += f", instead of: {replaced}"
    print_done(words, done, wanted.as_json)
