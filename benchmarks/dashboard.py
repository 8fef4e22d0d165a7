"""How long pages of the dashboard take, and what open browsers cost the servers: `python -m benchmarks.dashboard`.

A cluster of processes gets 10,000 topics, 500 groups that have consumed a part, three members in one of them, and
100,000 dead letters, half of them in one group. `staticfire dashboard` is one more process. Then each page is requested
again and again, one request at a time; "cpu" is the CPU time that all servers took for one request: other programs on
this machine change it less than the time of a response. Last, event streams are opened as browsers do, for pages of all
kinds, and the CPU time of the brokers is measured while nothing else happens.

The exit code is 0 whatever the figures are, and 1 when a page isn't there.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from aiohttp import ClientSession, ClientTimeout
from rich.console import Console
from rich.table import Table

from benchmarks.machine import cpu_ns
from staticfire import (
    Admin,
    ClientSettings,
    Cluster,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.protocol.requests.groups import GroupConfigList, SubscriptionGroupConfig, UpdateGroups
from staticfire.protocol.requests.topics import TopicConfig, TopicConfigList, UpdateTopics

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).parent / "results" / "dashboard.json"
GROUP, TOPIC, MEMBERS, ORDERS = "billing", "orders", 3, 400
AT_ONCE = 1_000
GOAL_MS, GOAL_BROWSERS = 50.0, 0.02
WARM = 3
WATCHED_S = 20.0
WATCHED = ("/", "/topics", "/groups", f"/groups/{GROUP}", f"/topics/{TOPIC}", f"/dlq/{GROUP}", "/clock", "/journal")
"""The pages of the open browsers, again from the first when there are more browsers."""


class PageTimes(NamedTuple):
    """The times of one page."""

    path: str
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    cpu_p99_ms: float
    kib: float


class Sizes(NamedTuple):
    """What the cluster holds."""

    topics: int
    groups: int
    letters: int


def pages_of(letter: str) -> tuple[str, ...]:
    """Return the addresses of all kinds of pages."""
    return (
        "/", "/topics", "/topics?page=150", "/topics?match=999", "/topics?sort=-messages", f"/topics/{TOPIC}",
        "/topics/many-7777", "/groups", "/groups?sort=-members", "/groups?sort=-lag", "/groups?sort=-deadLetters",
        "/groups?match=group-33", f"/groups/{GROUP}", "/groups/group-77", "/producers", "/messages",
        f"/messages?topic={TOPIC}", f"/messages?topic={TOPIC}&key=order-7", "/messages?key=order-7",
        "/messages?key=nothing", f"/messages?topic={TOPIC}&from=0", "/messages/order-7", "/messages/letter-7", "/dlq",
        "/dlq?match=group-33", f"/dlq/{GROUP}", f"/dlq/{GROUP}?page=500", f"/dlq/{GROUP}?match=letter-7",
        f"/dlq/{GROUP}/{letter}", "/traces", "/clock", "/faults", "/snapshots", "/transactions", "/popped", "/journal",
        f"/journal?group={GROUP}", f"/do/delete-topic?topic={TOPIC}", f"/do/delete-group?group={GROUP}",
        f"/do/reset-offsets?group={GROUP}&topic={TOPIC}&to=earliest", f"/do/resend?group={GROUP}", "/do/reset",
        "/data/rates",
    )  # fmt: skip


# -- what the cluster holds -------------------------------------------------------------------------------------------


async def fill(namesrv: str, sizes: Sizes) -> None:
    """Create topics, groups, offsets and dead letters."""
    async with Admin(namesrv) as admin:
        masters = await admin.masters()
        await admin.create_topic(TOPIC, queues=4)
        await admin.create_group(GROUP)
        for address in masters.values():
            for first in range(0, sizes.topics, AT_ONCE):
                numbers = range(first, min(first + AT_ONCE, sizes.topics))
                topics = TopicConfigList([TopicConfig(f"many-{number}", 1, 1) for number in numbers])
                answer = await admin.client.pool.ask(address, UpdateTopics(body=topics), 60_000)
                assert answer.code == 0, answer.remark
            groups = GroupConfigList([SubscriptionGroupConfig(f"group-{number}") for number in range(sizes.groups)])
            answer = await admin.client.pool.ask(address, UpdateGroups(body=groups), 60_000)
            assert answer.code == 0, answer.remark
        while f"many-{sizes.topics - 1}" not in await admin.topics():
            await admin.pause_for(50)
        await send_all(namesrv, [Message(TOPIC, b"%d" % one, keys=[f"order-{one}"]) for one in range(ORDERS)])
        for number in range(sizes.groups):
            queue = MessageQueue(TOPIC, next(iter(masters)), number % 4)
            await admin.offsets.commit(f"group-{number}", queue, number % 50)
    places = [GROUP if number % 2 else f"group-{number // 2 % sizes.groups}" for number in range(sizes.letters)]
    for group in dict.fromkeys(places):
        await send_all(namesrv, [Message(f"%DLQ%{group}", b"first")])
    numbered = list(enumerate(places))
    for first in range(0, len(numbered), AT_ONCE):
        some = numbered[first : first + AT_ONCE]
        await send_all(
            namesrv, [Message(f"%DLQ%{group}", b"letter %d" % one, keys=[f"letter-{one}"]) for one, group in some]
        )


async def send_all(namesrv: str, messages: Sequence[Message]) -> None:
    """Send messages at the same time."""
    # A machine that is busy with other programs may take long.
    settings = ProducerSettings(send_msg_timeout_ms=60_000)
    async with Producer("filling", namesrv, settings) as producer:
        await asyncio.gather(*(producer.send(one) for one in messages))


@asynccontextmanager
async def members(namesrv: str) -> AsyncIterator[None]:
    """Let members of the group consume."""

    async def listen(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async with AsyncExitStack() as stack:
        for number in range(MEMBERS):
            client = ClientSettings(instance_name=f"desk-{number}")
            settings = PushSettings(client=client, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
            consumer = PushConsumer(GROUP, namesrv, settings)
            consumer.subscribe(TOPIC)
            consumer.listener(listen)
            await stack.enter_async_context(consumer)
        yield


# -- what is measured -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def dashboard(namesrv: str) -> AsyncIterator[tuple[str, int]]:
    """Start `staticfire dashboard`; yield its address and its process id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "staticfire", "dashboard", "--namesrv", namesrv, "--write", "--port", "0",
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        yield line.rpartition("DASHBOARD=")[2].strip().rstrip("/"), process.pid
    finally:
        process.terminate()
        await process.wait()


