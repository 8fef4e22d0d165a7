"""`python -m tools.mqadmin`: see the package. Exit code 1: a command did not do what it is for."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from staticfire.cluster import Cluster
from tools.mqadmin.calls import AFTER, BEFORE, DURING, GROUP, MESSAGES, PRODUCERS, TOPIC, Call, Facts

ORACLE = Path(__file__).resolve().parent.parent / "oracle.sh"
AT_ONCE = 2
CALL_TIMEOUT_S = 60
MEMBER_TIMEOUT_S = 30
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def run_admin(arguments: list[str], namesrv: str, folder: str) -> str:
    """Run mqadmin; return all that it says. Some commands write files: they land in the folder."""
    environment = dict(os.environ, NAMESRV_ADDR=namesrv, JDK_JAVA_OPTIONS=QUICK_START)
    command = ["bash", str(ORACLE), "admin", *arguments]
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=CALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"Exception: no end after {CALL_TIMEOUT_S} s"
    return done.stdout


class Run:
    """Plays stages, prints a line for each call, and counts what failed."""

    def __init__(self, facts: Facts, folder: str) -> None:
        self.facts = facts
        self.calls = 0
        self.failed = 0
        self._folder = folder

    def play(self, stages: list[list[Call]]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for stage in stages:
                for call, complaint in zip(stage, threads.map(self._complaint, stage), strict=True):
                    self._tell(call, complaint)

    def _complaint(self, call: Call) -> str:
        return call.complaint(run_admin(call.filled(self.facts), self.facts.namesrv, self._folder), self.facts)

    def _tell(self, call: Call, complaint: str) -> None:
        self.calls += 1
        self.failed += bool(complaint)
        print(f"{call.arguments.split()[0]:<24} {'FAILED' if complaint else 'ok':<7} {complaint}".rstrip(), flush=True)


@contextmanager
def members(facts: Facts) -> Iterator[Facts]:
    """Let a producer and a consumer of RocketMQ's own live; yield the facts with the first message's."""
    classpath = subprocess.run(["bash", str(ORACLE), "classpath"], stdout=subprocess.PIPE, text=True, check=True).stdout
    source = str(Path(__file__).with_name("Member.java"))
    command = ["java", "-cp", classpath.strip(), source, facts.namesrv, TOPIC, PRODUCERS, GROUP, str(MESSAGES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
        assert java.stdin is not None
        assert java.stdout is not None
        try:
            told = []
            for line in java.stdout:
                if line.startswith("sent "):
                    told.append(line.split()[1:])
                elif line.startswith("consumed"):
                    break
            if len(told) != MESSAGES:
                raise SystemExit(f"mqadmin: a Java producer and consumer could not send {MESSAGES} messages")
            unique_id, offset_id, holder, queue_id, queue_offset = told[0]
            yield replace(
                facts,
                unique_id=unique_id,
                offset_id=offset_id,
                holder=holder,
                queue_id=queue_id,
                queue_offset=queue_offset,
            )
            java.stdin.close()
            java.wait(MEMBER_TIMEOUT_S)
        finally:
            java.kill()


def main() -> int:
    with Cluster(brokers=2) as cluster, tempfile.TemporaryDirectory() as folder:
        (broker, address), (_, other_address) = sorted(cluster.addresses.items())
        run = Run(Facts(cluster.namesrv, broker, address, other_address), folder)
        run.play(BEFORE)
        with members(run.facts) as run.facts:
            run.play(DURING)
        run.play(AFTER)
    print(f"mqadmin: {run.calls} calls, {run.failed} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
