"""The version matches CHANGELOG.md; the release check notices what it is there for."""

import re
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from tests.house.source import ROOT
from tools.release.building import Release, compare
from tools.release.installing import COMPILED, installations
from tools.release.pythons import find_python, newest_python, supported_versions
from tools.release.running import CheckFailed, clean_environment, run

RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)


def test_the_version_is_the_last_release_or_comes_after_it() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    last = Version(RELEASE.findall(text)[0][0])
    unreleased = text.split("## [Unreleased]\n")[1].split("\n## [")[0].strip()
    if unreleased:
        assert Version(declared).is_devrelease, "there are changes since the last release: the version is <next>.dev0"
        assert Version(declared) > last
    else:
        assert Version(declared) == last


def test_releases_stand_newest_first() -> None:
    releases = [(Version(number), date) for number, date in RELEASE.findall((ROOT / "CHANGELOG.md").read_text())]
    assert releases == sorted(releases, reverse=True)


def test_the_installed_version_is_the_declared_one() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version("staticfire") == declared, "run `make setup`"


def written(folder: Path, text: str) -> Release:
    folder.mkdir()
    files = [folder / name for name in ("a.tar.gz", "a-cp311.whl", "a-py3-none-any.whl")]
    for file in files:
        file.write_text(text)
    return Release(*files)


def test_two_builds_that_differ_in_one_byte_are_noticed(tmp_path: Path) -> None:
    first, second, third = (written(tmp_path / name, text) for name, text in (("1", "x"), ("2", "x"), ("3", "y")))
    compare(first, second)
    with pytest.raises(CheckFailed, match=re.escape("the second build of a-cp311.whl has other bytes")):
        compare(first, replace(second, compiled_wheel=third.compiled_wheel))


def test_the_interpreters_are_those_of_the_classifiers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert this in supported_versions()
    assert find_python(this) is not None
    broken = tmp_path / "python3.99"  # Such as a shim of a version that isn't installed.
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_python("3.99") is None


def test_the_newest_interpreter_is_of_the_last_version_that_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PATH", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert newest_python() == Path(sys.executable)
    *_, version = supported_versions()
    newer = tmp_path / f"python{version}"
    newer.write_text(f"#!/bin/sh\necho {version}\n")
    newer.chmod(0o755)
    is_this = version == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert newest_python() == (Path(sys.executable) if is_this else newer)


def test_an_environment_without_the_checkout_and_a_failing_command_with_its_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("STATICFIRE_PURE_PYTHON", "1")
    assert not {"PYTHONPATH", "STATICFIRE_PURE_PYTHON"} & set(clean_environment())
    with pytest.raises(CheckFailed, match=r"exit code 3\nwhy$"):
        run(["sh", "-c", "echo why; exit 3"], tmp_path)


def test_only_the_python_of_the_build_gets_the_compiled_wheel(tmp_path: Path) -> None:
    release = written(tmp_path / "1", "x")
    for is_build_python, count in ((True, 2), (False, 1)):
        found = installations(release, is_build_python)
        assert [each.says for each in found].count(COMPILED) == count
