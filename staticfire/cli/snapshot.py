"""`staticfire snapshot`: save a cluster under a name and restore it, while clients stay connected."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.command_groups import Commands
from staticfire.cli.family import json_flag
from staticfire.cli.listing import print_json, with_admin
from staticfire.cli.messages import count_of
from staticfire.cli.options import namesrv_flag

if TYPE_CHECKING:
    from staticfire.client import Admin
    from staticfire.runtime.pool import ConnectionPool

    Act = Callable[[ConnectionPool, dict[str, str]], Awaitable[Any]]

NAME = click.argument("name", default="default")


@click.group(cls=Commands)
def snapshot() -> None:
    """Save the state of the whole cluster under a name, and restore it in milliseconds, as often as a test needs it.

    A snapshot contains messages, topics, groups, offsets, delayed messages and message time. Brokers store it in their
    folder.
    """


@snapshot.command()
@namesrv_flag
@json_flag
@NAME
def save(name: str, namesrv: str, as_json: bool) -> None:
    """Save the cluster under NAME ("default"). This replaces an older snapshot with the same name."""
    from staticfire.control import snapshots

    info = _with_brokers(namesrv, lambda pool, brokers: snapshots.save(pool, brokers, name))
    if as_json:
        print_json(_as_json(info))
    else:
        click.echo(f"saved {name}: {_what(info)}")


@snapshot.command()
@namesrv_flag
@json_flag
@NAME
def restore(name: str, namesrv: str, as_json: bool) -> None:
    """Restore the saved state. Newer messages are removed, and connected consumers continue at their saved offsets."""
    from staticfire.control import snapshots

    async def ask(admin: "Admin") -> Any:
        from staticfire.control.whole_cluster import KnownBrokers

        return await snapshots.restore(admin.client.pool, namesrv, KnownBrokers(), name)

    info = with_admin(namesrv, "staticfire", ask)
    if as_json:
        print_json(_as_json(info))
        return
    gone = f"; removed: {', '.join(info['gone'])}" if info["gone"] else ""
    click.echo(f"restored {name}: {_what(info)}{gone}")


@snapshot.command("list")
@namesrv_flag
@json_flag
def list_(namesrv: str, as_json: bool) -> None:
    """List the snapshots that every broker has."""
    from staticfire.control import snapshots

    found = _with_brokers(namesrv, lambda pool, brokers: snapshots.saved(pool, brokers))
    for info in found:
        if as_json:
            print_json(_as_json(info))
        else:
            click.echo(f"{info['name']}  {_time(info['saved_ms'])}  {_what(info)}")
    if not found and not as_json:
        click.echo("no snapshots; to save one: `staticfire snapshot save NAME`")


@snapshot.command()
@namesrv_flag
@json_flag
@click.argument("name")
def remove(name: str, namesrv: str, as_json: bool) -> None:
    """Remove a snapshot."""
    from staticfire.control import snapshots

    _with_brokers(namesrv, lambda pool, brokers: snapshots.remove(pool, brokers, name))
    if as_json:
        print_json({"removed": 1})
    else:
        click.echo(f"removed {name}")


def _time(saved_ms: int) -> str:
    from staticfire.protocol.durations import format_moment

    return f"{format_moment(saved_ms)[:19]}Z"


def _what(info: dict[str, Any]) -> str:
    topics, groups = count_of(len(info["topics"]), "topic"), count_of(len(info["groups"]), "group")
    return f"{topics}, {groups}, {count_of(info['messages'], 'message')}"


def _as_json(info: dict[str, Any]) -> dict[str, Any]:
    camel = {"saved_ms": "savedMs", "message_ms": "messageMs", "queues_moved": "queuesMoved"}
    return {camel.get(name, name): value for name, value in info.items()}


def _with_brokers(namesrv: str, act: "Act") -> Any:
    async def ask(admin: "Admin") -> Any:
        return await act(admin.client.pool, await admin.masters())

    return with_admin(namesrv, "staticfire", ask)
