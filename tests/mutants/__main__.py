"""`python -m tests.mutants`: finds each mutant anew and writes known.json; with --known only the seeds that it has."""

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed

from staticfire.simulation.runs.many import cores
from tests.mutants.finding import SEEDS_MAX, find, is_still_found, keep, known
from tests.mutants.mutants import MUTANTS

AT_ONCE = 8


def look_anew(names: list[str], pool: ProcessPoolExecutor) -> int:
    """Find mutants, a few seeds each in turn: the hard ones come last. Return how many weren't found."""
    results = known()
    running = {pool.submit(find, name, range(1, 1 + AT_ONCE)): (name, 1) for name in names}
    missed = 0
    while running:
        done = next(as_completed(running))
        (name, first), found = running.pop(done), done.result()
        if found is not None:
            results[name] = found
            print(f"mutants: seed {found.seed} ({found.checker}): {name}", flush=True)
            keep([found for name, found in results.items() if name in MUTANTS])
        elif first + AT_ONCE <= SEEDS_MAX:
            first += AT_ONCE
            running[pool.submit(find, name, range(first, first + AT_ONCE))] = name, first
        else:
            missed += 1
            results.pop(name, None)
            print(f"mutants: NOT FOUND within {SEEDS_MAX} seeds: {name}", flush=True)
    return missed


def look_again(names: list[str], pool: ProcessPoolExecutor) -> int:
    """Play the known seeds of mutants; return how many find nothing any more."""
    kept, missed = known(), 0
    for found, is_found in pool.map(is_still_found, [kept[name] for name in names]):
        if not is_found:
            missed += 1
            print(f"mutants: seed {found.seed} doesn't find it any more: {found.mutant}; make mutants", flush=True)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("mutants", nargs="*", help="some of them, by a part of their names; all when none is given")
    parser.add_argument("--known", action="store_true", help="only the seeds that are known to find one")
    parser.add_argument("--jobs", type=int, default=cores())
    arguments = parser.parse_args()
    there = known() if arguments.known else MUTANTS
    names = [name for name in there if not arguments.mutants or any(part in name for part in arguments.mutants)]
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        missed = look_again(names, pool) if arguments.known else look_anew(names, pool)
    print(f"mutants: {len(names)} looked for, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
