"""Watch how late a slave is, in a process of its own: `python -m benchmarks.copy_lag MASTER SLAVE`.

It prints a line when it begins, and the lags in milliseconds as JSON when its standard input ends. A lag is the time
from a response of the master until the slave has what the master had then. In the process of a load, the watcher would
wait for the load's interpreter, and if it polled without pauses, the slave would work for it.
"""

import asyncio
import json
import sys
import threading
import time

from staticfire.protocol.requests.replication import GetReplication
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool

LOOK_S = 0.01
STEP_S = 0.0005


async def lags_ms(master: str, slave: str, is_over: threading.Event) -> list[float]:
    """Return how long the slave took to have what its master had, at each look."""
    pool, found = ConnectionPool(live_machine()), []
    try:
        while not is_over.is_set():
            end = (await pool.ask(master, GetReplication())).body.end_position
            began_s = time.perf_counter()
            while (await pool.ask(slave, GetReplication())).body.end_position < end:  # noqa: ASYNC110 (another process)
                await asyncio.sleep(STEP_S)
            found.append((time.perf_counter() - began_s) * 1_000)
            await asyncio.sleep(LOOK_S)
    finally:
        await pool.close()
    return found


def main() -> None:
    """Watch until the standard input ends."""
    is_over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    print("watching", flush=True)
    print(json.dumps(asyncio.run(lags_ms(sys.argv[1], sys.argv[2], is_over))))


if __name__ == "__main__":
    main()
