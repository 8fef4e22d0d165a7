"""`staticfire run`: a cluster around a command.

The command inherits the terminal and gets NAMESRV_ADDR, ROCKETMQ_ENDPOINT and STATICFIRE_CONTROL. `run` returns its
exit code. If a process of the cluster dies meanwhile, this is reported at once, but the command continues to its end;
then the exit code is 125.

A signal before the command has started ends `run`. Later signals go to the command, and `run` returns the command's
exit code even if a signal arrives after its end.
"""

import os
import signal
import subprocess

import click

from staticfire.cli.cluster_flags import cluster_flags
from staticfire.cli.stand import ClusterFlags, Stand, standing, tell
from staticfire.launch.environment import environment_of
from staticfire.runtime.children import ChildFailed
from staticfire.runtime.exit_codes import (
    EXIT_CLUSTER_FAILED,
    EXIT_NOT_EXECUTABLE,
    EXIT_NOT_FOUND,
    EXIT_SIGNAL_BASE,
)
from staticfire.runtime.signals import StopRequested

# Signals that are passed on to the command, in addition to the stop signals. Earlier ones wait until it has started.
PASSED_ON = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
# The time that the command has to stop when `run` itself has failed.
STOP_TIMEOUT_S = 10


@click.command(context_settings={"allow_interspersed_args": False})
@cluster_flags(0, 0, 0, 0)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(flags: ClusterFlags, command: tuple[str, ...]) -> int:
    """Run a command with a temporary cluster: `staticfire run -- pytest tests/`.

    The command finds NAMESRV_ADDR, STATICFIRE_CONTROL and, for RocketMQ 5's gRPC clients, ROCKETMQ_ENDPOINT in its
    environment (the last one needs staticfire[grpc]). The exit code is the exit code of the command; 128+N if signal N
    killed it; 125 if staticfire failed or a process of the cluster died; 126 if the command can't be executed; 127 if
    it isn't found.
    """
    try:
        early = click.get_current_context().obj
        if flags.wanted.compat is not None:
            from staticfire.launch.compat import in_one_line  # here, since few starts need it

            tell(in_one_line(flags.wanted.compat))
        with standing(flags, early, subprocess.DEVNULL, [signal.SIGCHLD, *PASSED_ON]) as stand:
            exit_code = _run_command(stand, command)
        return EXIT_CLUSTER_FAILED if stand.dead else exit_code
    except StopRequested as stop:
        return EXIT_SIGNAL_BASE + stop.number
    except ChildFailed as failed:
        tell(str(failed))
        return EXIT_CLUSTER_FAILED


def _run_command(stand: Stand, command: tuple[str, ...]) -> int:
    """Run the command to its end; return its exit code."""
    cluster = stand.cluster
    environment = environment_of(
        os.environ,
        cluster.namesrv,
        control=stand.control_url,
        token=stand.control.token,
        grpc=cluster.plan.grpc_endpoint or "",
        tls=cluster.client_tls is not None,
    )
    try:
        process = subprocess.Popen(command, env=environment)
    except FileNotFoundError:
        tell(f"{command[0]}: command not found")
        return EXIT_NOT_FOUND
    except OSError as error:
        tell(f"{command[0]} can't be run: {error.strerror}")
        return EXIT_NOT_EXECUTABLE
    try:
        import asyncio  # here, while the command is starting already

        from staticfire.cli.stay import until_exit, with_control

        return asyncio.run(with_control(stand, lambda: until_exit(stand, process)))
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Stop a command that still runs because `run` itself has failed."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
