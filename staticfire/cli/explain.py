"""`staticfire explain`: why is nothing consumed, in words, with the evidence and the way out."""

import asyncio
import json
from typing import TYPE_CHECKING

import click

from staticfire.cli.messages import printable
from staticfire.cli.options import namesrv_flag, protocol_flag
from staticfire.client import Admin, ClientSettings
from staticfire.client.explain.explainer import explain_group
from staticfire.client.explain.explanation import Explanation
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

EXIT_CAUSES = 3
"""Something keeps messages from being consumed."""


@click.command()
@namesrv_flag
@protocol_flag
@click.option("--topic", metavar="NAME", help="A topic that the group should consume. [default: what it subscribes to]")
@click.option(
    "--message", "message", metavar="ID|KEY", help="The life of one message instead; as `staticfire message`."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, and nothing else.")
@click.argument("group", metavar="[GROUP]", default="")
@click.pass_context
def explain(
    context: click.Context,
    namesrv: str,
    protocol: str,
    topic: str | None,
    message: str | None,
    as_json: bool,
    group: str,
) -> int:
    """Say why the consumer group GROUP consumes nothing: the likeliest cause first, with the evidence and the way out.

    The exit code is 3 when something keeps messages from being consumed, 0 when nothing does; notes don't count.
    """
    if bool(group) == bool(message):
        raise UsageError("name a group, or one message: staticfire explain billing, staticfire explain --message ID")
    settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]  # one of its words: see the flag
    if message:
        from staticfire.cli.message import message as show_message

        flags = ["--namesrv", namesrv, "--protocol", protocol, *(["--json"] if as_json else [])]
        return int(show_message.main([*flags, message], standalone_mode=False, parent=context) or 0)

    async def look() -> Explanation:
        async with Admin(namesrv, settings) as admin:
            return await explain_group(admin, group, topic)

    found = asyncio.run(look())
    if as_json:
        click.echo(json.dumps(found.as_json(), ensure_ascii=False))
    else:
        from rich.console import Console

        _show(found, Console(highlight=False))
    return EXIT_CAUSES if found.causes else 0


def _show(found: Explanation, console: "Console") -> None:
    console.print(found.headline, style="bold", markup=False, soft_wrap=True)
    for number, one in enumerate(found.findings, 1):
        style = "yellow" if one.is_cause else "dim"
        note = "" if one.is_cause else "(note) "
        console.print(f"\n{number}. {note}{printable(one.words)}", style=style, markup=False, soft_wrap=True)
        for line in one.evidence:
            console.print(f"   - {printable(line)}", markup=False, soft_wrap=True)
        if one.way_out:
            console.print(f"   > {printable(one.way_out)}", style="green", markup=False, soft_wrap=True)
