"""The wheel carries the tree that a checkout shows, and nothing else."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.source import ROOT

LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "results", "tests", "benchmarks")


def files_of_the_checkout() -> set[str]:
    """Return the files below staticfire/, through its links."""
    found = set()
    for folder, subfolders, names in os.walk(ROOT / "staticfire", followlinks=True):
        subfolders[:] = [name for name in subfolders if name != "__pycache__"]
        found |= {Path(folder, name).relative_to(ROOT).as_posix() for name in names if not name.startswith(".")}
    return found


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy, since a build leaves files in the folder that it builds from."""
    copy = folder / "copy"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=LEFT_OUT)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(copy)], check=True)
    (wheel,) = folder.glob("staticfire-*.whl")
    return wheel


@pytest.mark.slow
def test_wheel_has_exactly_the_files_of_the_checkout(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_wheel(tmp_path)) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == files_of_the_checkout()
