"""`staticfire up`: a cluster of processes in the foreground, until Ctrl-C or SIGTERM."""

import click

from staticfire.cli.options import as_settings, cluster_flags
from staticfire.cli.stand import ClusterFlags, Stand, standing, tell
from staticfire.plan import BROKER_PORT, CONTROL_PORT, NAMESRV_PORT
from staticfire.runtime.children import ChildFailed
from staticfire.runtime.exit_codes import EXIT_CLUSTER_FAILED, EXIT_STOPPED
from staticfire.runtime.signals import StopAsked


@click.command()
@cluster_flags(NAMESRV_PORT, BROKER_PORT, CONTROL_PORT)
def up(
    brokers: int,
    namesrv_port: int,
    broker_port: int,
    control_port: int,
    directory: str | None,
    assignments: tuple[tuple[str, str], ...],
    file: str | None,
) -> int:
    """A cluster of processes in the foreground.

    Prints one line `ready NAMESRV_ADDR=... CONTROL=... DIR=...` when clients can use it, and stops on Ctrl-C or
    SIGTERM. Exit code 125: a process of the cluster died.
    """
    flags = ClusterFlags(
        brokers, namesrv_port, broker_port, control_port, directory, as_settings(assignments), file
    )  # fmt: skip
    try:
        with standing(flags) as stand:
            print(ready_line(stand), flush=True)
            return _stay(stand)
    except StopAsked:
        return EXIT_STOPPED
    except ChildFailed as failed:
        tell(str(failed))
        return EXIT_CLUSTER_FAILED


def ready_line(stand: Stand) -> str:
    """Return the line that scripts wait for."""
    cluster = stand.cluster
    return f"ready NAMESRV_ADDR={cluster.namesrv} CONTROL={stand.control_url} DIR={cluster.folder}"


def _stay(stand: Stand) -> int:
    """Run until a signal or the death of a process; return the exit code."""
    import asyncio  # here, after the processes were started

    from staticfire.cli.stay import until_stopped, with_control

    return asyncio.run(with_control(stand, lambda: until_stopped(stand)))
