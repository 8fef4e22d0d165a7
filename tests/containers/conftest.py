"""The image, built once, and the project of docker-compose.yml, brought up once for a file's tests."""

import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.commands import ROOT
from tests.containers.docker import IMAGE, Project, docker

BUILD_TIMEOUT_S = 600


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of this checkout, in place of the one of the last time. Workers of a run build it one after another."""
    with (tmp_path_factory.getbasetemp().parent / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        last = docker("images", "--quiet", IMAGE).strip()
        subprocess.run(
            ["docker", "build", "--quiet", "--network", "host", "--tag", IMAGE, str(ROOT)],
            check=True, timeout=BUILD_TIMEOUT_S, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        if last and docker("images", "--quiet", IMAGE).strip() != last:
            docker("rmi", last, check=False)
    return IMAGE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that other users may read: containers don't run as we do."""
    folder = tmp_path_factory.mktemp("compose")
    for parent in (folder, *folder.parents):
        if os.stat(parent).st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o755)
        if parent == tmp_path_factory.getbasetemp().parent:
            break
    return folder


def running(
    name: str, folder: Path, text: str, network: str = "default", files: Mapping[str, str] | None = None
) -> Iterator[Project]:
    """Bring a project up for a module's tests, and down whatever happens."""
    project = Project(f"{name}-{os.getpid()}", folder, text, network, files)
    try:
        project.up()
        yield project
    finally:
        project.remove()
