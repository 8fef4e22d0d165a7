"""`python -m tests.oracle.replicas prepare|compare NAMESRV FOLDER RUN`: a real master and slave, and ours.

`prepare` gives the real pair topics and messages: its slave copies topics once a minute. `compare` waits until it has
them, prepares ours, and sends the same requests to both. FOLDER: where tools/oracle.sh started the pair, with
tests/oracle/replicas/broker.conf; RUN: a word that no other run has.
"""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from staticfire.cluster.cluster import Cluster
from staticfire.launch.compat import ROCKETMQ
from tests.mqadmin.calls import LISTED, Call, call
from tests.mqadmin.java import Admin
from tests.oracle.replicas.explained import EXPLAINED
from tests.oracle.replicas.pair import Pair
from tests.oracle.replicas.steps import ALL

SIGNALS = (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL)
CONF = Path(__file__).with_name("broker.conf")
PATIENCE_MS = 20_000
CONNECTS_MAX, NOT_CONNECTED = 3, "RemotingConnectException"
TIMER_BEHIND = (r"\d+-\d+(?=\()", r"(?<=0\)) +")
"""The numbers, and the spaces behind them: the column is as wide as they are long."""
NUMBERS = (r"(?<=\t)\d+(\.\d+)?$", r"^(SLAVE|[\d.]+:\d+) +.*", r"(?<=Time\t).*")
TOOLS: tuple[Call, ...] = (
    call("clusterList -n {namesrv}", masks=(*LISTED, r"0\.\d{4}", *TIMER_BEHIND)),
    call("haStatus -n {namesrv} -b {master}", masks=NUMBERS),
    call("haStatus -n {namesrv} -b {slave}", masks=(*NUMBERS, r"(?<=#MasterAddr\t).*")),
)


def settings() -> dict[str, Any]:
    """Return what the real pair is started with."""
    return dict(line.split("=") for line in CONF.read_text().splitlines() if line and not line.startswith("#"))


def flush_late(pair: Pair, is_late: bool) -> None:
    """Let a real master wait for its disk for no time at all; ours refuses such a setting."""
    pair.configure(pair.master, syncFlushTimeout=0 if is_late else PATIENCE_MS)


def play(pair: Pair) -> dict[str, Any]:
    pair.until_synced()
    return {name: value for steps in ALL for name, value in steps(pair)}


def differ(there: Any, here: Any) -> bool:
    """Return whether two responses differ. Where it is unknown of one whether it waited, it isn't compared."""
    if isinstance(there, dict) and None in (there.get("waited", ""), here.get("waited", "")):
        there, here = {**there, "waited": None}, {**here, "waited": None}
    return bool(there != here)


def heard(admin: Admin, arguments: list[str]) -> str:
    """Return what mqadmin says. It waits 3 s for a connection, which a busy machine may not have in that time."""
    said = admin.run(arguments)
    for _ in range(1, CONNECTS_MAX):
        if NOT_CONNECTED in said:
            said = admin.run(arguments)
    return said


def tools(theirs: Pair, ours: Pair, namesrvs: tuple[str, str]) -> list[str]:
    """Return the differences of what RocketMQ's mqadmin says of the two."""
    found = []
    for pair in (theirs, ours):
        pair.until_together()
    with TemporaryDirectory() as folder, Admin(namesrvs[0], folder) as admin:
        for one in TOOLS:
            said = []
            for pair, namesrv in zip((theirs, ours), namesrvs, strict=True):
                facts = {"namesrv": namesrv, "master": pair.addresses[0], "slave": pair.addresses[1]}
                said.append(pair.reported(heard(admin, one.arguments.format(**facts).split())))
            difference = one.difference(*said)
            if difference:
                found.append(f"mqadmin {one.arguments}: {difference}")
    return found


def compare(namesrv: str, folder: str, run: str) -> int:
    slave = int(Path(folder, "pids").read_text().split()[2])
    own_settings = {**settings(), "slaveSyncPeriod": 1_000}  # A real slave copies topics once a minute.
    with Cluster(replicas=1, settings=own_settings, compat=ROCKETMQ, isolation="process") as cluster:
        replica = cluster.broker("broker-a").replica(1)
        freeze, thaw, kill = (partial(os.kill, slave, each) for each in SIGNALS)
        theirs = Pair(namesrv, run, freeze, thaw, kill, flush_late)

        def flush_late_by_fault(_: Pair, is_late: bool) -> None:
            if is_late:
                cluster.faults.add(code="SEND_MESSAGE", answer="FLUSH_DISK_TIMEOUT", direction="answer", times=1)

        ours = Pair(cluster.namesrv, run, replica.freeze, replica.thaw, replica.kill, flush_late_by_fault)
        ours.prepare()
        different = tools(theirs, ours, (namesrv, cluster.namesrv))
        with ThreadPoolExecutor(2) as both:
            answers, own = both.map(play, (theirs, ours))
    wrong = {step: (there, own[step]) for step, there in answers.items() if differ(there, own[step])}
    for step, (there, here) in wrong.items():
        print(f"{step}: {EXPLAINED.get(step, 'NOT EXPLAINED')}\n  theirs: {there}\n  ours:   {here}")
    print(*different, sep="\n")
    unexplained = wrong.keys() - EXPLAINED.keys()
    stale = EXPLAINED.keys() - wrong.keys()
    if stale:
        print(f"nothing needs these explanations any more: {', '.join(sorted(stale))}")
    counted = f"{len(unexplained) + len(different)} differences unexplained, {len(wrong) - len(unexplained)} explained"
    print(f"{len(answers)} requests and {len(TOOLS)} commands of mqadmin, {counted}")
    return 1 if unexplained or stale or different else 0


def main() -> int:
    action, namesrv, folder, run = sys.argv[1:5]
    if action == "prepare":
        Pair(namesrv, run).prepare()
        return 0
    begin_s = time.monotonic()
    code = compare(namesrv, folder, run)
    print(f"compared in {time.monotonic() - begin_s:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
