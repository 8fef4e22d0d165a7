"""`staticfire member`: a further member of a group for a while, which consumes nothing."""

import click

from staticfire.cli.family import GROUP, json_flag
from staticfire.cli.listing import print_done
from staticfire.cli.messages import printable
from staticfire.cli.options import namesrv_flag
from staticfire.protocol.documentation import page
from staticfire.protocol.durations import parse_duration
from staticfire.protocol.errors import UsageError

STAY_MS_MAX = 3_600_000


@click.command(
    short_help="Join a group as a member that consumes nothing, then leave: a rebalance.", epilog=page("chaos")
)
@click.argument("group", type=GROUP)
@click.option("--stay", default="1s", show_default=True, metavar="DURATION", help="How long it stays.")
@namesrv_flag
@json_flag
def member(group: str, stay: str, namesrv: str, as_json: bool) -> None:
    """Join GROUP like its other members, take a share of its queues, consume nothing, and leave.

    The group is rebalanced twice, as when a program starts and stops.
    """
    import asyncio

    from staticfire.chaos.member import join_for

    stay_ms = parse_duration(stay)
    if not 0 < stay_ms <= STAY_MS_MAX:
        raise UsageError(f"--stay {stay}: a member can stay for up to an hour")
    members = asyncio.run(join_for(namesrv, group, stay_ms))
    words = printable(f"{group} had {members + 1} members for {stay}, now {members} again")
    print_done(words, {"group": group, "stayMs": stay_ms, "members": members}, as_json)
