"""`staticfire up`: a cluster of processes in the foreground, until Ctrl-C or SIGTERM."""

import click

from staticfire.cli.cluster_flags import cluster_flags
from staticfire.cli.stand import ClusterFlags, Stand, standing, tell
from staticfire.control.dashboard_place import dashboard_is_installed
from staticfire.launch.grpc_extra import HOW_TO_GET_IT, grpc_is_installed
from staticfire.launch.plan import BROKER_PORT, CONTROL_PORT, GRPC_PORT, NAMESRV_PORT, PROXY
from staticfire.protocol.errors import UsageError
from staticfire.runtime.children import ChildFailed
from staticfire.runtime.exit_codes import EXIT_CLUSTER_FAILED, EXIT_FAILED, EXIT_STOPPED
from staticfire.runtime.log_sink import say
from staticfire.runtime.signals import StopRequested


@click.command()
@cluster_flags(NAMESRV_PORT, BROKER_PORT, GRPC_PORT, CONTROL_PORT)
@click.option(
    "--grpc-later", is_flag=True,
    help="Be ready without the gRPC endpoint; a second line, `ready ROCKETMQ_ENDPOINT=...`, says when it is.",
)  # fmt: skip
def up(flags: ClusterFlags, grpc_later: bool) -> int:
    """Start a RocketMQ cluster in the foreground: a nameserver and brokers, each a process.

    When clients can connect, one line on stdout shows the addresses. All other output goes to stderr:

    \b
        ready NAMESRV_ADDR=127.0.0.1:9876 ROCKETMQ_ENDPOINT=127.0.0.1:8081 CONTROL=http://127.0.0.1:8082 DIR=...

    NAMESRV_ADDR is the address for RocketMQ's unchanged clients, and the default of `staticfire send`, `peek`,
    `consume`, `clock` and `mqadmin`. ROCKETMQ_ENDPOINT is the address for RocketMQ 5's gRPC clients (with or without
    TLS); it needs staticfire[grpc] and is absent with --no-grpc. With --grpc-later the line doesn't wait for it, and a
    second line shows it: ready ROCKETMQ_ENDPOINT=127.0.0.1:8081. CONTROL serves GET /health, POST /reset,
    POST /clock/advance?by=2h; GET / lists the rest. In a browser, the same address shows the dashboard, if
    staticfire[dashboard] is installed.

    Ctrl-C or SIGTERM stops the cluster (exit code 0); brokers write their data first. The data is in a temporary
    folder, which is removed at the end, unless you give --dir. Exit code 125: a process of the cluster died, and the
    others were stopped; 2: a flag or a setting is invalid, or a port is in use.

    \b
    Examples:
        staticfire up --brokers 2
        staticfire up --dir ./data --set autoCreateTopicEnable=false
        staticfire up --namesrv-port 0 --broker-port 0 --control-port 0      # in addition to another cluster

    For one command or test run, use `staticfire run`.
    """
    later = _later(flags, grpc_later)
    try:
        with standing(flags, click.get_current_context().obj, later=later) as stand:
            if flags.wanted.compat is not None:
                _tell_of_compat(flags.wanted.compat)
            say(ready_line(stand, has_grpc=not later))
            for name in later:
                stand.cluster.start_late(name)
                say(f"ready ROCKETMQ_ENDPOINT={stand.cluster.plan.grpc_endpoint}")
            if dashboard_is_installed():
                tell(f"dashboard {stand.control_url}/")
            if not grpc_is_installed():
                tell(f"the gRPC endpoint for RocketMQ 5's clients is off; to install it: {HOW_TO_GET_IT}")
            exit_code = _stay(stand)
        return EXIT_FAILED if exit_code == EXIT_STOPPED and stand.ended_badly else exit_code
    except StopRequested:
        return EXIT_STOPPED
    except ChildFailed as failed:
        tell(str(failed))
        return EXIT_CLUSTER_FAILED


def _tell_of_compat(compat: str) -> None:
    from staticfire.launch.compat import lines_of  # here, since few starts need it

    for line in lines_of(compat):
        tell(line)


def _later(flags: ClusterFlags, grpc_later: bool) -> list[str]:
    """Return the processes that are started after the ready line. Raises: UsageError."""
    if grpc_later and flags.wanted.grpc_port is None and grpc_is_installed():
        raise UsageError("use either --grpc-later or --no-grpc, not both")
    return [PROXY] if grpc_later and flags.wanted.grpc_port is not None else []


def ready_line(stand: Stand, has_grpc: bool = True) -> str:
    """Return the line that scripts wait for. `has_grpc`: whether the gRPC endpoint is ready, too, if there is one."""
    cluster = stand.cluster
    endpoint = cluster.plan.grpc_endpoint if has_grpc else None
    grpc = "" if endpoint is None else f" ROCKETMQ_ENDPOINT={endpoint}"
    return f"ready NAMESRV_ADDR={cluster.namesrv}{grpc} CONTROL={stand.control_url} DIR={cluster.folder}"


def _stay(stand: Stand) -> int:
    """Run until a signal or the death of a process; return the exit code."""
    import asyncio  # here, after the processes were started

    from staticfire.cli.stay import until_stopped, with_control

    return asyncio.run(with_control(stand, lambda: until_stopped(stand)))
