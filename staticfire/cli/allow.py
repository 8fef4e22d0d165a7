"""`staticfire allow` and `deny`: what a user may do. RocketMQ: policies of ACL 2.0."""

from typing import Any

import click

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
    group. As soon as there is a policy, brokers check what users may do; super users may do everything.

    \b
    Examples:
        staticfire allow shop Topic:orders Pub,Sub
        staticfire allow shop 'Group:billing*' Sub
        staticfire allow shop Topic:orders --remove
    """
    set_policy("Allow", **given)


def set_policy(
    decision: str,
    *,
    namesrv: str,
    protocol: str,
    sources: str,
    is_default: bool,
    remove: bool,
    name: str,
    resource: str,
    actions: str,
) -> None:
    """Set or remove a policy. Raises: UsageError."""
    from staticfire.client.admin.access import actions_of, resource_of

    about = resource_of(resource)
    if remove:
        if actions or sources:
            raise UsageError("--remove takes a user and a resource, and nothing else")
        on_brokers(namesrv, protocol, lambda access: access.remove_policy(name, about, is_default))
        click.echo(f"removed the policy of {name} about {about}")
        return
    if not actions:
        raise UsageError(f"{decision.lower()}: give the actions: staticfire {decision.lower()} {name} {about} Pub,Sub")
    words = actions_of(actions)
    addresses = [one.strip() for one in sources.split(",") if one.strip()]
    on_brokers(namesrv, protocol, lambda access: access.set_policy(name, decision, about, words, addresses, is_default))
    verb = "may" if decision == "Allow" else "may not"
    click.echo(f"{name} {verb} {', '.join(words)} on {about}{' from ' + ', '.join(addresses) if addresses else ''}")
