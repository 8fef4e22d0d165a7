"""The list of commands with their lines in `staticfire --help`. They are stored here, so that help loads no command."""

from importlib import import_module
from typing import Any

import click

from staticfire.cli.command_groups import completed
from staticfire.cli.suggestions import did_you_mean
from staticfire.runtime.signals import hold_stops_back

COMMANDS = {
    "up": "A cluster of processes in the foreground.",
    "run": "A cluster around a command: free ports, a temporary folder, gone afterwards.",
    "nameserver": "One nameserver in the foreground.",
    "broker": "One broker in the foreground.",
    "proxy": "One gRPC endpoint, for RocketMQ 5's clients, in the foreground.",
    "create": "Create a topic or a consumer group.",
    "send": "Send messages: given ones, or the lines of standard input.",
    "peek": "Show messages of a topic, without side effects.",
    "message": "Show a message by one of its ids or keys: where it is, and who has consumed it.",
    "trace": "The life of a message as producers and consumers have traced it.",
    "consume": "Consume topics as a member of a group, and print the messages.",
    "topics": "All topics: brokers, queues, messages.",
    "groups": "All consumer groups: members, how far behind, dead letters.",
    "explain": "Why a consumer group consumes nothing: in words, with the evidence and the way out.",
    "group": "A consumer group: members, what each holds, lag, rates, what is wrong.",
    "dlq": "Dead letters: show, export, send them again.",
    "journal": "What happened on the brokers, or what clients asked of them.",
    "fault": "What goes wrong on purpose: add, list, remove.",
    "clock": "Message time: read, freeze, advance, scale, skip.",
    "simulate": "Whole clusters on virtual time, from seeds: do all promises hold?",
    "pipeline": "Jobs on Spark: topics to Parquet.",
    "mqadmin": "Administration with the commands and flags of RocketMQ's mqadmin.",
    "copy": "A topic of a real cluster, with where its groups stand, copied to this one.",
    "snapshot": "The whole cluster put away under a name, and put back as it was.",
    "reset": "Forget all messages, topics, groups and offsets.",
}
STAYING = ("up", "run", "nameserver", "broker", "proxy", "mqnamesrv", "mqbroker", "mqproxy")
"""Commands that start processes or become one. They hold stop signals back until they can handle them: see
runtime/signals.py."""
ROCKETMQ_SCRIPTS = ("mqnamesrv", "mqbroker", "mqproxy")
"""For compose files and scripts that use the names of RocketMQ's own scripts; users type `nameserver` and so on."""


class LazyCommands(click.Group):
    """Finds the command `up` in staticfire.cli.up when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in (*COMMANDS, *ROCKETMQ_SCRIPTS):
            return None
        command: click.Command = getattr(import_module(f"staticfire.cli.{cmd_name}"), cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        return [*completed(COMMANDS, incomplete), *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (*COMMANDS, *ROCKETMQ_SCRIPTS) and not args[0].startswith("-"):
            close = did_you_mean(args[0], COMMANDS) or ";"
            ctx.fail(f"there is no command {args[0]}{close} there are {', '.join(COMMANDS)}")
        if args and args[0] in STAYING:
            hold_stops_back()
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Print the version, and whether the compiled versions of the hot functions are installed."""
    if not is_asked or context.resilient_parsing:
        return
    from importlib.metadata import version

    from staticfire.protocol.compiled import twin

    click.echo(f"staticfire {version('staticfire')} ({'with' if twin else 'without'} its compiled parts)")
    context.exit()


@click.command(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def staticfire() -> None:
    """A RocketMQ cluster on the test stand."""
