"""`staticfire proxy`: one gRPC endpoint in the foreground."""

import click

from staticfire.cli.options import Whole, as_settings, settings_flags
from staticfire.cli.serve import become, settings_list_flag, settings_of, show_settings
from staticfire.launch.grpc_extra import HOW_TO_GET_IT, grpc_is_installed
from staticfire.protocol.errors import UsageError
from staticfire.proxy.settings import ProxySettings


@click.command()
@click.option("--port", type=Whole(0, 65535), help="The port to listen on. 0: any free port. [default: 8081]")
@click.option(
    "-n",
    "--namesrv",
    envvar="NAMESRV_ADDR",
    metavar="HOST:PORT",
    help="Addresses of the nameservers; also NAMESRV_ADDR.",
)
@settings_flags
@settings_list_flag
def proxy(
    port: int | None,
    namesrv: str | None,
    assignments: tuple[tuple[str, str], ...],
    file: str | None,
    listing: str | None,
) -> None:
    """Start one gRPC endpoint in the foreground. RocketMQ 5's clients connect to it, with or without TLS.

    It is a client of the cluster whose nameservers are given. It prints `startup successfully` on stdout when it is
    ready, logs to stderr, and stops on Ctrl-C or SIGTERM. Settings come from flags, then STATICFIRE_<NAME> in the
    environment, then --config; --settings lists them all. `staticfire up` also starts one.
    """
    if listing is not None:
        show_settings(ProxySettings, listing == "toml")
        return
    if not grpc_is_installed():
        raise UsageError(f"the gRPC endpoint needs an optional package: {HOW_TO_GET_IT}")
    flags = {
        "grpcServerPort": None if port is None else str(port),
        "namesrvAddr": namesrv,
    }
    become("staticfire.proxy", settings_of(ProxySettings, flags, as_settings(assignments), file))
