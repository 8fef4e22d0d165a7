"""`python -m tests.fuzz`: see the package. Exit code 1: an exception that is no ProtocolError, or memory that grew."""

import argparse
import asyncio
import gc
import os
import sys
import time
import traceback
from collections.abc import Callable

from staticfire.protocol.compiled import twin
from tests.fuzz.compiled_parts import CompiledParts
from tests.fuzz.conversations import Conversations
from tests.fuzz.corpus import CODECS
from tests.fuzz.live import attack_cluster
from tests.fuzz.reading import Reader
from tests.fuzz.records import Records
from tests.integration.fuzzing import own_mib

FRAMES = 200_000
"""Of each codec; half as many records, and a twentieth of them go through a whole cluster."""
GROWTH_MIB_MAX = 16
WARM = 0.2
# Until then caches fill up and memory is taken that stays.
TURN = 1_000
# Frames between two turns of the loop, in which cancelled timers go.


async def read_many(read: Callable[[], None], count: int) -> float:
    """Read spoilt bytes; return by how many MiB the process grew after it was warm."""
    warm_mib = 0.0
    for number in range(count):
        if number == int(count * WARM):
            gc.collect()
            warm_mib = own_mib(os.getpid())
        if number % TURN == 0:
            await asyncio.sleep(0)
        read()
    gc.collect()
    return own_mib(os.getpid()) - warm_mib


def fuzz(name: str, reader: Reader | Records | Conversations | CompiledParts, count: int) -> bool:
    """Play one kind, and say what came of it; return whether it was fine."""
    begin_s = time.monotonic()

    async def play() -> float:
        return await read_many(reader.read, count)

    try:
        growth_mib = asyncio.run(play())
    except Exception:  # noqa: BLE001 (whatever it is: that is what is looked for)
        print(f"fuzz: {name}: after {sum(reader.seen.values())} outcomes:\n{traceback.format_exc()}", flush=True)
        return False
    took_s = time.monotonic() - begin_s
    print(f"fuzz: {name}: {count} in {took_s:.0f} s, grew by {growth_mib:.1f} MiB", flush=True)
    for outcome, times in sorted(reader.seen.items()):
        print(f"        {times:>8} {outcome}")
    return growth_mib < GROWTH_MIB_MAX


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Spoilt frames and records, by the million."
    )
    parser.add_argument("--frames", type=int, default=FRAMES, help=f"of each codec ({FRAMES})")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["STATICFIRE_LOG_LEVEL"] = "error"
    outcomes = [fuzz(name, Reader(codec, arguments.seed), arguments.frames) for name, codec in CODECS.items()]
    outcomes.append(fuzz("records", Records(arguments.seed), arguments.frames // 2))
    if twin is not None:
        outcomes.append(fuzz("compiled parts", CompiledParts(twin, arguments.seed), arguments.frames))
    outcomes.append(fuzz("gRPC", Conversations(arguments.seed), arguments.frames // 10))
    outcomes.append(attack_cluster(arguments.frames // 20, arguments.seed))
    print(f"fuzz: {len(outcomes)} kinds, {outcomes.count(False)} failed")
    return 1 if False in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
