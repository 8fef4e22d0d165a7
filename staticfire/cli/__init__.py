"""The command line. The module of a command is loaded when the command is called, so `up` starts its processes early.

Exit codes: 0 success, 1 found something or failed, 2 usage, 3 not at rest, and those of `run` (runtime/exit_codes.py;
docs/command-line.md). A user's mistake is reported in one line.
- `commands.py`: the list of commands; `command_groups.py`: commands with subcommands; `options.py`: flags that
  several commands share; `family.py`: what all commands share that inspect a cluster; `signing.py`: as which user
  a command signs; `suggestions.py`: similar names for a typing error
- `up.py`, `run.py`: a cluster, alone or around a command; `cluster_flags.py`: the flags of both; `stand.py`,
  `stay.py`: what both do before and while it runs
- `broker.py`, `nameserver.py`, `proxy.py`: one server; `mqbroker.py`, `mqnamesrv.py`, `mqproxy.py`: the same under
  RocketMQ's names;
  `serve.py`: what they share
- `create.py`, `change.py`: create and change a topic or a group; `send.py`, `peek.py`, `consume.py`, `message.py`,
  `trace.py`: messages; `messages.py`: how they are shown; `life.py`: how the life of a message is shown
- `explain.py`: why nothing is consumed; `group.py`: a group; `dlq.py`: dead letters; `journal.py`: recorded events
- `clock.py`, `reset.py`, `snapshot.py`: message time; empty a cluster; save and restore it
- `replication.py`, `failover.py`: masters and slaves
- `copy.py`: copies a topic of a real cluster; `dashboard.py`: the pages of a cluster elsewhere
- `certificates.py`: makes certificates for TLS
- `fault.py`: fault injection; `control_client.py`: how its requests reach the cluster
- `user.py`, `allow.py`, `deny.py`: users, and what they may do
- `chaos.py`, `chaos_runs.py`: a user's program under faults; `member.py`: a member that joins a group and leaves
- `topics.py`, `groups.py`: lists; `listing.py`: how commands query a cluster and show the results
- `mqadmin/`: RocketMQ's administration commands
- `pipeline.py`, `consumption.py`, `sweep.py`: jobs on Spark; `simulate.py`: whole clusters on virtual time
"""

import sys
from collections.abc import Sequence
from typing import Any

from staticfire.runtime.light_start import collect_rarely


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. Without arguments: use those of this process, which runs nothing else."""
    if arguments is None:
        collect_rarely()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return start(given)
    except KeyboardInterrupt:  # The signal arrived before the command's signal handlers were set, or after their end.
        import signal

        from staticfire.runtime.exit_codes import EXIT_SIGNAL_BASE, EXIT_STOPPED

        return EXIT_STOPPED if given[:1] == ["up"] else EXIT_SIGNAL_BASE + signal.SIGINT


def start(given: list[str]) -> int:
    """Run one command. `up` and `run` start their processes before anything else."""
    if given[:1] not in (["up"], ["run"]) or "--help" in given:
        return _main(given)
    # The processes take as long to start as this process takes to parse the flags, so both happen at the same time.
    from subprocess import DEVNULL

    from staticfire.launch.grpc_extra import grpc_is_installed
    from staticfire.runtime.spawning import BROKER_PROGRAM, NAMESERVER_PROGRAM, PROXY_PROGRAM, EarlyStart

    has_grpc = not {"--no-grpc", "--grpc-later"} & {*given} and grpc_is_installed()
    programs = [BROKER_PROGRAM, *([PROXY_PROGRAM] if has_grpc else []), NAMESERVER_PROGRAM]
    early = EarlyStart(programs, DEVNULL if given[0] == "run" else None)
    try:
        return _main(given, early)
    finally:
        early.close()


def _main(arguments: list[str], early: Any = None) -> int:
    """Run one command. A command that starts a cluster finds `early` in its context."""
    from staticfire.cli.signing import environment_of_one_command

    with environment_of_one_command():
        return _reported(arguments, early)


def _reported(arguments: list[str], early: Any) -> int:
    """Run one command, and print its error, if it fails, in one line."""
    import click

    from staticfire.cli.commands import staticfire
    from staticfire.cli.signing import words_of
    from staticfire.protocol.errors import NotAtRest, StaticfireError, UsageError
    from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_NOT_AT_REST, EXIT_SIGNAL_BASE, EXIT_USAGE

    try:
        result = staticfire.main(args=arguments, prog_name="staticfire", standalone_mode=False, obj=early)
    except click.ClickException as error:
        return _say(_words(error), error.exit_code)
    except click.Abort:
        return EXIT_SIGNAL_BASE + 2
    except UsageError as error:
        return _say(f"staticfire: {error}", EXIT_USAGE)
    except NotAtRest as error:
        return _say(f"staticfire: {error}", EXIT_NOT_AT_REST)
    except StaticfireError as error:
        return _say(f"staticfire: {words_of(error)}", EXIT_FAILED)
    except OSError as error:
        from errno import EDQUOT, ENOSPC

        if error.errno not in (EDQUOT, ENOSPC):
            raise
        return _say(f"staticfire: {error.filename or 'the output'} can't be written: {error.strerror}", EXIT_FAILED)
    except UnicodeEncodeError:
        from staticfire.cli.options import is_utf8, not_utf8

        wrong = next((text for text in arguments if not is_utf8(text)), None)
        if wrong is None:
            raise
        return _say(f"staticfire: {not_utf8(wrong)}", EXIT_USAGE)
    return result if isinstance(result, int) else 0


def _words(error: Any) -> str:
    """Return the user's mistake as one line, or the help text if there were no arguments."""
    context, words = getattr(error, "ctx", None), error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # of click 8.2 and later
        return str(words)
    if getattr(error, "option_name", "")[1:2].isdigit():
        words = f"{words.rstrip('.')}; if this is a number, it must not be negative"
    return f"{context.command_path if context else 'staticfire'}: {words}"


def _say(words: str, exit_code: int) -> int:
    from staticfire.cli.listing import without_controls

    print(without_controls(words), file=sys.stderr)
    return exit_code
