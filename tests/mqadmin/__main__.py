"""`python -m tests.mqadmin`: see the package. Exit code 1: a command did not do what it is for."""

import contextlib
import io
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace

from staticfire.cli import main as main_of_staticfire
from staticfire.cli.mqadmin.frame import COMMANDS, mqadmin
from staticfire.cluster.cluster import Cluster
from tests.mqadmin.calls import (
    AFTER,
    BEFORE,
    DURING,
    GROUP,
    MESSAGES,
    OTHERS,
    OURS,
    OURS_DIFFERS,
    PRODUCERS,
    TOPIC,
    Call,
    Facts,
)
from tests.mqadmin.java import Admin, members
from tests.mqadmin.ours import our_member

OUR_COMMANDS = {name for names in COMMANDS.values() for name in names}
NOT_NEEDED = {"-h", "--help", "--cplus"}
"""--cplus: for members in C++ that a broker without resets of its own would have to tell."""
PAUSE_S = 1
# Before a command is asked again.
STEADY_S = 20
# Two programs that run one after the other see one state only when the members do nothing meanwhile: a member registers
# its retry topic and commits its offsets late. A true difference stays.


class Run:
    """Plays calls, prints a line for each, and counts what failed."""

    def __init__(self, admin: Admin, facts: Facts) -> None:
        self._admin = admin
        self.facts = facts
        self.calls = 0
        self.complaints: list[str] = []

    def play(self, calls: Sequence[Call]) -> None:
        for call in calls:
            begin_s = time.monotonic()
            complaint = self._complaint(call)
            within_s = max(call.within_s, STEADY_S if complaint.startswith(OURS_DIFFERS) else 0)
            while complaint and time.monotonic() < begin_s + within_s:
                time.sleep(PAUSE_S)  # house: mqadmin can only be asked again
                complaint = self._complaint(call)
            self.calls += 1
            said = "FAILED" if complaint else "ok"
            took_s = time.monotonic() - begin_s
            line = f"{call.arguments.split()[0]:<24} {said:<7} {took_s:5.1f} s  {complaint}".rstrip()
            print(line, flush=True)
            if complaint:
                self.complaints.append(line)

    def _complaint(self, call: Call) -> str:
        arguments = call.filled(self.facts)
        theirs = self._admin.run(arguments)
        complaint = call.complaint(theirs, self.facts)
        if complaint or call.differs or call.refused or arguments[0] not in OUR_COMMANDS:
            return complaint
        return call.difference(theirs, our_words(arguments, self.facts.namesrv))


def our_words(arguments: Sequence[str], namesrv: str) -> str:
    """Return what our command says, on both roads and with its exit code where that isn't 0."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main_of_staticfire(["mqadmin", "--protocol", "rocketmq", "--namesrv", namesrv, *arguments])
    return said.getvalue() + (f"exit code {code}" if code else "")


def lacking_flags(admin: Admin) -> list[str]:
    """Return the flags that RocketMQ's commands have and ours of these names don't."""
    lacking = []
    for command in mqadmin.all_commands():
        assert command.name is not None
        reported = admin.run(["help", command.name])
        theirs = set(re.findall(r"^ *(-\w)(?:,| )", reported, re.MULTILINE)) | set(re.findall(r"(--\w+)", reported))
        ours = {name for param in command.params for name in param.opts}
        if len(theirs) < 2:
            lacking.append(f"help of {command.name}: {reported}")
        elif missing := theirs - ours - NOT_NEEDED:
            lacking.append(f"{command.name} lacks {', '.join(sorted(missing))}")
    return lacking


def main() -> int:
    # The current folder is a temporary one: our consumerStatus writes its files there, as RocketMQ's does.
    with Cluster(brokers=2) as cluster, tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        (broker, address), (_, other_address) = sorted(cluster.addresses.items())
        with Admin(cluster.namesrv, folder) as admin:
            run = Run(admin, Facts(cluster.namesrv, broker, address, other_address))
            run.play(BEFORE)
            with (
                our_member(cluster.namesrv, TOPIC, OURS) as client_id,
                members(cluster.namesrv, folder, [TOPIC, PRODUCERS, GROUP], MESSAGES) as first,
            ):
                run.facts = replace(run.facts, client_id=client_id, **first._asdict())
                run.play(OTHERS)
                run.play(DURING)
            run.play(AFTER)
            complaints = run.complaints + lacking_flags(admin)
    print(*complaints, f"mqadmin: {run.calls} calls, {len(complaints)} failed", sep="\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
