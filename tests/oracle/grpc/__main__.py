"""`python -m tests.oracle.grpc NAMESRV_ADDR PROXY_ADDR`: see the package."""

import argparse
import asyncio
import sys
import time

from staticfire.client import Admin
from staticfire.cluster.cluster import Cluster
from tests.oracle.compare import ABSENT, Difference, judge, tell
from tests.oracle.grpc.behaviours import BEHAVIOURS, make
from tests.oracle.grpc.explained import EXPLAINED
from tests.oracle.grpc.refusals import GROUPS, TOPICS, calls, streams
from tests.oracle.grpc.requests import consumer_settings
from tests.oracle.grpc.side import CLIENT, EndpointSide, Facts, facts_of
from tests.oracle.patience import CLIENT as PATIENT, TIMEOUT_MS

TOGETHER = 6
# Calls at the same time: the real proxy is a JVM that has just started.


async def play(namesrv: str, port: int, run: str) -> dict[str, Facts]:
    """Return what one side has said, by case."""
    async with Admin(namesrv, PATIENT, timeout_ms=TIMEOUT_MS) as admin:
        await make(admin, run, TOPICS, GROUPS)
        side = await EndpointSide.connect(admin, port, run)
        found: dict[str, Facts] = {}
        for stream in streams(run):
            found[stream.name] = await side.telemetry(stream.settings, stream.client, stream.language)
        await side.telemetry(consumer_settings(f"{run}simple", f"{run}normal"), CLIENT)
        room = asyncio.Semaphore(TOGETHER)

        async def behave(name: str) -> None:
            async with room:
                try:
                    found[name] = await BEHAVIOURS[name](side)
                except Exception as error:  # noqa: BLE001 (it is a finding, and the others go on)
                    found[name] = {"failed": repr(error)}

        async with asyncio.TaskGroup() as group:
            for name in BEHAVIOURS:
                group.create_task(behave(name))
            for one in calls(run):
                answer = await side.call(one.rpc, one.request, one.client, timeout_s=one.timeout_s)
                found[one.name] = facts_of(one.rpc, answer)
        side.close()
        return found


async def play_both(theirs: tuple[str, int], ours: tuple[str, int]) -> tuple[dict[str, Facts], dict[str, Facts]]:
    """Play the cases on both at the same time, since most of it is waiting."""
    run = f"d{int(time.time())}-"
    return await asyncio.gather(play(*theirs, run), play(*ours, run))


def differences(theirs: dict[str, Facts], ours: dict[str, Facts]) -> list[Difference]:
    """Return everything that isn't the same."""
    return [
        Difference(case, part, facts.get(part, ABSENT), ours[case].get(part, ABSENT))
        for case, facts in theirs.items()
        for part in dict.fromkeys([*facts, *ours[case]])
        if facts.get(part, ABSENT) != ours[case].get(part, ABSENT)
    ]


def main() -> int:
    """Compare; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.grpc", description="Compares with a real RocketMQ.")
    parser.add_argument("nameserver", help="where the real one's nameserver is")
    parser.add_argument("proxy", help="where its proxy is")
    parser.add_argument("--only", default="*", help="show only differences of cases like this")
    arguments = parser.parse_args()
    port = int(arguments.proxy.rsplit(":", 1)[1])
    with Cluster(isolation="process", grpc=True) as cluster:
        our_port = int((cluster.grpc_endpoint or "").rsplit(":", 1)[1])
        theirs, ours = asyncio.run(play_both((arguments.nameserver, port), (cluster.namesrv, our_port)))
    unexplained, used = judge(differences(theirs, ours), EXPLAINED)
    is_same = tell(unexplained, used, arguments.only)
    explained = sum(used.values())
    print(f"gRPC: {len(theirs)} cases, {len(unexplained)} differences unexplained, {explained} explained")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
