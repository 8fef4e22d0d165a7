"""`staticfire replication`: which slave copies which master, and how far; hold, release or delay a copy."""

from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.command_groups import Commands
from staticfire.cli.family import json_flag, watch_flag
from staticfire.cli.listing import print_done, print_json, print_lines, watched, with_admin
from staticfire.cli.options import namesrv_flag

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from staticfire.client import Admin
    from staticfire.failover.replica import Replica
    from staticfire.failover.replicas import ReplicaAdmin

NO_BROKER = "no broker is registered"
SLAVE_NAME = click.argument("name", metavar="SLAVE")


@click.group(cls=Commands, default="show")
def replication() -> None:
    """Show which slave copies which master, how far behind it is, and whether it is in sync.

    \b
        staticfire up --replicas 1
        staticfire replication
        staticfire replication hold broker-a-1       # it copies nothing more; release, lag
    """


@replication.command()
@namesrv_flag
@json_flag
@watch_flag
def show(namesrv: str, as_json: bool, watch_s: float | None) -> None:
    """Show all masters and slaves. This is the default."""
    from staticfire.client.admin.replica_view import line_of, object_of

    def look() -> int:
        replicas = _with_replicas(namesrv, lambda admin: admin.all())
        if as_json:
            for one in replicas:
                print_json(object_of(one, replicas))
        else:
            print_lines([line_of(one, replicas) for one in replicas], False, NO_BROKER)
        return 0

    watched(watch_s, look)


@replication.command()
@namesrv_flag
@json_flag
@SLAVE_NAME
def hold(name: str, namesrv: str, as_json: bool) -> None:
    """Let SLAVE (broker-a-1) copy nothing more, until `release`."""
    words = f"{name} copies nothing more; `staticfire replication release {name}` ends that"
    _control(namesrv, name, words, as_json, hold=True)


@replication.command()
@namesrv_flag
@json_flag
@SLAVE_NAME
def release(name: str, namesrv: str, as_json: bool) -> None:
    """Let SLAVE copy again, without a lag."""
    _control(namesrv, name, f"{name} copies its master again", as_json, hold=False, lag_ms=0)


@replication.command()
@namesrv_flag
@json_flag
@SLAVE_NAME
@click.argument("duration")
def lag(name: str, duration: str, namesrv: str, as_json: bool) -> None:
    """Let SLAVE store each message that much later than its master, like `5s` or `200ms`; 0 ends that."""
    from staticfire.protocol.durations import parse_duration

    lag_ms = 0 if duration == "0" else parse_duration(duration)
    words = f"{name} is {duration} behind its master from now on" if lag_ms else f"{name} copies without a lag"
    _control(namesrv, name, words, as_json, lag_ms=lag_ms)


@replication.command()
@namesrv_flag
@json_flag
@SLAVE_NAME
def sync(name: str, namesrv: str, as_json: bool) -> None:
    """Let SLAVE copy topics, groups and offsets now, instead of after slaveSyncPeriod."""
    _control(namesrv, name, f"{name} copies topics, groups and offsets now", as_json, copy_state=True)


_JSON_NAMES = {"lag_ms": "lagMs", "copy_state": "copyState"}


def _control(namesrv: str, name: str, words: str, as_json: bool, **change: Any) -> None:
    from staticfire.protocol.requests.replication import ControlReplication

    done: Replica = _with_replicas(namesrv, lambda admin: admin.control(name, ControlReplication(**change)))
    if change.get("lag_ms") and done.state is not None and done.state.is_held:
        words = f"{name} still copies nothing, because it is held; `replication release {name}` ends that, and the lag"
    shown = {_JSON_NAMES.get(key, key): value for key, value in change.items()}
    print_done(words, {"slave": name, **shown}, as_json)


def _with_replicas(namesrv: str, act: "Callable[[ReplicaAdmin], Awaitable[Any]]") -> Any:
    from staticfire.failover.replicas import ReplicaAdmin

    async def ask(admin: "Admin") -> Any:
        return await act(ReplicaAdmin.at_nameservers(admin.client.pool, namesrv))

    return with_admin(namesrv, "staticfire", ask)
