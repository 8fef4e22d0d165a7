"""`staticfire mqbroker`: a broker with the flags of RocketMQ's start script, for compose files that call it.

The order of priority is RocketMQ's: -n, then the file, then NAMESRV_ADDR. The default folder for data is ~/store.
"""

import os

import click

from staticfire.broker.settings import BrokerSettings
from staticfire.cli.mqproxy import proxy_settings
from staticfire.cli.serve import accompany, become, print_settings, rocketmq_flags, settings_of, tell
from staticfire.runtime.loading import load_settings


@click.command()
@rocketmq_flags
@click.option("--enable-proxy", "proxy", is_flag=True, help="Also start a gRPC endpoint.")
def mqbroker(namesrv: str | None, file: str | None, printing: bool, important: bool, proxy: bool) -> None:
    """Start a broker with the flags of RocketMQ's mqbroker."""
    settings = settings_of(BrokerSettings, {"namesrvAddr": namesrv}, {}, file)
    if "NAMESRV_ADDR" in os.environ:
        settings.setdefault("namesrv_addr", os.environ["NAMESRV_ADDR"])
    settings.setdefault("store_path_root_dir", os.path.expanduser("~/store"))
    if printing or important:
        print_settings(load_settings(BrokerSettings, settings, {}, None))
        return
    if not settings.get("namesrv_addr"):
        tell("no nameserver is given (-n, namesrvAddr or NAMESRV_ADDR): clients can't find this broker")
    if proxy:
        accompany("staticfire.proxy", proxy_settings(settings.get("namesrv_addr")))
    become("staticfire.broker", settings)
