"""The version matches CHANGELOG.md."""

import re
import tomllib
from importlib.metadata import version

from packaging.version import Version

from tests.house.source import ROOT

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
