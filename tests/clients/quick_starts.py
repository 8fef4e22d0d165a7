"""The programs of docs/clients-5x.md, run as they stand there, one after the other, against one `staticfire up`.

So are its commands. What is changed is the address, and only where somebody else has RocketMQ's ports: the programs
then get the endpoint's real one.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.driving import Outcome
from tests.clients.toolchains import CLIENTS, HERE, ClientUnavailable, run

ROOT = HERE.parent.parent
DOCUMENT = ROOT / "docs" / "clients-5x.md"
ENDPOINT = "127.0.0.1:8081"
UP = [sys.executable, "-m", "staticfire", "up"]
OTHER_PORTS = [*("--namesrv-port", "0"), *("--broker-port", "0"), *("--control-port", "0"), *("--grpc-port", "0")]
EXPECTED = "consumed: paid"
PROGRAM_S_MAX = 120
LANGUAGES = {"java": "java5", "python": "python5", "js": "node5", "go": "go5"}
"""The fences of the document, and whose toolchain runs what is in them."""


def blocks(text: str) -> dict[str, str]:
    """Return the program of each language, and the commands under the empty name."""
    return dict(re.findall(r"^```(\w*)\n(.*?)^```$", text[text.index("\nAs with RocketMQ") :], re.M | re.S))


def quick_starts(wanted: list[str]) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Run the programs whose toolchains are there; return how each went, and why others weren't run."""
    found = blocks(DOCUMENT.read_text())
    outcomes: dict[str, Outcome] = {}
    unavailable: dict[str, str] = {}
    names = {fence: name for fence, name in LANGUAGES.items() if not wanted or any(part in name for part in wanted)}
    if not names:
        return outcomes, unavailable
    with tempfile.TemporaryDirectory(prefix="staticfire-quick-") as folder, _up(Path(folder)) as addresses:
        for line in found[""].splitlines():
            _command(line, addresses)
        for fence, name in names.items():
            started = time.monotonic()
            try:
                program = _prepared(fence, name, found[fence].replace(ENDPOINT, addresses["ROCKETMQ_ENDPOINT"]), folder)
            except ClientUnavailable as error:
                unavailable[f"quick start of {name}"] = str(error)
                continue
            outcomes[name] = _ran(program, folder, started)
    return outcomes, unavailable


def _ran(program: list[str], folder: str, started: float) -> Outcome:
    try:
        done = subprocess.run(
            program, cwd=folder, env={**os.environ, "HOME": folder}, capture_output=True, text=True,
            timeout=PROGRAM_S_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome("failed", f"it has not ended within {PROGRAM_S_MAX} s")
    is_fine = done.returncode == 0 and EXPECTED in done.stdout
    said = "\n".join([f"it ended with {done.returncode}", *(done.stdout + done.stderr).splitlines()[-12:]])
    return Outcome("ok" if is_fine else "failed", "" if is_fine else said, int((time.monotonic() - started) * 1000))


def _command(line: str, addresses: dict[str, str]) -> None:
    """Run a command of the document. Raises: CalledProcessError."""
    words = line.split("#")[0].split()
    if words:
        program, *arguments = words
        assert program == "staticfire", line
        subprocess.run([sys.executable, "-m", program, *arguments], env={**os.environ, **addresses}, check=True)


@contextmanager
def _up(folder: Path) -> Iterator[dict[str, str]]:
    """Run `staticfire up`; give the addresses that it prints."""
    for ports in ([], OTHER_PORTS):
        process = subprocess.Popen(
            [*UP, *ports, "--dir", str(folder / "store")], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("ready "):
                    yield dict(word.split("=", 1) for word in line.split()[1:])
                    return
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    raise SystemExit("`staticfire up` doesn't start, on whatever ports")


def _prepared(fence: str, name: str, program: str, folder: str) -> list[str]:
    """Write a program where its language wants it; return what runs it. Raises: ClientUnavailable."""
    client = next(one for one in CLIENTS if one.name.startswith(f"{name} "))
    command = client.command()
    return PREPARATIONS[fence](command, program, Path(folder))


def _java(command: list[str], program: str, folder: Path) -> list[str]:
    (folder / "QuickStart.java").write_text(program)
    return ["java", f"-Duser.home={folder}", "-cp", command[command.index("-cp") + 1], str(folder / "QuickStart.java")]


def _python(command: list[str], program: str, folder: Path) -> list[str]:
    (folder / "quick_start.py").write_text(program)
    return [command[0], str(folder / "quick_start.py")]


def _node(command: list[str], program: str, folder: Path) -> list[str]:
    modules = Path(command[1]).parent / "node_modules"
    (folder / "quick_start.js").write_text(program)
    (folder / "node_modules").symlink_to(modules)
    return ["node", str(folder / "quick_start.js")]


def _go(command: list[str], program: str, folder: Path) -> list[str]:
    module = folder / "go"
    module.mkdir()
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go5" / name, module)
    (module / "main.go").write_text(program)
    run(["go", "build", "-o", str(folder / "quick_start"), "."], module, {"GOFLAGS": "-mod=mod"})
    return [str(folder / "quick_start")]


PREPARATIONS: dict[str, Callable[[list[str], str, Path], list[str]]] = {
    "java": _java,
    "python": _python,
    "js": _node,
    "go": _go,
}
