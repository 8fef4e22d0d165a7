"""Try all programs of the catalogue: the seed that finds each mistake, and the fixed program over many seeds.

python examples/chaos/all.py                         # about 20 minutes
python examples/chaos/all.py --seeds 50 --fixed not_idempotent commit_first
"""

import argparse
import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="these programs only")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--fixed", action="store_true", help="the fixed programs")
    parser.add_argument("--short", action="store_true", help="only the kinds of faults of the short test")
    flags = parser.parse_args()
    catalogue = tomllib.loads((HERE / "catalogue.toml").read_text("utf-8"))
    names = flags.names or list(catalogue)
    results = [tried(name, catalogue[name], flags) for name in names]
    return 0 if all(results) else 1


def tried(name: str, entry: dict[str, Any], flags: argparse.Namespace) -> bool:
    """Try one program; print a line; return whether the result is the expected one."""
    began = time.monotonic()
    command = [sys.executable, "-m", "staticfire", "chaos", "--json", "--no-shrink", "--weather", entry["weather"]]
    command += ["--each", entry["each"]] if "each" in entry else []
    command += ["--only", entry["only"]] if flags.short and "only" in entry else []
    program = ["--", sys.executable, str(HERE / f"{name}.py"), *(["--fixed"] if flags.fixed else [])]
    if flags.fixed:
        lines = runs([*command, "--seeds", str(flags.seeds), *program])
        broken = [line for line in lines if line.get("broken") and line["run"] != "all"]
        print(
            f"{name}: {len(broken)} false alarms in {flags.seeds} seeds, {time.monotonic() - began:.0f} s", flush=True
        )
        for line in broken:
            print(json.dumps(line), flush=True)
        return not broken and lines[-1]["run"] == "all"
    for line in runs([*command, "--seeds", str(flags.seeds), "--until-broken", *program]):
        promises = {one["promise"] for one in line["broken"]} if line["run"] != "all" else set()
        if promises:
            where = f"seed {line['seed']} of {entry['weather']}" if line["run"] == "seed" else "calm weather"
            print(
                f"{name}: found in {where}: {', '.join(sorted(promises))}, {time.monotonic() - began:.0f} s", flush=True
            )
            return entry["promise"] in promises and ("is_found_in_calm" in entry) == (line["run"] == "calm")
    print(f"{name}: not found in {flags.seeds} seeds", flush=True)
    return False


def runs(command: list[str]) -> list[dict[str, Any]]:
    """Run a command that prints JSON lines; return them."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


if __name__ == "__main__":
    sys.exit(main())
