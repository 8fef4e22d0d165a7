"""The desks as processes, and what their ledgers say."""

import asyncio
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

LOOK_S = 0.1
DESK = Path(__file__).with_name("desk.py")


@dataclass
class Desk:
    """One process with its ledger."""

    name: str
    ledger: Path
    process: asyncio.subprocess.Process
    read_bytes: int = 0


@dataclass
class Books:
    """What all ledgers say together."""

    done: Counter[str] = field(default_factory=Counter)
    """How often each flight was handled, by key."""
    failed: int = 0
    tries: Counter[int] = field(default_factory=Counter)
    """How many failures there were with each number of tries before."""
    latencies_ms: list[int] = field(default_factory=list)
    """Of flights that were handled the first time."""
    rebalances: int = 0

    def add(self, line: str) -> None:
        kind, *words = line.split(" ")
        if kind == "done":
            key, tried, latency_ms, *_ = words
            self.done[key] += 1
            if tried == "0" and self.done[key] == 1:
                self.latencies_ms.append(int(latency_ms))
        elif kind == "failed":
            self.failed += 1
            self.tries[int(words[1])] += 1
        else:
            self.rebalances += 1

    @property
    def duplicates(self) -> int:
        return self.done.total() - len(self.done)

    def latency_ms(self, part: float) -> int:
        """Return the latency that this part of the flights stayed below."""
        ordered = sorted(self.latencies_ms)
        return ordered[int((len(ordered) - 1) * part)] if ordered else 0


class Desks:
    """All desks, those that were killed included."""

    def __init__(self, namesrv: str, folder: Path) -> None:
        self._namesrv = namesrv
        self._folder = folder
        self.all: list[Desk] = []
        self.books = Books()

    async def open(self) -> Desk:
        """Start one more."""
        name = f"desk-{len(self.all) + 1}"
        ledger = self._folder / f"{name}.ledger"
        ledger.touch()
        process = await asyncio.create_subprocess_exec(sys.executable, str(DESK), self._namesrv, str(ledger))
        desk = Desk(name, ledger, process)
        self.all.append(desk)
        return desk

    async def kill(self, desk: Desk) -> None:
        """End one with SIGKILL: in mid-flight, with whatever it holds."""
        desk.process.kill()
        await desk.process.wait()

    def look(self) -> int:
        """Read what is new in the ledgers; return how many different flights are handled."""
        for desk in self.all:
            with desk.ledger.open("rb") as file:
                file.seek(desk.read_bytes)
                data = file.read()
            whole, _, _ = data.rpartition(b"\n")
            desk.read_bytes += len(whole) + 1 if whole else 0
            for line in whole.decode().split("\n") if whole else ():
                self.books.add(line)
        return len(self.books.done)

    def check(self) -> None:
        """Raise RuntimeError when a desk that wasn't killed has ended."""
        for desk in self.all:
            code = desk.process.returncode
            if code is not None and code != -signal.SIGKILL:
                raise RuntimeError(f"{desk.name} ended with exit code {code}")

    async def close(self) -> None:
        """Let all desks end in order."""
        for desk in self.all:
            if desk.process.returncode is None:
                desk.process.terminate()
        await asyncio.gather(*(desk.process.wait() for desk in self.all))
