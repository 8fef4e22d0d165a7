"""The catalogue of mistakes in examples/chaos: `staticfire chaos` finds each, and the fixed programs are right.

Each program is tried with the kinds of faults that the catalogue names. `python examples/chaos/all.py` tries all kinds,
over many seeds.
"""

import functools
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.commands import ROOT, command, environment
from tests.clients.toolchains import BRING_TIMEOUT_S, CACHE, HERE as CLIENTS, node, python5

HERE = ROOT / "examples" / "chaos"
CATALOGUE: dict[str, dict[str, Any]] = tomllib.loads((HERE / "catalogue.toml").read_text("utf-8"))
SEEDS_MAX = 6
FOREIGN = ["not_idempotent", "swallowed", "status_ignored"]
RUN_TIMEOUT_S = 240

pytestmark = [pytest.mark.row("S10"), pytest.mark.timeout(BRING_TIMEOUT_S + 600)]


def tried(name: str, program: Sequence[str], seeds: Sequence[str], topics: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run a program of the catalogue in calm weather and under seeds; return what was printed about each run."""
    entry = CATALOGUE[name]
    flags = ["--json", "--no-shrink", "--weather", entry["weather"], *seeds]
    flags += ["--each", entry["each"]] if "each" in entry else []
    flags += ["--only", entry["only"]] if "only" in entry else []
    flags += [word for topic in topics for word in ("--topic", topic)]
    done = subprocess.run(
        command("chaos", *flags, "--", *program),
        capture_output=True, text=True, timeout=RUN_TIMEOUT_S, cwd=ROOT, env=environment(), check=False,
    )  # fmt: skip
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.stderr
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in lines if line["run"] != "all"]


def is_found_and_fixed(name: str, program: Sequence[str], topics: Sequence[str] = ()) -> None:
    """One of the first seeds, mostly the first one, finds the mistake. Under the same one the fixed program is right.

    The calm run is made once for each of the two.
    """
    *_, last = tried(name, program, ["--seeds", str(SEEDS_MAX), "--until-broken"], topics)
    assert CATALOGUE[name]["promise"] in {one["promise"] for one in last["broken"]}
    lines = tried(name, [*program, "--fixed"], ["--seed", str(last.get("seed", 1))], topics)
    assert [line["broken"] for line in lines] == [[], []]


def python(name: str, *flags: str) -> list[str]:
    return [sys.executable, str(HERE / f"{name}.py"), *flags]


@pytest.mark.foreign
@pytest.mark.parametrize("name", CATALOGUE)
def test_each_mistake_is_found_and_its_fixed_program_is_right(name: str) -> None:
    is_found_and_fixed(name, python(name))


class Build(NamedTuple):
    """How the programs of a language are built in a folder, and what runs one of them."""

    folder: str
    command: Sequence[str]
    built: str
    runner: Sequence[str] = ()


GO = ("go", "build", "-mod=readonly", "-o", "shop", ".")
MAVEN = ("mvn", "-q", "-B", "package")
BUILDS = {
    "go": Build("go", GO, "shop"),
    "java": Build("java", MAVEN, "target/shop.jar", ("java", "-jar")),
    "go by gRPC": Build("grpc/go", GO, "shop"),
    "java by gRPC": Build("grpc/java", MAVEN, "target/grpc-shop.jar", ("java", "-jar")),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Build the programs of a language in a copy of their folder when they are first needed; return what runs one."""
    copy = Path(shutil.copytree(HERE, tmp_path_factory.mktemp("chaos") / "chaos", dirs_exist_ok=True))

    @functools.cache
    def build(language: str) -> list[str]:
        folder, command, built, runner = BUILDS[language]
        done = subprocess.run(
            command, cwd=copy / folder, capture_output=True, text=True, timeout=BRING_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [*runner, str(copy / folder / built)]

    return build


@pytest.mark.foreign
@pytest.mark.parametrize("language", ["go", "java"])
@pytest.mark.parametrize("name", FOREIGN)
def test_mistake_is_found_in_other_languages(built: Callable[[str], list[str]], language: str, name: str) -> None:
    is_found_and_fixed(name, [*built(language), name])


@pytest.mark.foreign
@pytest.mark.parametrize("flags", [[], ["--push"]], ids=["simple consumer", "push consumer"])
def test_mistake_is_found_in_a_grpc_client(flags: list[str]) -> None:
    interpreter, _ = python5(CACHE)
    program = [interpreter, str(HERE / "grpc" / "not_idempotent.py"), *flags]
    is_found_and_fixed("not_idempotent", program, ["orders", "invoices"])


@pytest.mark.foreign
@pytest.mark.parametrize("language", ["go by gRPC", "java by gRPC"])
def test_mistake_is_found_in_a_grpc_client_in_other_languages(built: Callable[[str], list[str]], language: str) -> None:
    is_found_and_fixed("not_idempotent", built(language), ["orders", "invoices"])


@pytest.mark.foreign
def test_mistake_is_found_in_a_grpc_client_in_node(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, driver = node(CLIENTS / "node5")(CACHE)
    monkeypatch.setenv("NODE_PATH", str(Path(driver).parent / "node_modules"))
    program = ["node", str(HERE / "grpc" / "not_idempotent.js")]
    is_found_and_fixed("not_idempotent", program, ["orders", "invoices"])


def test_page_and_catalogue_have_the_same_mistakes() -> None:
    page = (ROOT / "docs" / "chaos.md").read_text("utf-8")
    missing = [name for name in CATALOGUE if f"| `{name}`: " not in page or not (HERE / f"{name}.py").exists()]
    assert missing == []
    assert len(CATALOGUE) == 15
