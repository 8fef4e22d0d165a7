"""`python -m tests.crash`: see the package. Exit code 1: a seed that breaks a promise; it is printed as a command."""

import argparse
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

from tests.crash.lives import play

SEEDS = 1_000


def attempt(seed: int) -> tuple[int, str]:
    """Return the seed and what went wrong with it."""
    try:
        play(seed)
    except BaseException:  # noqa: BLE001 (whatever it is: that is what is looked for)
        return seed, traceback.format_exc()
    return seed, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="Kills and losses of power, by seeds.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many ({SEEDS})")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0, help="begin no new seed after that; 0: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    os.environ["STATICFIRE_LOG_LEVEL"] = "critical"
    begin_s = time.monotonic()
    done, failed = 0, []
    seeds = iter(range(arguments.first, arguments.first + arguments.seeds))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        while not arguments.seconds or time.monotonic() - begin_s < arguments.seconds:
            batch = [seed for _, seed in zip(range(20 * arguments.jobs), seeds, strict=False)]
            if not batch:
                break
            for seed, trouble in pool.map(attempt, batch):
                done += 1
                if trouble:
                    failed.append(seed)
                    print(f"{trouble}\ncrash: repeat it: python -m tests.crash --first {seed} --seeds 1", flush=True)
    print(f"crash: {done} seeds, {len(failed)} failed in {time.monotonic() - begin_s:.0f} s: {failed[:20]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
