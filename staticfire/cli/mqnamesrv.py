"""`staticfire mqnamesrv`: a nameserver with the flags of RocketMQ's start script.

Key-value configuration is stored in ~/namesrv, as there; if that isn't writable, it is kept in memory only.
"""

import os

import click

from staticfire.cli.serve import become, print_settings, rocketmq_flags, settings_of
from staticfire.nameserver.settings import NameserverSettings
from staticfire.runtime.loading import load_settings


@click.command()
@rocketmq_flags
def mqnamesrv(namesrv: str | None, file: str | None, printing: bool, important: bool) -> None:
    """Start a nameserver with the flags of RocketMQ's mqnamesrv."""
    settings = settings_of(NameserverSettings, {}, {}, file)
    home = os.path.expanduser("~")
    if os.access(home, os.W_OK):
        settings.setdefault("folder", f"{home}/namesrv")
    if printing or important:
        print_settings(load_settings(NameserverSettings, settings, {}, None))
        return
    become("staticfire.nameserver", settings)
