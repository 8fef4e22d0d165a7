"""`staticfire dashboard`: the pages of the control endpoint for a cluster that runs elsewhere, also for a RocketMQ."""

import socket

import click

from staticfire.cli.family import FamilyCommand
from staticfire.cli.options import Whole, namesrv_flag, protocol_flag
from staticfire.control.dashboard_place import HOW_TO_GET_IT, dashboard_is_installed
from staticfire.launch.places import FLAGS, WantedControl, url_of
from staticfire.launch.plan import CONTROL_PORT, HOST
from staticfire.protocol.errors import UsageError
from staticfire.runtime.log_sink import say
from staticfire.runtime.ports import listen_near, listen_on, port_of

READ_ONLY = "this dashboard only reads; start it with --write to change the cluster"


@click.command(cls=FamilyCommand)
@namesrv_flag
@protocol_flag
@click.option("--write", is_flag=True, help="Also allow changes: send, create, delete, reset, resend.")
@click.option(
    "--port",
    type=Whole(0, 65535),
    help=f"Port of the dashboard. 0: any free port. [default: {CONTROL_PORT}, or the next free port]",
)
@click.option(
    "--address",
    default=HOST,
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. Any address except loopback requires a token.",
)
@click.option(
    "--hosts",
    envvar="STATICFIRE_CONTROL_HOSTS",
    default="",
    metavar="NAME,NAME",
    help="Host names that are accepted, besides localhost and 127.0.0.1.",
)
@click.option(
    "--token", envvar="STATICFIRE_CONTROL_TOKEN", default="", metavar="TOKEN",
    help="The token that people log in with, and programs send. [default: no token]",
)  # fmt: skip
def dashboard(namesrv: str, protocol: str, write: bool, port: int | None, address: str, hosts: str, token: str) -> int:
    """Show the dashboard of a running cluster, in the foreground, until Ctrl-C.

    It only reads, unless you give --write. When it can be opened, one line on stdout shows its address:

    \b
        ready DASHBOARD=http://127.0.0.1:8082/

    A cluster that `staticfire up` has started has its own dashboard already.

    \b
    Examples:
        staticfire dashboard --namesrv 10.0.0.5:9876 --protocol rocketmq
        staticfire dashboard --write --port 0
    """
    if not dashboard_is_installed():
        raise UsageError(f"the dashboard needs one more package: {HOW_TO_GET_IT}")
    names = tuple(name.strip() for name in hosts.split(",") if name.strip())
    wanted = WantedControl(CONTROL_PORT if port is None else port, port is not None, address, names, token)
    wanted.check()
    listen = listen_near if port is None else listen_on
    sock = listen(address, wanted.port, FLAGS.ports)
    try:
        return _serve(namesrv, protocol, sock, wanted, "" if write else READ_ONLY)
    finally:
        sock.close()


def _serve(namesrv: str, protocol: str, sock: socket.socket, wanted: WantedControl, why_read_only: str) -> int:
    """Serve until a signal; return the exit code."""
    import asyncio

    from staticfire.cli.stay import signals_call
    from staticfire.client import ClientSettings
    from staticfire.control.access import Access
    from staticfire.control.hosts import KnownHosts
    from staticfire.control.remote_view import RemoteView
    from staticfire.control.site import ControlSite
    from staticfire.runtime.exit_codes import EXIT_STOPPED
    from staticfire.runtime.tls.settings import environment_tls

    tls = environment_tls()  # As --tls and STATICFIRE_TLS_ENABLE say.
    settings = ClientSettings(protocol=protocol, tls=tls)  # type: ignore[arg-type]  # one of its words: see the flag

    async def serve() -> int:
        end = asyncio.Event()
        with signals_call(lambda _: end.set()):
            async with RemoteView(namesrv, settings) as view:
                await view.look()  # So that a wrong address is an error at once.
                access = Access(KnownHosts(wanted.names), wanted.token)
                site = ControlSite(view, access, settings, why_read_only)
                await site.open(sock)
                say(f"ready DASHBOARD={url_of(port_of(sock), wanted.host)}/")
                await end.wait()
                await site.close()
        return EXIT_STOPPED

    return asyncio.run(serve())
