"""`make pipeline` with fewer flights: what Spark counts is what the demo counted, and it stands on the page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, environment, one_line

pytestmark = [pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(400)]

PLOTS = ("carriers", "latency-curve", "flow", "latency-over-time", "tries", "road")
TIMEOUT_S = 350


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "examples/flights/pipeline.py", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


OVER_TIME = ("flow", "latency-over-time")


def test_the_first_flights_of_the_year_are_counted_as_the_demo_counted_them(tmp_path: Path) -> None:
    done = run("--flights", "3000", "--to", str(tmp_path))
    last = one_line("\n".join(done.stdout.splitlines()[-1:]))
    wanted = r"pipeline: flights=3000 cancelled=22 dead=\d+ checks=15 wrong=0 seconds=[\d.]+"
    assert re.fullmatch(wanted, last), done.stdout + done.stderr
    assert done.returncode == 0
    page = (tmp_path / "flights.html").read_text()
    shown = [name for name in PLOTS if f'<div class="plot" id="{name}"' in page]
    # A quick machine consumes all flights within one moment of the two pictures over time: then they aren't drawn.
    assert shown in (list(PLOTS), [name for name in PLOTS if name not in OVER_TIME])
    assert "<td>United Air Lines (UA)</td>" in page
    assert "Every number was counted twice" in page


def test_a_cluster_that_has_no_flights_is_one_line(tmp_path: Path) -> None:
    done = run("--namesrv", "127.0.0.1:1", "--to", str(tmp_path / "out"))
    assert done.returncode == 1
    assert one_line(done.stderr).startswith("pipeline: no nameserver responds")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages/letter.txt").write_text("dear")
    done = run("--flights", "10", "--to", str(tmp_path))
    assert done.returncode == 2
    assert "isn't from an earlier run" in done.stderr
    assert (tmp_path / "messages/letter.txt").exists()
