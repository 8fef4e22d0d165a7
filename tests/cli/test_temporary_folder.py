"""Temporary folders go with their cluster, or with the next one if its process had no time for that."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from staticfire import Cluster
from staticfire.launch import temporary_folder
from staticfire.launch.temporary_folder import PREFIX, remove_abandoned

PROGRAM = """
import os, signal
from staticfire import Cluster
with Cluster() as cluster:
    print(cluster.directory, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, in these tests; any age will do."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary_folder, "ABANDONED_S", 0.0)
    return tmp_path


def test_what_a_killed_program_has_left_goes_with_the_next_cluster(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGTERM
    left = done.stdout.strip()
    assert os.path.isdir(left)
    with Cluster() as cluster:
        assert os.listdir(folder) == [os.path.basename(cluster.directory)]
    assert os.listdir(folder) == []


def test_what_a_client_still_has_stays(folder: Path) -> None:
    with Cluster() as first, Cluster() as second:
        remove_abandoned()
        assert sorted(os.listdir(folder)) == sorted(os.path.basename(one.directory) for one in (first, second))


def test_what_isnt_a_clusters_stays(folder: Path) -> None:
    (folder / "staticfire-notes").mkdir()
    (folder / f"{PREFIX}file").write_text("")
    (folder / f"{PREFIX}link").symlink_to(folder / "staticfire-notes")
    remove_abandoned()
    assert len(os.listdir(folder)) == 3


def test_what_was_made_a_moment_ago_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_folder, "ABANDONED_S", 60.0)
    (folder / f"{PREFIX}new").mkdir()
    remove_abandoned()
    assert os.listdir(folder) == [f"{PREFIX}new"]
