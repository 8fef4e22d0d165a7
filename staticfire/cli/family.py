"""What all commands share that inspect a cluster: `--json`, `--watch`, and names that the shell completes."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from staticfire.cli.options import Command, is_utf8, not_utf8
from staticfire.protocol.errors import UsageError

WATCH_S = 2.0
WATCH_S_MAX = 3_600.0
# The user has pressed the tab key and waits.
COMPLETION_S = 1.0
# Parameters that may be bytes that aren't text: the body of a message, the path of a file.
_BYTES = ("body", "to")


class FamilyCommand(click.Command):
    """Accepts `--watch` without a number, too, at any position. Refuses arguments that aren't UTF-8."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, watch_filled(args))
        _check_texts(*(value for name, value in ctx.params.items() if name not in _BYTES))
        return rest


def _check_texts(*values: Any) -> None:
    """Refuse texts that no request can contain: Python has a surrogate for each byte that isn't UTF-8."""
    for value in values:
        if isinstance(value, tuple):
            _check_texts(*value)
        elif isinstance(value, str) and not is_utf8(value):
            raise UsageError(not_utf8(value))


def watch_filled(args: list[str]) -> list[str]:
    """Return the arguments with a number after each `--watch`."""
    filled: list[str] = []
    for number, word in enumerate(args):
        following = args[number + 1] if number + 1 < len(args) else ""
        is_bare = word == "--watch" and not following.removeprefix(".")[:1].isdecimal()
        filled.append(f"--watch={WATCH_S:g}" if is_bare else word)
    return filled


class Seconds(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """The time between two updates."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(str(value).removesuffix("s"))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= WATCH_S_MAX:
            self.fail(
                f"{value} is not a valid number of seconds: write a number above 0, up to {WATCH_S_MAX:.0f}", param, ctx
            )
        return seconds


def json_flag(command: Command) -> Command:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for programs.")(
        command
    )


def watch_flag(command: Command) -> Command:
    """Add `--watch`."""
    return click.option(
        "--watch", "watch_s", type=Seconds(), metavar="[SECONDS]",
        help=f"Repeat until Ctrl-C. [every {WATCH_S:g} s if no number is given]",
    )(command)  # fmt: skip


class NameOf(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A topic or a group: any text. The shell completes the names of the cluster if it responds quickly."""

    def __init__(self, kind: str) -> None:
        """`kind`: topic or group."""
        self.name = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        given = ctx.params
        known = known_names(self.name, str(given.get("namesrv") or ""), str(given.get("protocol") or "staticfire"))
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


def check_names(topics: Sequence[str], group: str | None = None) -> None:
    """Refuse names that aren't valid for a topic or group. Raises: UsageError."""
    from staticfire.protocol.names import group_fault, topic_fault

    for topic in topics:
        fault = topic_fault(topic)
        if fault is not None:
            raise UsageError(f"{topic!r}: {fault}")
    fault = None if group is None else group_fault(group)
    if fault is not None:
        raise UsageError(fault)


TOPIC, GROUP = NameOf("topic"), NameOf("group")


def known_names(kind: str, namesrv: str, protocol: str) -> list[str]:
    """Return the users' topics or groups of a cluster; none if it doesn't respond quickly."""
    import asyncio

    from staticfire.cli.listing import admin_of
    from staticfire.client.admin.listing import own_topics
    from staticfire.protocol.errors import StaticfireError

    async def ask() -> list[str]:
        async with asyncio.timeout(COMPLETION_S), admin_of(namesrv, protocol) as admin:
            return await (own_topics(admin) if kind == "topic" else admin.groups())

    try:
        return asyncio.run(ask())
    except (StaticfireError, TimeoutError):
        return []


Flag = Callable[[Command], Command]
