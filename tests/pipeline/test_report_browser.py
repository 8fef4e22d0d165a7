"""The page in a real browser, without a network: every plot is drawn, in the colours of the reader's theme."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.pipeline.report import KeyFigure, Page, Plot, Section, write_page
from staticfire.pipeline.report.consumption import consumption_page
from staticfire.pipeline.report.sweeping import sweep_page
from tests.pipeline.findings import FINDINGS
from tests.pipeline.test_sweep_plan import figures

pytestmark = [pytest.mark.foreign, pytest.mark.row("E4")]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=20000",
)  # fmt: skip
FIRST_SERIES = {"light": "rgb(37, 99, 201)", "dark": "rgb(110, 168, 255)"}
SCHEME = {"dark": "0", "light": "1"}
TIMEOUT_S = 100


def dom_of(page: Path, folder: Path, theme: str) -> str:
    """Return the page's elements after its scripts have run."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert browser is not None, f"none of {', '.join(BROWSERS)} is installed; `make test-report` does that"
    profile = f"--user-data-dir={folder / 'profile'}"
    theme = f"--blink-settings=preferredColorScheme={SCHEME[theme]}"
    command = [browser, *QUIET, profile, theme, "--window-size=1200,900", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pages() -> dict[str, Page]:
    heatmap = {"type": "heatmap", "x": ["Jan", "Feb"], "y": ["AA"], "z": [[1, 2]], "colorscale": "@scale"}
    more = Section("More", "", [Plot("heatmap", "A heatmap", "Drawn onto a canvas.", [heatmap])])
    about = consumption_page(FINDINGS, "127.0.0.1:9876", "")
    return {
        "consumption": replace(about, figures=[KeyFigure("stored", "101")], sections=[*about.sections, more]),
        "sweep": sweep_page(figures(), "shop.py", 0.1667, ""),
    }


@pytest.mark.parametrize("name", ["consumption", "sweep"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_plot_is_drawn_in_the_colours_of_the_theme(tmp_path: Path, theme: str, name: str) -> None:
    page = pages()[name]
    write_page(page, tmp_path / "page.html")
    dom = dom_of(tmp_path / "page.html", tmp_path, theme)
    assert f'data-drawn="{len(page.plots)}"' in dom
    for plot in page.plots:
        place = re.search(rf'<div class="plot[^"]*" id="{plot.name}".*?(?=<figcaption>)', dom, re.DOTALL)
        assert place is not None
        assert 'class="main-svg"' in place[0], plot.name
    assert f"stroke: {FIRST_SERIES[theme]}" in dom
