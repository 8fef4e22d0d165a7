"""The paths of requests: how many of the program's functions and files each passes, on a whole cluster.

    python -m benchmarks.request_paths [--only send,pull] [--functions] [--write]

A profiler watches one request in a simulated world, on all machines: client, endpoint, broker. It was made several
times before, so connections, routes and caches are there. Two things are counted, each function once:

- **hops**: the functions that hand the request on. They are on the stack when something is written to a connection, to
  the log or the disk, or given to the event loop. This is the chain that a reader follows.
- **functions**: all that are called meanwhile, with their **calls**.

Not counted: the simulated machines, compiled code, comprehensions, and the background work of flusher and key index. If
time must pass, what the cluster does in the same time without the request is subtracted. The numbers repeat; they
differ without the compiled parts.
"""

import argparse
import asyncio
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar, NamedTuple

from benchmarks.grpc_receive_load import ReceiveLoad, Tally
from staticfire.broker.key_index import KeyIndexer
from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.appender import Appender
from staticfire.broker.store.flusher import StoreFlusher
from staticfire.client import (
    Admin,
    ConsumeContext,
    ConsumeStatus,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
)
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.compiled import twin
from staticfire.proxy.server import Proxy
from staticfire.proxy.settings import ProxySettings
from staticfire.proxy.transport import frames
from staticfire.simulation.world import JumpingLoop, SimulatedWorld, simulate
from staticfire.simulation.world.files import SimulatedFile
from staticfire.simulation.world.transport import SimulatedTransport
from staticfire.simulation.world.workers import SimulatedWorkers
from tools.generated import markdown_table, replace_part

ROOT = Path(__file__).resolve().parent.parent
NAMESRV = "10.0.0.1:9876"
TOPIC, GROUP, BODY = "orders", "billing", b"paid"
DEAD_LETTERS = "%DLQ%billing"
# A request is made this often before it is watched.
WARM_UP = 3
# The pause before a retry.
RETRY_MS = 1_000
NOT_THE_PROGRAM = ("simulation/", "benchmarks/", "tools/", "tests/")

HANDED_ON = {
    method.__code__
    for method in (
        *(SimulatedTransport.write, SimulatedTransport.writelines, SimulatedFile.write),
        *(Appender.put, Appender.put_packed),
        *(JumpingLoop.call_soon, JumpingLoop.call_at_ns, JumpingLoop.create_task),
    )
}
# What the loops have done in a worker, as each fsync, has no caller in them.
BACKGROUND = {
    work.__code__ for work in (StoreFlusher._log_loop, StoreFlusher._queue_loop, KeyIndexer.loop, SimulatedWorkers.run)
}


