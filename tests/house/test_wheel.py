"""The wheel contains the files of a checkout, and nothing else; package indexes get links that lead somewhere."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path
from types import ModuleType

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


def build_wheel(source: Path, folder: Path, **variables: str) -> Path:
    """Build a wheel from a checkout or an sdist."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    environment = {name: text for name, text in os.environ.items() if name != "STATICFIRE_PURE_PYTHON"}
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True, env={**environment, **variables})
    (wheel,) = folder.glob("staticfire-*.whl")
    return wheel


def files_of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as packed:
        return {name for name in packed.namelist() if ".dist-info/" not in name}


def setup_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_script", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_wheel_has_exactly_the_files_of_the_checkout(tmp_path: Path) -> None:
    assert files_of_wheel(build_wheel(copy_of_the_checkout(tmp_path), tmp_path)) == files_of_the_checkout()


@pytest.mark.slow
def test_wheel_built_from_an_sdist_has_the_same_files_and_the_sdist_has_the_examples(tmp_path: Path) -> None:
    sdist = build_sdist(copy_of_the_checkout(tmp_path), tmp_path)
    with tarfile.open(sdist) as packed:
        names = {name.split("/", 1)[1] for name in packed.getnames() if "/" in name}
    assert {"examples/testing/test_orders.py", "examples/simulations/shop.py", "CHANGELOG.md", "SECURITY.md"} <= names
    assert not [name for name in names if re.search(r"__pycache__|\.so$|node_modules|/target/", name)]
    assert files_of_wheel(build_wheel(sdist, tmp_path)) == files_of_the_checkout()


@pytest.mark.slow
def test_a_wheel_without_compiled_parts_fits_every_python(tmp_path: Path) -> None:
    wheel = build_wheel(copy_of_the_checkout(tmp_path), tmp_path, STATICFIRE_PURE_PYTHON="1")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert files_of_wheel(wheel) == {name for name in files_of_the_checkout() if not name.endswith(".so")}
    with zipfile.ZipFile(wheel) as packed:
        (metadata,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        text = message_from_bytes(packed.read(metadata)).get_payload()
    links = re.findall(r"\]\(([^)\s]+)\)", str(text))
    assert links
    assert [link for link in links if not link.startswith(("https://", "http://", "#"))] == []


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("[Time](docs/time.md#clock), [x](https://a.b)", "[Time](FILES/docs/time.md#clock), [x](https://a.b)"),
        ("![A message](docs/terminal.svg)", "![A message](RAW/docs/terminal.svg)"),
        ("[![ci](docs/ci.svg)](docs/ci.md)", "[![ci](RAW/docs/ci.svg)](FILES/docs/ci.md)"),
        ('<img src="docs/a.png"> <a href="LICENSE">', '<img src="RAW/docs/a.png"> <a href="FILES/LICENSE">'),
        ("[below](#install)\n```\ncalls[0](argument)\n```\n", "[below](#install)\n```\ncalls[0](argument)\n```\n"),
    ],
)
def test_links_of_the_readme_become_absolute(text: str, rewritten: str) -> None:
    script = setup_script()
    for version, tag in (("1.0.0", "v1.0.0"), ("1.1.0.dev0", "main")):
        files, raw = f"{script.REPOSITORY}/blob/{tag}", f"{script.RAW_FILES}/{tag}"
        assert script.absolute_links(text, version) == rewritten.replace("FILES", files).replace("RAW", raw)
