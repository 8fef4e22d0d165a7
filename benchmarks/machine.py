"""The machine: cores, CPU time and memory of processes, and the load of other programs meanwhile. Linux only.

The server runs on the first core, the load generator on the last one. CPU time is that of the kernel's scheduler
(schedstat), in nanoseconds, for all threads of a process.
"""

import os
import platform
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from zlib import crc32

_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = _CORES[0]
LOAD_CORE = _CORES[-1]
ALL_CORES = set(_CORES)

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Columns of the first line of /proc/stat: idle, iowait.
_IDLE_COLUMNS = (3, 4)
QUIET_CORES = 0.15
QUIET_WAIT_S_MAX = 5.0
QUIET_LOOK_S = 0.2
# The value of `crc32_ns` on the machine where the goals were set. It measures the standard library, so changes of
# staticfire don't affect it.
GOALS_CRC32_NS = 266


def pin(pid: int, core: int) -> None:
    """Pin a process that has one thread to a core. Threads that it starts later are pinned, too."""
    os.sched_setaffinity(pid, {core})


def unpin(pid: int) -> None:
    """Let all threads of a process run on every core."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), ALL_CORES)


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue  # The thread has just ended.
    return total


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return _kib(f"/proc/{pid}/status", "VmRSS:") / 1024


def anonymous_mib(pid: int) -> float:
    """Return the anonymous resident memory of a process: without pages of files, which the kernel can reclaim."""
    return _kib(f"/proc/{pid}/status", "RssAnon:") / 1024


def pss_mib(pid: int) -> float:
    """Return the memory of a process. Shared memory is divided by the number of processes that share it."""
    return _kib(f"/proc/{pid}/smaps_rollup", "Pss:") / 1024


def _kib(path: str, name: str) -> int:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise LookupError(f"{path} has no {name}")


def descendants(pid: int) -> Iterable[tuple[int, str]]:
    """Yield the descendants of a process, with their command lines."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child, Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            yield from descendants(child)


class Meter:
    """Measures CPU time while it runs: of the servers, of this process, and of all others (in cores)."""

    def __init__(self, *pids: int) -> None:
        """`pids`: the servers. This process is measured, too."""
        self._pids = pids
        self._started = time.perf_counter()
        self._busy_s = _busy_s()
        self._server_ns = self._servers()
        self._own_ns = cpu_ns(os.getpid())
        self.seconds = 0.0
        self.server_s = 0.0
        self.foreign_cores = 0.0

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self._started
        self.server_s = (self._servers() - self._server_ns) / 1e9
        own_s = (cpu_ns(os.getpid()) - self._own_ns) / 1e9
        foreign_s = _busy_s() - self._busy_s - self.server_s - own_s
        self.foreign_cores = max(0.0, foreign_s / self.seconds)

    def _servers(self) -> int:
        return sum(cpu_ns(pid) for pid in self._pids)


def _busy_s() -> float:
    columns = [int(column) for column in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(columns) - sum(columns[column] for column in _IDLE_COLUMNS)) * _TICK_S


def wait_until_quiet() -> float:
    """Wait, but not for long, until other programs use little CPU; return the number of cores that they use."""
    started = time.perf_counter()
    while True:
        meter = Meter()
        time.sleep(QUIET_LOOK_S)
        meter.stop()
        if meter.foreign_cores < QUIET_CORES or time.perf_counter() - started > QUIET_WAIT_S_MAX:
            return meter.foreign_cores


def touch_memory(folder: str, mebibytes: int) -> None:
    """Use memory for the disk cache once, and release it.

    A virtual machine gets each page from its host on first use, which costs more than storing a message. Without this,
    that would be measured instead of the broker.
    """
    block = bytes(1024 * 1024)
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(mebibytes):
            file.write(block)


def describe() -> dict[str, object]:
    """Return the facts that are needed to compare figures."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model,
        "cores": len(_CORES),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def crc32_ns() -> float:
    """Return the time that this core needs now for the CRC-32 of 1 KiB: the median of many.

    The speed of virtual cores depends on their neighbours: it changes by a factor of two between days and minutes.
    """
    block, times = bytes(1024), []
    for _ in range(50):
        started = time.perf_counter_ns()
        for _ in range(100):
            crc32(block)
        times.append((time.perf_counter_ns() - started) / 100)
    return median(times)
