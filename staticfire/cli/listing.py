"""How commands show results: tables and colours for people, one JSON object per line for programs; once, or repeatedly.

`--help` loads nothing of this. Colours and line widths are for terminals only: in a pipe a line is as long as its
content. NO_COLOR turns colours off.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from staticfire.cli.signing import words_of
from staticfire.cli.suggestions import did_you_mean
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.exit_codes import EXIT_STOPPED

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from staticfire.client import Admin

T = TypeVar("T")
PIPE_WIDTH = 100_000
# The end of a line may be a line feed alone, or CR LF, as in bodies and stacks from Windows.
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
# An Apache RocketMQ closes the connection after a frame that it can't decode, which causes this error.
LOST = "lost before the response"


# -- query -------------------------------------------------------------------------------------------------------------


def with_admin(
    namesrv: str,
    protocol: str,
    ask: "Callable[[Admin], Awaitable[T]]",
    topic: str | None = None,
    group: str | None = None,
) -> T:
    """Return the result of `ask` with an administrator. `topic`, `group`: names that the user may have mistyped.

    Raises: UsageError, ClientError, BrokerAnswer, NetworkError.
    """
    import asyncio

    from staticfire.protocol.errors import GroupNotFound, NetworkError, TopicNotFound

    async def connected() -> T:
        async with admin_of(namesrv, protocol) as admin:
            try:
                return await ask(admin)
            except TopicNotFound as error:
                raise TopicNotFound(error.code, error.remark + await _close_topics(admin, topic)) from None
            except GroupNotFound as error:
                raise GroupNotFound(error.code, error.remark + await _close_groups(admin, group)) from None

    try:
        return asyncio.run(connected())
    except NetworkError as error:
        if protocol == "rocketmq" or LOST not in str(error):
            raise
        raise type(error)(f"{error}; for an Apache RocketMQ use --protocol rocketmq") from None


def admin_of(namesrv: str, protocol: str) -> "Admin":
    """Return a client for queries. Raises: UsageError, ClientError."""
    from staticfire.client import Admin, ClientSettings

    return Admin(namesrv, ClientSettings(protocol=protocol))  # type: ignore[arg-type]  # one of its words: see the flag


async def _close_topics(admin: "Admin", name: str | None) -> str:
    """Return the hint with a similar topic, or ""."""
    try:
        return "" if name is None else did_you_mean(name, await admin.topics())
    except StaticfireError:
        return ""  # The first error is more important.


async def _close_groups(admin: "Admin", name: str | None) -> str:
    """Return the hint with a similar group, or ""."""
    try:
        return "" if name is None else did_you_mean(name, await admin.groups())
    except StaticfireError:
        return ""


async def missing_ones(admin: "Admin", topics: Sequence[str] = (), groups: Sequence[str] = ()) -> list[str]:
    """Return a hint for each name that probably has a typing error: `there is no topic ordrs, did you mean orders?`

    For commands that don't fail if a name doesn't exist, because they wait for it or just find nothing.
    """
    found = []
    for what, names, ask in (("topic", topics, admin.topics), ("group", groups, admin.groups)):
        try:
            known = await ask() if names else []
        except StaticfireError:
            continue  # The command itself reports this error if it needs a response.
        close = {name: did_you_mean(name, known) for name in names if name not in known}
        found += [f"there is no {what} {name}{meant}" for name, meant in close.items() if meant]
    return found


# -- repeat ------------------------------------------------------------------------------------------------------------


def watched(every_s: float | None, look: Callable[[], int], pause: Callable[[float], object] | None = None) -> int:
    """Show something once; return the exit code. With `every_s`: repeat it until Ctrl-C.

    A failure of the first time ends the command. Later ones are printed, since the cluster may recover.
    """
    if every_s is None:
        return look()
    if pause is None:
        from threading import Event

        pause = Event().wait
    _clear()
    look()
    try:
        while True:
            pause(every_s)
            _clear()
            try:
                look()
            except StaticfireError as error:
                click.echo(f"staticfire: {words_of(error)}", err=True)
    except KeyboardInterrupt:
        return EXIT_STOPPED


def _clear() -> None:
    if sys.stdout.isatty():
        click.clear()


# -- show --------------------------------------------------------------------------------------------------------------


def without_controls(text: str) -> str:
    """Return a text of any number of lines with its control characters as `\\x1b`.

    Tabs and line ends stay, and so does all other text, for programs that read it.
    """
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def print_json(value: object) -> None:
    """Print an object as one line."""
    from staticfire.cli.messages import json_line

    click.echo(json_line(value))


def console() -> "Console":
    """Return the console for tables. It is as wide as the terminal, or as the content if there is none."""
    from rich.console import Console

    made = Console(highlight=False)
    if not made.is_terminal:
        made = Console(highlight=False, width=PIPE_WIDTH)
    return made


def table_of(**columns: str) -> "Table":
    """Return an empty table. `columns`: heading -> `left`, `right`; `fold`: left, on several lines; `rest`: left,
    as wide as there is room, and cut.
    """
    from rich.table import Table

    to_terminal = console().is_terminal
    table = Table(box=None, header_style="bold", pad_edge=False, expand=to_terminal and "rest" in columns.values())
    for name, justify in columns.items():
        if justify == "rest":
            table.add_column(name, ratio=1, overflow="ellipsis", no_wrap=True)
        elif justify == "fold":
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # one of two words
    return table


def add_row(table: "Table", cells: Sequence[object], style: str | None = None) -> None:
    """Add a row of texts, without their control characters."""
    from rich.text import Text

    from staticfire.cli.messages import printable

    assert len(cells) == len(table.columns), "rich would add columns without a heading"
    table.add_row(*(Text(printable(str(cell))) for cell in cells), style=style)


def print_done(words: str, facts: dict[str, Any], as_json: bool) -> None:
    """Print what a command has done: a sentence for people, or an object."""
    if as_json:
        print_json(facts)
    else:
        click.echo(words)


def print_lines(lines: Sequence[Mapping[str, Any]], as_json: bool, nothing: str) -> None:
    """Print lines with the same columns. `nothing`: the text to print if there are none."""
    if as_json:
        for line in lines:
            print_json(line)
        return
    if not lines:
        click.echo(nothing)
        return
    table = table_of(**{name: "left" if number == 0 else "right" for number, name in enumerate(lines[0])})
    for line in lines:
        add_row(table, list(line.values()))
    console().print(table)


@contextmanager
def busy(words: str) -> Iterator[None]:
    """Show on stderr, if it is a terminal, that an operation is in progress."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(words):
        yield


@contextmanager
def counted(words: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr, if it is a terminal. Yield a function that adds to the count."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda more: bar.advance(task, more)
