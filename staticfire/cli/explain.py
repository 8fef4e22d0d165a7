"""`staticfire explain`: why nothing is consumed, with the evidence and the fix."""

from typing import TYPE_CHECKING

import click

from staticfire.cli.family import GROUP, TOPIC, FamilyCommand, check_names, json_flag, watch_flag
from staticfire.cli.listing import console, print_json, watched, with_admin
from staticfire.cli.messages import printable
from staticfire.cli.options import namesrv_flag, protocol_flag
from staticfire.protocol.errors import UsageError
from staticfire.runtime.exit_codes import EXIT_FAILED

if TYPE_CHECKING:
    from rich.console import Console

    from staticfire.client import Admin
    from staticfire.client.explain.explanation import Explanation


@click.command(cls=FamilyCommand)
@namesrv_flag
@protocol_flag
@click.option(
    "--topic",
    metavar="TOPIC",
    type=TOPIC,
    help="A topic that the group should consume. [default: its subscriptions]",
)
@click.option("--message", "message", metavar="ID|KEY", help="Explain one message instead, like `staticfire message`.")
@json_flag
@watch_flag
@click.argument("group", metavar="[GROUP]", default="", type=GROUP)
@click.pass_context
def explain(
    context: click.Context,
    namesrv: str,
    protocol: str,
    topic: str | None,
    message: str | None,
    as_json: bool,
    watch_s: float | None,
    group: str,
) -> int:
    """Explain why the consumer group GROUP doesn't consume: the most likely cause first, with evidence and a fix.

    The exit code is 1 if something keeps messages from being consumed, else 0; notes don't count.
    """
    if bool(group) == bool(message):
        raise UsageError("give a group or a message: `staticfire explain billing` or `staticfire explain --message ID`")
    check_names(() if topic is None else (topic,))
    if message:
        from staticfire.cli.message import message as show_message

        def look_at_message() -> int:
            context.invoke(show_message, namesrv=namesrv, protocol=protocol, as_json=as_json, topic=topic, text=message)
            return 0

        return watched(watch_s, look_at_message)

    async def ask(admin: "Admin") -> "Explanation":
        from staticfire.client.explain.explainer import explain_group

        return await explain_group(admin, group, topic, brokers)

    from staticfire.cli.control_client import known_brokers

    brokers = known_brokers(namesrv)

    def look() -> int:
        found = with_admin(namesrv, protocol, ask, topic=topic, group=group)
        if as_json:
            print_json(found.as_json())
        else:
            _show(found, console())
        return EXIT_FAILED if found.causes else 0

    return watched(watch_s, look)


def _show(found: "Explanation", console: "Console") -> None:
    console.print(found.headline, style="bold", markup=False, soft_wrap=True)
    for number, one in enumerate(found.findings, 1):
        style = "yellow" if one.is_cause else "dim"
        note = "" if one.is_cause else "(note) "
        console.print(f"\n{number}. {note}{printable(one.words)}", style=style, markup=False, soft_wrap=True)
        for line in one.evidence:
            console.print(f"   - {printable(line)}", markup=False, soft_wrap=True)
        if one.way_out:
            console.print(f"   > {printable(one.way_out)}", style="green", markup=False, soft_wrap=True)
