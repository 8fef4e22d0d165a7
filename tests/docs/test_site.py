"""The site is built from docs/, and each of its links leads to a page."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.cli.commands import ROOT


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    start = (tmp_path / "site" / "index.html").read_text()
    assert "throwaway RocketMQ cluster for your tests" in start
    assert "terminal.svg" in start, "the picture at the start"
    assert 'href="decisions/"' in start, "the list of decisions"
    api = (tmp_path / "site" / "api" / "index.html").read_text()
    assert "Create a topic on every broker" in api, "a method that Cluster takes over, with its docstring"


def test_each_page_is_in_the_sites_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert [page for page in pages if f": {page}\n" not in navigation] == []
    assert yaml.safe_load(f"nav:{navigation}")["nav"]
