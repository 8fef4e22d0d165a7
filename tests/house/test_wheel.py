"""The wheel contains the files of a checkout, and nothing else."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.source import ROOT

LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "tests", "benchmarks")


def files_of_the_checkout() -> set[str]:
    """Return the files below staticfire/, following its links, and the module that lets Spark find the data source."""
    found = {"pyspark_staticfire.py"}
    for folder, subfolders, names in os.walk(ROOT / "staticfire", followlinks=True):
        subfolders[:] = [name for name in subfolders if name != "__pycache__"]
        found |= {Path(folder, name).relative_to(ROOT).as_posix() for name in names if not name.startswith(".")}
    return found


def copy_of_the_checkout(folder: Path) -> Path:
    """Return a copy, since a build leaves files in its source folder."""
    return shutil.copytree(ROOT, folder / "copy", symlinks=True, ignore=LEFT_OUT)


def build_sdist(checkout: Path, folder: Path) -> Path:
    program = "import sys, setuptools.build_meta; setuptools.build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=checkout, check=True, capture_output=True)
    (sdist,) = folder.glob("staticfire-*.tar.gz")
    return sdist


def files_of_wheel(source: Path, folder: Path) -> set[str]:
    """Build a wheel from a checkout or an sdist; return the files in it."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("staticfire-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        return {name for name in packed.namelist() if ".dist-info/" not in name}


@pytest.mark.slow
def test_wheel_has_exactly_the_files_of_the_checkout(tmp_path: Path) -> None:
    assert files_of_wheel(copy_of_the_checkout(tmp_path), tmp_path) == files_of_the_checkout()


@pytest.mark.slow
def test_wheel_built_from_an_sdist_has_the_same_files(tmp_path: Path) -> None:
    sdist = build_sdist(copy_of_the_checkout(tmp_path), tmp_path)
    assert files_of_wheel(sdist, tmp_path) == files_of_the_checkout()
