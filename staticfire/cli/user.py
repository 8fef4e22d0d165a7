"""`staticfire user`: the users of a cluster. `allow` and `deny` set their policies."""

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from staticfire.cli.command_groups import Commands
from staticfire.cli.family import json_flag
from staticfire.cli.listing import print_done, print_lines, with_admin
from staticfire.cli.options import Command, namesrv_flag, protocol_flag
from staticfire.protocol.documentation import page
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from staticfire.client import Admin
    from staticfire.client.admin.access import AccessAdmin

OPTION = click.option
T = TypeVar("T")


@click.group(cls=Commands, epilog=f"More about access: {page('access')}")
def user() -> None:
    """Users, whose access keys and secrets clients sign with: add, list, change, remove.

    As soon as there is a user, brokers and gRPC endpoints check each request's signature.
    """


def on_brokers(namesrv: str, protocol: str, ask: "Callable[[AccessAdmin], Awaitable[T]]") -> T:
    """Query or change users and policies."""

    async def work(admin: "Admin") -> T:
        from staticfire.client.admin.access import AccessAdmin

        return await ask(AccessAdmin(admin))

    return with_admin(namesrv, protocol, work)


def _secret_flags(command: Command) -> Command:
    """Add the flags for a secret."""
    command = OPTION(
        "--secret-stdin", is_flag=True, help="Read the secret from standard input, so that no list of processes has it."
    )(command)
    return OPTION("--secret", metavar="SECRET", help="The secret that clients sign with.")(command)


def _secret(secret: str | None, from_stdin: bool) -> str | None:
    if from_stdin and secret is not None:
        raise UsageError("use either --secret or --secret-stdin, not both")
    return sys.stdin.readline().rstrip("\r\n") if from_stdin else secret


@user.command(short_help="Add a user.")
@namesrv_flag
@protocol_flag
@json_flag
@_secret_flags
@OPTION("--super", "is_super", is_flag=True, help="It may do everything, also manage users.")
@click.argument("name")
def add(
    namesrv: str, protocol: str, as_json: bool, secret: str | None, secret_stdin: bool, is_super: bool, name: str
) -> None:
    """Add the user NAME on all brokers. Its name is the access key.

    \b
    Examples:
        staticfire user add shop --secret s3cret
        staticfire allow shop Topic:orders Pub,Sub
    """
    given = _secret(secret, secret_stdin)
    if given is None:
        raise UsageError(f"user add: give a secret: staticfire user add {name} --secret ...")
    on_brokers(namesrv, protocol, lambda access: access.add_user(name, given, is_super))
    print_done(f"added user {name}; clients sign with it from now on", {"user": name, "added": 1}, as_json)


@user.command(short_help="Change a user's secret, type or status.")
@namesrv_flag
@protocol_flag
@json_flag
@_secret_flags
@OPTION("--super/--normal", "is_super", default=None, help="Whether it may do everything.")
@OPTION("--enable/--disable", "is_enabled", default=None, help="Whether its requests are accepted at all.")
@click.argument("name")
def change(
    namesrv: str,
    protocol: str,
    as_json: bool,
    secret: str | None,
    secret_stdin: bool,
    is_super: bool | None,
    is_enabled: bool | None,
    name: str,
) -> None:
    """Change the user NAME, from the next request on."""
    given = _secret(secret, secret_stdin)
    if given is None and is_super is None and is_enabled is None:
        raise UsageError("user change: give --secret, --super, --normal, --enable or --disable")
    on_brokers(namesrv, protocol, lambda access: access.change_user(name, given, is_super, is_enabled))
    print_done(f"changed user {name}", {"user": name, "changed": 1}, as_json)


@user.command(short_help="Remove a user with its policies.")
@namesrv_flag
@protocol_flag
@json_flag
@click.argument("name")
def remove(namesrv: str, protocol: str, as_json: bool, name: str) -> None:
    """Remove the user NAME and its policies, from the next request on."""
    on_brokers(namesrv, protocol, lambda access: access.remove_user(name))
    print_done(f"removed user {name}", {"user": name, "removed": 1}, as_json)


@user.command("list", short_help="List the users and what they may do.")
@namesrv_flag
@protocol_flag
@json_flag
def show(namesrv: str, protocol: str, as_json: bool) -> None:
    """List all users with their policies. Secrets are never shown."""
    users = on_brokers(namesrv, protocol, lambda access: access.users())
    rows: list[dict[str, Any]] = []
    for one in users:
        policies = [str(line) for line in one.policies]
        status = "enabled" if one.is_enabled else "disabled"
        rows.append({"user": one.name, "type": one.kind, "status": status, "policies": policies})
    if not as_json:
        rows = [{**row, "policies": "; ".join(row["policies"]) or _without(row["type"])} for row in rows]
    print_lines(rows, as_json, "no users: any access key is accepted, or none")


def _without(kind: str) -> str:
    return "may do everything" if kind == "Super" else "none"
