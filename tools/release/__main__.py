"""The steps of `make release-check`, and of its short form `make test-release`."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

from tools.release.building import ROOT, Release, build, check_texts, compare, unpack_examples
from tools.release.installing import COMPILED, PURE, Installation, install, installations
from tools.release.pythons import find_python, supported_versions
from tools.release.running import CheckFailed
from tools.release.trying import try_out, try_spark

THIS_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


class Steps:
    """Runs steps in folders of their own, and counts their results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def run(self, name: str, step: Callable[[Path], None]) -> None:
        """Run one step in an empty folder, which is removed afterwards."""
        place = Path(tempfile.mkdtemp(dir=self.folder))
        started = monotonic()
        try:
            step(place)
        except CheckFailed as error:
            self.failed += 1
            print(f"{name}: FAILED\n{error}", flush=True)
        else:
            self.passed += 1
            print(f"{name}: ok ({monotonic() - started:.0f} s)", flush=True)
        finally:
            shutil.rmtree(place)

    def skip(self, name: str, reason: str) -> None:
        """Print what isn't checked here, and why."""
        self.skipped += 1
        print(f"{name}: skipped, {reason}", flush=True)


def main() -> int:
    """Run the steps; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--short", action="store_true", help="one Python, no Spark, no editable install")
    is_short = parser.parse_args().short
    with tempfile.TemporaryDirectory(prefix="staticfire-release-") as folder:
        steps = Steps(Path(folder))
        releases: list[Release] = []
        steps.run("two builds", lambda _: releases.extend(build_twice(steps.folder)))
        if releases:
            first, second = releases
            check(steps, first, second, is_short)
    print(f"{steps.passed} passed, {steps.failed} failed, {steps.skipped} skipped")
    return 1 if steps.failed else 0


def build_twice(folder: Path) -> list[Release]:
    """Build in two folders at the same time. Raises: CheckFailed."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(build, (folder / "first", folder / "again")))


def check(steps: Steps, first: Release, second: Release, is_short: bool) -> None:
    """Check two builds, and install the first one."""
    steps.run("both builds have the same bytes", lambda _: compare(first, second))
    steps.run("twine check --strict", lambda place: check_texts(first, place))
    found: list[Path] = []
    steps.run("examples in the sdist", lambda _: found.append(unpack_examples(first, steps.folder)))
    if not found:
        return
    [examples] = found
    if is_short:
        wheel = Installation("py3-none-any wheel", first.pure_wheel, has_compiler=False, says=PURE)
        return try_installation(steps, wheel, THIS_VERSION, Path(sys.executable), examples)
    pythons = {version: find_python(version) for version in supported_versions()}
    steps.run("a supported Python", lambda _: check_any(pythons))
    for version, python in pythons.items():
        if python is None:
            steps.skip(f"Python {version}", "there is none here (PYTHONS=/path/to/python names one)")
            continue
        for installation in installations(first, is_build_python=version == THIS_VERSION):
            try_installation(steps, installation, version, python, examples)
    check_editable(steps, examples)
    check_spark(steps, first)


def check_any(pythons: Mapping[str, Path | None]) -> None:
    """Raises: CheckFailed (no supported version is here)."""
    if not any(pythons.values()):
        raise CheckFailed(f"none of Python {', '.join(pythons)} is here")


def try_installation(steps: Steps, installation: Installation, version: str, python: Path, examples: Path) -> None:
    """Install in an empty environment, and use what is installed."""
    name = f"Python {version}, {installation.name}"
    steps.run(name, lambda place: try_out(install(installation, python, place), examples, place))


def check_editable(steps: Steps, examples: Path) -> None:
    """Use the editable install of `make setup`, from another folder."""
    programs = ROOT / ".venv" / "bin"
    steps.run("editable install", lambda place: try_out(programs, examples, place))


def check_spark(steps: Steps, release: Release) -> None:
    """Run a program by spark-submit, with the wheel and with the editable install."""
    if shutil.which("java") is None:
        return steps.skip("spark-submit", "there is no Java")
    wheel = Installation("compiled wheel", release.compiled_wheel, has_compiler=False, says=COMPILED)
    python = Path(sys.executable)
    steps.run("spark-submit, wheel", lambda place: try_spark(install(wheel, python, place, "[spark]"), place))
    steps.run("spark-submit, editable install", lambda place: try_spark(ROOT / ".venv" / "bin", place))


if __name__ == "__main__":
    sys.exit(main())
