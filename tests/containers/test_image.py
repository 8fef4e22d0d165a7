"""The image: small, without tools to build with, and every program in it finds its libraries."""

import pytest

from tests.containers.docker import docker

SIZE_MAX = 150_000_000
PROGRAMS = ("pip", "pip3", "gcc", "cc", "apt-get", "dpkg", "perl")
# Which file lacks which library; programs and libraries alone, since ldd says nothing of scripts.
MISSING = (
    "find / -xdev -type f \\( -name '*.so*' -o -perm -111 \\) 2>/dev/null"
    ' | while read -r file; do ldd "$file" 2>/dev/null | grep \'not found\' | sed "s|^|$file: |"; done'
)

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(300)]


def in_image(image: str, script: str) -> list[str]:
    return docker("run", "--rm", "--entrypoint", "sh", image, "-c", script).splitlines()


def test_it_is_small(image: str) -> None:
    assert int(docker("image", "inspect", "--format", "{{.Size}}", image)) < SIZE_MAX


def test_it_runs_as_rocketmqs_user_without_tools_to_build_with(image: str) -> None:
    look = " ".join(f"command -v {program} || true;" for program in PROGRAMS)
    assert in_image(image, f"id -u; {look}") == ["3000"]


def test_programs_find_their_libraries(image: str) -> None:
    assert in_image(image, MISSING) == []


def test_what_was_removed_is_not_needed_by_commands_that_draw_tables(image: str) -> None:
    """rich draws them, and pygments, which it can load, isn't there."""
    shown = in_image(image, "staticfire run -- sh -c 'staticfire send orders hi && COLUMNS=80 staticfire topics'")
    assert any(line.startswith("orders ") for line in shown)


def test_local_times_are_those_of_tz(image: str) -> None:
    assert in_image(image, "TZ=Asia/Shanghai date +%z") == ["+0800"]