def stack_of(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def path_of(code: CodeType) -> str | None:
    """Return the file of one of the program's functions, relative to the project; None for all other functions."""
    _, found, path = code.co_filename.partition(f"{ROOT}/")
    path = path.removeprefix("staticfire/")
    is_other = not found or path.startswith((".venv/", *NOT_THE_PROGRAM))
    return None if is_other or code.co_name in ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>") else path


class Watch:
    """Counts calls and hops while it is entered."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.hops: Counter[CodeType] = Counter()
        # A coroutine that continues is the same frame, and no new call. The frames are kept, so that each is unique.
        self._called: set[FrameType] = set()
        self._handing: set[FrameType] = set()

    def __enter__(self) -> "Watch":
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._called.clear()
        self._handing.clear()

    def _event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or (path_of(frame.f_code) is None and frame.f_code not in HANDED_ON):
            return
        callers = list(stack_of(frame))
        if not BACKGROUND.isdisjoint(each.f_code for each in callers):
            return
        stack = [each for each in callers if path_of(each.f_code) is not None]
        if stack and stack[0] is frame and frame not in self._called:
            self._called.add(frame)
            self.calls[frame.f_code] += 1
        if frame.f_code in HANDED_ON:
            for each in stack:
                if each not in self._handing:
                    self._handing.add(each)
                    self.hops[each.f_code] += 1

    def without(self, quiet: "Watch") -> "Watch":
        """Return what this watch has seen and the other hasn't."""
        rest = Watch()
        rest.calls, rest.hops = self.calls - quiet.calls, self.hops - quiet.hops
        return rest


class Counts(NamedTuple):
    """The length of a path."""

    hops: int
    hop_files: int
    functions: int
    calls: int
    files: int

    @classmethod
    def of(cls, watch: Watch) -> "Counts":
        hop_files, files = set(map(path_of, watch.hops)), set(map(path_of, watch.calls))
        return cls(len(watch.hops), len(hop_files), len(watch.calls), watch.calls.total(), len(files))


class Stand:
    """A nameserver and a broker on their own machines, and the programs that use them."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.programs = AsyncExitStack()

    async def start(self) -> None:
        """Start the servers and a producer; create the topic."""
        world = self.world
        await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
        settings = BrokerSettings(
            broker_name="broker-a", namesrv_addr=NAMESRV, store_path_root_dir="/store",
            message_delay_level=f"{RETRY_MS // 1000}s",
        )  # fmt: skip
        self.broker = await world.start("broker", Broker(world.machine("broker", "10.0.0.2"), settings))
        machine = world.machine("program", "10.0.0.3")
        self.producer = await self.programs.enter_async_context(Producer("shop", NAMESRV, machine=machine))
        admin = await self.programs.enter_async_context(Admin(client=self.producer.client))
        await admin.create_topic(TOPIC, queues=1)

    async def send(self) -> None:
        """Send one message."""
        await self.producer.send(Message(TOPIC, BODY))


class RequestPath(ABC):
    """A kind of request."""

    name: ClassVar[str]

    @abstractmethod
    async def open(self, stand: Stand) -> None:
        """Start what makes the request."""

    async def prepare(self) -> None:  # noqa: B027 (most need nothing)
        """Bring about what must be there before each request."""

    @abstractmethod
    async def make(self) -> None:
        """Make the request, and wait for its end."""


class Send(RequestPath):
    """A producer's send, and its result."""

    name = "a send"

    async def open(self, stand: Stand) -> None:
        self._stand = stand

    async def make(self) -> None:
        await self._stand.send()


class Pull(RequestPath):
    """A pull of one message that is there."""

    name = "a pull"

    async def open(self, stand: Stand) -> None:
        machine = stand.world.machine("puller", "10.0.0.4")
        self._consumer = await stand.programs.enter_async_context(PullConsumer(GROUP, NAMESRV, machine=machine))
        await stand.send()

    async def make(self) -> None:
        assert (await self._consumer.pull(MessageQueue(TOPIC, "broker-a", 0), 0)).messages


class SendBackToDeath(RequestPath):
    """From a listener's failure over the retry to the dead letter: two send-backs and a delayed delivery."""

    name = "a failed message, until it is dead"

    async def open(self, stand: Stand) -> None:
        self._stand = stand
        self._failing = asyncio.Event()
        self._at_listener = asyncio.Event()
        settings = PushSettings(max_reconsume_times=1)
        consumer = PushConsumer(GROUP, NAMESRV, settings, stand.world.machine("consumer", "10.0.0.5"))
        consumer.subscribe(TOPIC)
        consumer.listener(self._fail)
        await stand.world.start("consumer", consumer)
        await stand.world.run_for(seconds=30)
        self._dead_letters = stand.broker.state.store.queue(DEAD_LETTERS, 0)

    async def _fail(self, _messages: object, _context: ConsumeContext) -> ConsumeStatus:
        self._at_listener.set()
        await self._failing.wait()
        return ConsumeStatus.RECONSUME_LATER

    async def prepare(self) -> None:
        self._failing.clear()
        self._at_listener.clear()
        await self._stand.send()
        await self._at_listener.wait()

    async def make(self) -> None:
        before = self._dead_letters.max_offset
        self._failing.set()
        await self._stand.world.run_for(ms=RETRY_MS + 100)
        assert self._dead_letters.max_offset == before + 1


class SingleReceives(ReceiveLoad):
    """A gRPC client that receives when the caller wants it."""

    def __init__(self) -> None:
        super().__init__(TOPIC, GROUP, BODY, Tally(sys.maxsize))
        self._ended = asyncio.Event()

    def _fill(self) -> None:
        if not self._is_known:
            super()._fill()

    def _frame(self, kind: int, flags: int, payload: bytes) -> None:
        super()._frame(kind, flags, payload)
        if kind == frames.HEADERS and flags & frames.END_STREAM:
            self._ended.set()

    async def receive(self) -> None:
        """Receive once."""
        self._ended.clear()
        super()._fill()
        await self._ended.wait()


class GrpcReceive(RequestPath):
    """A receive of one message that is there, by a simple consumer through the gRPC endpoint."""

    name = "a POP receive through gRPC"

    async def open(self, stand: Stand) -> None:
        self._stand = stand
        world = stand.world
        proxy = Proxy(world.machine("proxy", "10.0.0.6"), ProxySettings(namesrv_addr=NAMESRV))
        await world.start("proxy", proxy)
        self._receives = SingleReceives()
        stand.programs.callback(self._receives.close)
        machine = world.machine("receiver", "10.0.0.7")
        await machine.network.connect(lambda: self._receives, "10.0.0.6", proxy.port, 5_000)
        await world.run_for(seconds=5)

    async def prepare(self) -> None:
        await self._stand.send()

    async def make(self) -> None:
        before = self._receives.well
        await self._receives.receive()
        assert self._receives.well > before


PATHS: dict[str, type[RequestPath]] = {
    "send": Send,
    "pull": Pull,
    "death": SendBackToDeath,
    "receive": GrpcReceive,
}


def watch(kind: type[RequestPath]) -> Watch:
    """Make a request of this kind in a world of its own; return what it has passed."""

    async def scenario(world: SimulatedWorld) -> Watch:
        stand = Stand(world)
        await stand.start()
        path = kind()
        await path.open(stand)
        for _ in range(WARM_UP):
            await path.prepare()
            await path.make()
        await path.prepare()
        began_ms = world.uptime_ms
        with Watch() as busy:
            await path.make()
        took_ms = world.uptime_ms - began_ms
        if took_ms >= RETRY_MS:
            # Loops run every few seconds; the same ones are due in the same part of a minute.
            await world.run_for(60_000 - took_ms)
            with Watch() as quiet:
                await world.run_for(took_ms)
            busy = busy.without(quiet)
        await stand.programs.aclose()
        return busy

    return simulate(scenario)


def table(counted: dict[str, Counts]) -> str:
    """Return the lengths of paths as Markdown."""
    heads = ["request", "hops", "over files", "functions", "calls", "in files"]
    return markdown_table(heads, [[PATHS[key].name, *map(str, counts)] for key, counts in counted.items()])


def functions(seen: Watch) -> str:
    """Return a line for each function in the order of the first calls. Hops have a star."""
    return "\n".join(
        f"{'*' if code in seen.hops else ' '} {calls:4} {path_of(code)} {code.co_qualname}"
        for code, calls in seen.calls.items()
    )


def main() -> None:
    """Watch the requests and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PATHS), help="some of the requests")
    parser.add_argument("--functions", action="store_true", help="each function, in the order of the first calls")
    parser.add_argument("--write", action="store_true", help="write the table to docs/architecture.md, too")
    arguments = parser.parse_args()
    seen = {key: watch(PATHS[key]) for key in arguments.only.split(",")}
    if arguments.functions:
        for each in seen.values():
            print(functions(each), end="\n\n")
    text = table({key: Counts.of(each) for key, each in seen.items()})
    print(text)
    if arguments.write:
        if twin is None:
            raise SystemExit("the table in docs/ is that of the compiled parts, and they are missing here")
        page = ROOT / "docs" / "architecture.md"
        page.write_text(replace_part(page.read_text(), "paths", text))


if __name__ == "__main__":
    main()
