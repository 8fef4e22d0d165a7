"""How seeds are written: `4711@3f9a2c`, the number and a version.

The same number gives the same run only with the same program, workload and duration. The version is a digest of these.
"""

import hashlib
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from staticfire.protocol.errors import UsageError
from staticfire.simulation.workload.description import Workload
from staticfire.simulation.workload.loading import NotMade, WorkloadMaker
from staticfire.simulation.world.chance import source_of_chance

DIGITS = 6
PACKAGES = ("protocol", "runtime", "nameserver", "broker", "client", "faults", "simulation")
SEED_MAX = 2**63 - 1


def seed_text(seed: int, path: str, hours: float, changes: Mapping[str, str] | None = None) -> str:
    """Return a seed as it is shown to users."""
    return f"{seed}@{version_of(path, hours, changes)}"


def again_command(seed: int, path: str, hours: float, changes: Mapping[str, str]) -> str:
    """Return the command that repeats a seed."""
    words = ["staticfire simulate", "--seed", seed_text(seed, path, hours, changes), "--hours", repr(hours)]
    words += [f"--set {shlex.quote(f'{name}={value}')}" for name, value in changes.items()]
    return " ".join([*words, *([shlex.quote(path)] if path else [])])


def made_for(make: WorkloadMaker, seed: int) -> Workload:
    """Return the workload of a seed. Raises: UsageError."""
    try:
        return make(source_of_chance(seed, "workload"))
    except NotMade as error:
        raise NotMade(f"{error} (for seed {seed})") from None


def read_seed(text: str) -> tuple[int, str]:
    """Return the number of a seed and its version, empty if there is none. Raises: UsageError."""
    number, _, version = text.partition("@")
    if not number.isascii() or not number.isdigit() or int(number) > SEED_MAX:
        raise UsageError(f"{text!r} is not a seed; write a number, or a seed that a run has printed, like 4711@3f9a2c")
    return int(number), version


def version_of(path: str, hours: float, changes: Mapping[str, str] | None = None) -> str:
    """Return the version: a digest of the program, the workload file with changes, and the duration of a run."""
    digest = hashlib.blake2b(_program_digest(), digest_size=16)
    digest.update(Path(path).read_bytes() if path else b"")
    digest.update(repr(float(hours)).encode())
    if changes:
        digest.update(repr(sorted(changes.items())).encode())
    return digest.hexdigest()[:DIGITS]


@cache
def _program_digest() -> bytes:
    """Return a digest of the files of PACKAGES."""
    digest = hashlib.blake2b(digest_size=16)
    top = Path(__file__).resolve().parent.parent.parent
    for package in PACKAGES:
        for path in sorted((top / package).rglob("*.py")):
            digest.update(path.relative_to(top).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.digest()