async def times_of(session: ClientSession, url: str, path: str, requests: int, pids: Sequence[int]) -> PageTimes:
    """Request a page again and again. Raises: SystemExit (it isn't there)."""
    took_ms: list[float] = []
    worked_ms: list[float] = []
    size = 0
    for _ in range(WARM):
        async with session.get(f"{url}/ui{path}") as answer:
            text = await answer.text()
            if answer.status != 200:
                raise SystemExit(f"dashboard: {path}: {answer.status}: {text[:2_000]}")
    for _ in range(requests):
        before_ns = sum(map(cpu_ns, pids))
        began = time.perf_counter()
        async with session.get(f"{url}/ui{path}") as answer:
            size = len(await answer.read())
        took_ms.append((time.perf_counter() - began) * 1_000)
        worked_ms.append((sum(map(cpu_ns, pids)) - before_ns) / 1e6)
    took_ms.sort()
    worked_ms.sort()
    p99 = -1 - requests // 100
    return PageTimes(path, median(took_ms), took_ms[p99], median(worked_ms), worked_ms[p99], size / 1_024)


async def cost_of_browsers(url: str, count: int, pids: dict[str, int], seconds: float) -> dict[str, float]:
    """Open event streams; return the share of a core that each process takes, beyond what it takes without them."""

    async def spent(wait_s: float) -> dict[str, float]:
        before = {name: cpu_ns(pid) for name, pid in pids.items()}
        began = time.perf_counter()
        await asyncio.sleep(wait_s)
        took_ns = (time.perf_counter() - began) * 1e9
        return {name: (cpu_ns(pid) - before[name]) / took_ns for name, pid in pids.items()}

    idle = await spent(seconds)
    async with ClientSession(timeout=ClientTimeout(total=None)) as session, asyncio.TaskGroup() as group:

        async def follow(path: str) -> None:
            async with session.get(f"{url}/ui/live", params={"page": f"/ui{path}"}) as answer:
                async for _ in answer.content:
                    pass

        tasks = [group.create_task(follow(WATCHED[number % len(WATCHED)])) for number in range(count)]
        await asyncio.sleep(3)  # The first parts are made.
        busy = await spent(seconds)
        for task in tasks:
            task.cancel()
    return {name: busy[name] - idle[name] for name in pids}


