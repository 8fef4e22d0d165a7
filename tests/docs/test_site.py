"""The site is built of docs/, and nothing in it leads nowhere."""

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
    assert "RocketMQ cluster on the test stand" in (tmp_path / "site" / "index.html").read_text()


def test_each_page_stands_in_the_sites_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert [page for page in pages if f": {page}\n" not in navigation] == []
    assert yaml.safe_load(f"nav:{navigation}")["nav"]
