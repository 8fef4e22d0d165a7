"""The interpreters of this machine, one for each minor version that pyproject.toml names.

`python -m tools.release.pythons` prints the path of the newest.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
# A program is not enough: a shim of pyenv may select no version, and Debian's python3 may lack venv.
PROBE = "import ensurepip, ssl, sys, venv; print('.'.join(map(str, sys.version_info[:2])))"


def supported_versions() -> list[str]:
    """Return the minor versions in the classifiers, oldest first."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [found[1] for found in map(CLASSIFIER.fullmatch, classifiers) if found]


def find_python(version: str) -> Path | None:
    """Return an interpreter of a minor version that can make environments, or None."""
    return next((path for path in _candidates(version) if _is_usable(path, version)), None)


def newest_python() -> Path:
    """Return an interpreter of the newest of these minor versions that is here: this one's at least."""
    found = (find_python(version) for version in reversed(supported_versions()))
    return next((path for path in found if path is not None), Path(sys.executable))


def _candidates(version: str) -> Iterator[Path]:
    """Yield PYTHONS (paths, separated by colons), this interpreter, those on PATH, and those of pyenv and uv."""
    yield from map(Path, filter(None, os.environ.get("PYTHONS", "").split(":")))
    yield Path(sys.executable)
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    home = Path.home()
    for pattern in (f".pyenv/versions/{version}.*/bin", f".local/share/uv/python/cpython-{version}.*/bin"):
        yield from (Path(found, f"python{version}") for found in sorted(glob.glob(str(home / pattern))))


def _is_usable(python: Path, version: str) -> bool:
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == version


if __name__ == "__main__":
    print(newest_python())
