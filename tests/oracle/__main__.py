"""`python -m tests.oracle NAMESRV_ADDR`: see the package."""

import argparse
import sys
import threading
import time
from typing import Any

from staticfire.cluster.cluster import Cluster
from staticfire.launch.compat import ROCKETMQ
from tests.oracle.cases import script
from tests.oracle.compare import differences, judge, tell
from tests.oracle.exchange import Line, Reply, Side, read_json
from tests.oracle.explained import EXPLAINED
from tests.oracle.step import Step

GET_BROKER_CLUSTER_INFO = 106
SETTINGS_OF_BOTH = {
    "traceTopicEnable": True, "enablePropertyFilter": True, "recallMessageEnable": True,
    "mappedFileSizeCommitLog": 268_435_456,
}  # fmt: skip
"""What tools/oracle.sh gives the real one, so that there is more to compare."""


def broker_of(nameserver: str) -> str:
    """Ask a nameserver for its only broker's address."""
    line = Line(nameserver)
    brokers: list[dict[str, Any]] = []
    while not brokers:  # A broker that has just started registers a moment later.
        reply = line.answer(line.send(GET_BROKER_CLUSTER_INFO, None, b"", {}))
        brokers = list(read_json(reply.body)["brokerAddrTable"].values())
        time.sleep(0.1)  # house: a nameserver notifies nobody of a new broker
    line.socket.close()
    address: str = brokers[0]["brokerAddrs"][0]
    return address


def play_both(theirs: str, ours: str, steps: list[Step]) -> list[dict[str, Reply]]:
    """Play the script against both at the same time, since most of it is waiting."""
    run = f"d{int(time.time())}-"
    sides = [Side(nameserver, broker_of(nameserver), run) for nameserver in (theirs, ours)]
    replies: list[dict[str, Reply]] = [{}, {}]

    def play(index: int) -> None:
        replies[index] = sides[index].play(steps)

    threads = [threading.Thread(target=play, args=(index,)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description="Compares with a real RocketMQ.")
    parser.add_argument("nameserver", help="where the real one's nameserver is")
    parser.add_argument("--only", default="*", help="show only differences of steps like this")
    arguments = parser.parse_args()
    steps = script()
    with Cluster(compat=ROCKETMQ, settings=SETTINGS_OF_BOTH) as cluster:
        theirs, ours = play_both(arguments.nameserver, cluster.namesrv, steps)
    if not theirs or not ours:
        return 1
    unexplained, used = judge(differences(theirs, ours), EXPLAINED)
    is_same = tell(unexplained, used, arguments.only)
    print(f"{len(theirs)} exchanges, {len(unexplained)} differences unexplained, {sum(used.values())} explained")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
