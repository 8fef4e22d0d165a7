"""`staticfire failover`: a slave takes over from its master."""

from typing import TYPE_CHECKING, Any

import click

from staticfire.cli.family import FamilyCommand, json_flag
from staticfire.cli.listing import print_json, with_admin
from staticfire.cli.messages import count_of
from staticfire.cli.options import Whole, namesrv_flag

if TYPE_CHECKING:
    from staticfire.client import Admin
    from staticfire.failover.replicas import Failover


@click.command(cls=FamilyCommand)
@namesrv_flag
@click.argument("broker")
@click.option(
    "--to", type=Whole(1), metavar="ID", help="The slave that takes over. [default: the one with most of the log]"
)
@click.option(
    "--losing", type=Whole(0), metavar="N",
    help="The last N messages of the master are lost, as if the slave had not copied them.",
)  # fmt: skip
@json_flag
def failover(broker: str, to: int | None, losing: int | None, namesrv: str, as_json: bool) -> None:
    """Let a slave of BROKER become the master; the old master becomes its slave, at once or when it is back.

    Without --losing nothing is lost: a slave that is behind, and can't catch up, is refused.

    \b
    Examples:
        staticfire failover broker-a
        staticfire failover broker-a --to 2
        staticfire failover broker-a --losing 100    # 100 acknowledged messages are gone
    """

    async def ask(admin: "Admin") -> Any:
        from staticfire.failover.replicas import ReplicaAdmin

        return await ReplicaAdmin.at_nameservers(admin.client.pool, namesrv).failover(broker, to, losing)

    done = with_admin(namesrv, "staticfire", ask)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(done))
    else:
        click.echo(_words(done))


def _words(done: "Failover") -> str:
    lost = "perhaps messages are lost" if done.lost < 0 else f"{count_of(done.lost, 'message')} lost"
    old = f"{done.old_master} is its slave now" if done.old_master else "the old master doesn't answer"
    return f"{done.master} is the master of {done.broker} now (epoch {done.epoch}), {lost}; {old}"
