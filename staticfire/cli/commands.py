"""The list of commands with their lines in `staticfire --help`. They are stored here, so that help loads no command."""

from importlib import import_module
from typing import Any

import click

from staticfire.cli.command_groups import completed
from staticfire.cli.suggestions import did_you_mean
from staticfire.runtime.signals import hold_stops_back

COMMANDS = {
    "up": "Start a cluster in the foreground.",
    "run": "Run a command with a temporary cluster: free ports, a temporary folder, removed at the end.",
    "chaos": "Run a command under faults that RocketMQ may have, and check that it keeps its promises.",
    "nameserver": "Start one nameserver in the foreground.",
    "broker": "Start one broker in the foreground.",
    "proxy": "Start one gRPC endpoint, for RocketMQ 5's clients, in the foreground.",
    "create": "Create a topic or a consumer group.",
    "change": "Change some values of a topic or a consumer group, and keep the others.",
    "send": "Send messages: the given texts, or each line of standard input.",
    "peek": "Show messages of a topic without consuming them.",
    "message": "Show a message by its id or key: where it is stored, and which groups have consumed it.",
    "trace": "Show what producers and consumers have traced about a message.",
    "consume": "Consume topics as a member of a group and print the messages.",
    "topics": "List the topics: brokers, queues, messages.",
    "groups": "List the consumer groups: members, lag, dead letters.",
    "explain": "Explain why a consumer group doesn't consume, with evidence and a fix.",
    "group": "Show a consumer group: members, their queues, lag, rates, problems.",
    "dlq": "Dead letters: list, export, resend.",
    "journal": "Show what happened on the brokers, or which requests they received.",
    "fault": "Fault injection: add, list, remove faults.",
    "user": "Users, whose access keys clients sign with: add, list, change, remove.",
    "allow": "Allow a user something: to send to a topic, to consume as a group.",
    "deny": "Deny a user something that another policy allows.",
    "replication": "Show masters and slaves, and how far each slave is behind; hold, release or delay a copy.",
    "failover": "Let a slave take over from its master, with or without losing messages.",
    "member": "Join a group as a member that consumes nothing, then leave: a rebalance.",
    "clock": "Message time: show, freeze, advance, scale, skip.",
    "simulate": "Simulate whole clusters on virtual time, from seeds, and check that all promises hold.",
    "pipeline": "Spark jobs: topics to Parquet, reports.",
    "mqadmin": "Administer the cluster with the commands and flags of RocketMQ's mqadmin.",
    "copy": "Copy a topic, and offsets of its groups, from a real cluster to this one.",
    "dashboard": "Show the dashboard of a running cluster, also of a RocketMQ.",
    "snapshot": "Save the state of the whole cluster under a name, and restore it.",
    "reset": "Delete all messages, topics, groups and offsets.",
    "certificates": "Make certificates for TLS: a CA, a server, a client.",
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
            ctx.fail(f"unknown command {args[0]}{close} the commands are {', '.join(COMMANDS)}")
        if args and args[0] in STAYING:
            hold_stops_back()
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(context: click.Context, _: click.Parameter, is_given: bool) -> None:
    """Print the version, and whether the compiled versions of the hot functions are installed."""
    if not is_given or context.resilient_parsing:
        return
    from importlib.metadata import version

    from staticfire.protocol.compiled import twin

    click.echo(f"staticfire {version('staticfire')} ({'with' if twin else 'without'} compiled parts)")
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
    """A throwaway RocketMQ cluster for your tests."""
