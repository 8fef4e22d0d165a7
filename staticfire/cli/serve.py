"""What the commands share that are one server: flags in, then this process becomes the server.

It becomes it by exec, so that the server has our pid and our signals, and none of the command line's libraries. A
signal to stop that comes meanwhile is held back (commands.py) until the server can take it.
"""

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from staticfire.launch.environment import check_environment
from staticfire.runtime.config import non_defaults
from staticfire.runtime.config_help import describe, example_toml
from staticfire.runtime.live_settings import as_properties
from staticfire.runtime.loading import load_settings
from staticfire.runtime.spawning import child_environment, interpreter


def settings_of(
    cls: type[Any],
    flags: Mapping[str, str | None],
    given: Mapping[str, str],
    file: str | None,
    compat: str | None = None,
) -> dict[str, str]:
    """Return what differs from the defaults. `flags` that were given win over `--set`. Raises: UsageError.

    What isn't understood in a file of RocketMQ's is told, and what in the environment may be for somebody else.
    """
    check_environment(os.environ, tell)
    overrides = {**given, **{key: text for key, text in flags.items() if text is not None}}
    defaults: Mapping[str, str] = {}
    if compat is not None:
        from staticfire.launch.compat import compat_settings, told  # here, since few starts ask

        defaults = compat_settings(compat)
        for line in told(compat):
            tell(line)
    return non_defaults(load_settings(cls, overrides, os.environ, file, tell=tell, defaults=defaults))


def become(module: str, settings: Mapping[str, str], temporary: str = "") -> NoReturn:
    """Become the server `module`; it removes the folder `temporary` in the end."""
    command = [*interpreter(), "-m", module, "--settings", json.dumps(dict(settings))]
    if temporary:
        command += ["--temporary", temporary]
    os.execve(command[0], command, child_environment())


def accompany(module: str, settings: Mapping[str, str]) -> None:
    """Start another server that ends with this process, whatever that becomes."""
    ours, its = socket.socketpair()
    os.set_inheritable(ours.fileno(), True)  # Its end is the other's order to stop: `become` has to leave it open.
    command = [*interpreter(), "-m", module, "--settings", json.dumps(dict(settings)), "--parent-fd", str(its.fileno())]
    subprocess.Popen(command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=child_environment())
    ours.detach()
    its.close()


def temporary_folder(name: str) -> str:
    """Make a folder for a server that was given none, and say so; the server makes its own in there."""
    folder = f"{tempfile.mkdtemp(prefix='staticfire-')}/{name}"
    click.echo(f"data is in {folder} (temporary, removed at the end); --dir keeps it", err=True)
    return folder


def tell(words: str) -> None:
    """Say something to whoever reads the log."""
    click.echo(f"staticfire: {words}", err=True)


def print_settings(settings: Any) -> None:
    """Print the settings that would count, as RocketMQ's -p does."""
    for key, text in sorted(as_properties(settings).items()):
        click.echo(f"{key}={text}")


def rocketmq_flags(command: Any) -> Any:
    """The flags of RocketMQ's start scripts. RocketMQ: ServerUtil, BrokerStartup."""
    for flag in (
        click.option("-m", "--printImportantConfig", "important", is_flag=True, help="As -p."),
        click.option("-p", "--printConfigItem", "printing", is_flag=True, help="Print all settings and end."),
        click.option("-c", "--configFile", "file", metavar="FILE", help="A broker.conf or namesrv.conf, or TOML."),
        click.option("-n", "--namesrvAddr", "namesrv", metavar="HOST:PORT", help="Nameservers; else NAMESRV_ADDR."),
    ):
        command = flag(command)
    return command


def show_settings(cls: type, as_toml: bool) -> None:
    """Print all settings: as a table, or as a file to start from."""
    if as_toml:
        click.echo(example_toml(cls), nl=False)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("setting", "takes", "default", "", box=None, header_style="bold", pad_edge=False)
    for setting in describe(cls):
        table.add_row(setting.key, setting.takes, setting.default, setting.text)
    Console().print(table)


def settings_list_flag(command: Any) -> Any:
    """`--settings`."""
    return click.option(
        "--settings", "listing", type=click.Choice(["table", "toml"]), is_flag=False, flag_value="table",
        help="Show all settings instead: as a table, or as a file to start from (--settings toml).",
    )(command)  # fmt: skip
