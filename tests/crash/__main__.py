"""`python -m tests.crash`: see the package. Exit code 1: a seed that breaks a promise; it is printed as a command.

A seed that keeps all promises prints nothing, whatever its broker logged: trouble is what it is about. One that fails
prints the last lines of its broker's log; `--logs` prints all lines of all seeds as they come.
"""

import argparse
import sys
import time
import traceback
from collections import deque
from concurrent.futures import ProcessPoolExecutor

from staticfire.runtime.log import logged_to
from staticfire.simulation.runs.many import cores
from tests.crash.lives import play

SEEDS = 1_000
LINES_MAX = 40
# Of the log of a seed that failed.


def attempt(seed: int) -> tuple[int, str]:
    """Return the seed and what went wrong with it, with what its broker logged last."""
    lines: deque[str] = deque(maxlen=LINES_MAX)

    def keep(level: str, event: str, fields: dict[str, object]) -> None:
        lines.append(f"  {level} {event} " + " ".join(f"{name}={value!r}" for name, value in fields.items()))

    try:
        with logged_to(keep):
            play(seed)
    except BaseException:  # noqa: BLE001 (whatever it is: that is what is looked for)
        return seed, "\n".join([traceback.format_exc(), f"the last {LINES_MAX} lines of its log:", *lines])
    return seed, ""


def attempt_aloud(seed: int) -> tuple[int, str]:
    """The same with all that is logged on stderr."""
    try:
        play(seed)
    except BaseException:  # noqa: BLE001 (as above)
        return seed, traceback.format_exc()
    return seed, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="Kills and losses of power, by seeds.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many ({SEEDS})")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0, help="begin no new seed after that; 0: all")
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--logs", action="store_true", help="print what the brokers log, too")
    arguments = parser.parse_args()
    begin_s = time.monotonic()
    done, failed = 0, []
    seeds = iter(range(arguments.first, arguments.first + arguments.seeds))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        while not arguments.seconds or time.monotonic() - begin_s < arguments.seconds:
            batch = [seed for _, seed in zip(range(20 * arguments.jobs), seeds, strict=False)]
            if not batch:
                break
            for seed, trouble in pool.map(attempt_aloud if arguments.logs else attempt, batch):
                done += 1
                if trouble:
                    failed.append(seed)
                    print(f"{trouble}\ncrash: repeat it: python -m tests.crash --first {seed} --seeds 1", flush=True)
    print(f"crash: {done} seeds, {len(failed)} failed in {time.monotonic() - begin_s:.0f} s: {failed[:20]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
