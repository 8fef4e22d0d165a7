"""`staticfire mqproxy`: a gRPC endpoint with the flags of RocketMQ's start script, for compose files that call it.

The order of priority is RocketMQ's: -n, then the file of -pc (rmq-proxy.json), then NAMESRV_ADDR.
"""

import json
import os
from pathlib import Path

import click

from staticfire.cli.serve import become, settings_of, tell
from staticfire.launch.grpc_extra import HOW_TO_GET_IT, grpc_is_installed
from staticfire.protocol.errors import UsageError
from staticfire.proxy.settings import ProxySettings
from staticfire.runtime.config import field_of

NO_LOCAL_MODE = "-pm local: broker and proxy in one process are not supported; use mqbroker --enable-proxy"


@click.command()
@click.option(
    "-n", "--namesrvAddr", "namesrv", metavar="HOST:PORT", help="Addresses of the nameservers. [default: NAMESRV_ADDR]"
)
@click.option("-pc", "--proxyConfigPath", "file", metavar="FILE", help="An rmq-proxy.json.")
@click.option("-pm", "--proxyMode", "mode", default="cluster", help="Must be cluster; local is not supported.")
@click.option("-bc", "--brokerConfigPath", "broker_file", metavar="FILE", help="For -pm local.")
def mqproxy(namesrv: str | None, file: str | None, mode: str, broker_file: str | None) -> None:
    """A gRPC endpoint with the flags of RocketMQ's mqproxy."""
    if mode.lower() != "cluster" or broker_file is not None:
        raise UsageError(NO_LOCAL_MODE)
    become("staticfire.proxy", proxy_settings(namesrv, file))


def proxy_settings(namesrv: str | None, file: str | None = None) -> dict[str, str]:
    """Return the settings that differ from the defaults. Raises: UsageError."""
    if not grpc_is_installed():
        raise UsageError(f"the gRPC endpoint needs an optional package: {HOW_TO_GET_IT}")
    given = {"namesrvAddr": os.environ["NAMESRV_ADDR"]} if "NAMESRV_ADDR" in os.environ else {}
    return settings_of(ProxySettings, {"namesrvAddr": namesrv}, {**given, **(_of_json(file) if file else {})}, None)


def _of_json(file: str) -> dict[str, str]:
    """Return the known settings of a proxy's file; report the others. Raises: UsageError."""
    try:
        said = json.loads(Path(file).read_text())
        known = {key: value for key, value in said.items() if field_of(ProxySettings, key) is not None}
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{file} can't be read as JSON settings of a proxy: {error}") from None
    if unknown := sorted(said.keys() - known.keys()):
        tell(f"{file}: {', '.join(unknown)}: unknown settings, ignored")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in known.items()}