async def measure(cluster: Cluster, given: argparse.Namespace) -> dict[str, object]:
    """Fill the cluster, and measure. Return what is written into the file."""
    sizes = Sizes(given.topics, given.groups, given.letters)
    console = Console()
    began = time.perf_counter()
    await fill(cluster.namesrv, sizes)
    console.print(f"dashboard: filled in {time.perf_counter() - began:.0f} s", highlight=False)
    async with members(cluster.namesrv), dashboard(cluster.namesrv) as (url, pid), ClientSession() as session:
        async with session.get(f"{url}/dlq/{GROUP}?max=1") as answer:
            letter = (await answer.json())["letters"][0]["id"].replace("/", "%2F")
        pids = {**cluster.pids, "dashboard": pid}
        chosen = [path for path in pages_of(letter) if not given.only or given.only in path]
        pages = []
        for path in chosen:
            try:
                pages.append(await times_of(session, url, path, given.requests, list(pids.values())))
            except SystemExit as missing:
                if not given.lenient:
                    raise
                console.print(str(missing)[:200])
        costs = {} if given.only else await cost_of_browsers(url, given.browsers, pids, given.seconds)
    show(console, pages, costs, given.browsers)
    return {
        "sizes": sizes._asdict(), "pages": [one._asdict() for one in pages], "browsers": given.browsers, "cores": costs,
    }  # fmt: skip


def show(console: Console, pages: Sequence[PageTimes], costs: dict[str, float], browsers: int) -> None:
    """Print two tables."""
    table = Table(title=f"pages (goal: p99 < {GOAL_MS:.0f} ms)")
    for title in ("page", "p50 ms", "p99 ms", "cpu p50", "cpu p99", "KiB"):
        table.add_column(title, justify="left" if title == "page" else "right", overflow="fold")
    for one in pages:
        style = "" if one.p99_ms < GOAL_MS else "bold red"
        numbers = one.p50_ms, one.p99_ms, one.cpu_ms, one.cpu_p99_ms, one.kib
        table.add_row(one.path, *(f"{number:.1f}" for number in numbers), style=style)
    console.print(table)
    if costs:
        table = Table(title=f"{browsers} browsers (goal: brokers < {GOAL_BROWSERS:.0%} of a core)")
        table.add_column("process")
        table.add_column("of a core", justify="right")
        for name, share in costs.items():
            table.add_row(name, f"{share:.2%}")
        console.print(table)


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--letters", type=int, default=100_000)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--requests", type=int, default=100, help="requests for each page")
    parser.add_argument("--browsers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=WATCHED_S, help="how long browsers are open")
    parser.add_argument("--only", default="", help="only pages whose address contains this")
    parser.add_argument("--lenient", action="store_true", help="go on if a page isn't there")
    given = parser.parse_args()
    with Cluster(brokers=given.brokers, isolation="process") as cluster:
        result = asyncio.run(measure(cluster, given))
    if not given.only:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
