"""Builds what a release has: the sdist, the wheel of this platform, and the wheel without compiled parts.

Each build starts from a copy of the files that git knows, in a folder of another name, so that neither left-over files
nor paths are in the result.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.release.running import CheckFailed, clean_environment, run

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Release:
    """The files of a release."""

    sdist: Path
    compiled_wheel: Path
    pure_wheel: Path

    @property
    def files(self) -> list[Path]:
        return [self.sdist, self.compiled_wheel, self.pure_wheel]


def build(folder: Path) -> Release:
    """Build a release below `folder`. Raises: CheckFailed."""
    results = folder / "dist"
    for name, variables, kinds in (
        ("compiled", {"STATICFIRE_REQUIRE_COMPILED": "1"}, ("--sdist", "--wheel")),
        ("pure", {"STATICFIRE_PURE_PYTHON": "1"}, ("--wheel",)),
    ):
        source = copy_of_the_checkout(folder / name)
        environment = clean_environment(SOURCE_DATE_EPOCH=commit_date(), **variables)
        run([sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", results], source, environment)
    (sdist,), (pure,) = results.glob("*.tar.gz"), results.glob("*-py3-none-any.whl")
    (compiled,) = set(results.glob("*.whl")) - {pure}
    return Release(sdist, compiled, pure)


def copy_of_the_checkout(folder: Path) -> Path:
    """Copy the files that git knows, as they are in the work tree; links stay links."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place, follow_symlinks=False)
    return folder


def commit_date() -> str:
    """Return the time of the last commit: the date of all files of a release."""
    command = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def compare(first: Release, second: Release) -> None:
    """Check that two builds have the same bytes. Raises: CheckFailed."""
    different = [
        one.name
        for one, other in zip(first.files, second.files, strict=True)
        if one.name != other.name or digest(one) != digest(other)
    ]
    if different:
        raise CheckFailed(f"the second build of {', '.join(different)} has other bytes than the first")


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def check_texts(release: Release, folder: Path) -> None:
    """Let twine check what a package index shows. Raises: CheckFailed."""
    run([sys.executable, "-m", "twine", "check", "--strict", *release.files], folder)


def unpack_examples(release: Release, folder: Path) -> Path:
    """Return the examples of the sdist, in `folder`. Raises: CheckFailed (it has none)."""
    with tarfile.open(release.sdist) as packed:
        top = packed.getnames()[0].split("/")[0]
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none.
        packed.extractall(folder)
    examples = folder / top / "examples"
    if not examples.is_dir():
        raise CheckFailed(f"{release.sdist.name} has no examples")
    return examples
