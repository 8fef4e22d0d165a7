"""The clients: where each comes from, what it needs on this machine, and the command that runs its driver.

Everything is brought into a cache folder, once per version and driver source; a folder counts when its mark is there,
which is written last. The registries are asked through their own tools and by pinned name only.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "staticfire-clients"
BRING_TIMEOUT_S = 900
# Bringing and compiling: the first time, on a slow line.


class ClientUnavailable(Exception):
    """A client can't be had here: a toolchain is missing, or its registry didn't give it."""


@dataclass(frozen=True)
class RealClient:
    """One column of the table."""

    name: str
    tools: tuple[str, ...]
    """Programs that must be on the PATH."""
    bring: Callable[[Path], list[str]]
    """Fills a folder of the cache and returns the driver's command."""
    by_grpc: bool = False
    """Whether it is a client of RocketMQ 5, which has behaviours of its own."""
    why_no_tls: str = ""
    """Why it can't speak TLS; empty: it can."""

    def command(self) -> list[str]:
        """Return the command that runs the driver, bringing what it needs. Raises: ClientUnavailable."""
        missing = [tool for tool in self.tools if shutil.which(tool) is None]
        if missing:
            raise ClientUnavailable(f"not on the PATH: {', '.join(missing)}")
        return self.bring(CACHE)

    def access_command(self) -> list[str]:
        """Return the command that runs its program for keys and TLS, which is beside the driver. Raises: the same."""
        *before, driver = self.command()
        folder, slash, name = driver.rpartition("/")
        return [*before, f"{folder}{slash}{name.replace('driver', 'access').replace('Driver', 'Access')}"]


def filled(folder: Path, sources: tuple[Path, ...], fill: Callable[[Path], None]) -> Path:
    """Return the folder, filled anew unless that was done from these sources."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    mark = folder / ".filled"
    if not mark.exists() or mark.read_text() != digest.hexdigest():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        fill(folder)
        mark.write_text(digest.hexdigest())
    return folder


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run a tool of a toolchain. Raises: ClientUnavailable, with what it said at the end."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=BRING_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()[-8:]
        raise ClientUnavailable("\n".join([f"{' '.join(command)} ended with {done.returncode}:", *said]))


# -- Java --------------------------------------------------------------------------------------------------------------


def java(version: str, *flags: str, home: Path = HERE / "java") -> Callable[[Path], list[str]]:
    """Return what brings the client of that version from Maven Central and compiles the driver against it."""

    def bring(cache: Path) -> list[str]:
        pom, programs = home / "pom.xml", (home / "Driver.java", home / "Access.java", HERE / "Said.java")

        def jars(folder: Path) -> None:
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
            command = ["mvn", "-q", "-B", "-f", str(pom), goal, f"-DoutputDirectory={folder}"]
            run([*command, f"-Drocketmq.version={version}"], folder)

        def classes(folder: Path) -> None:
            run(["javac", "-nowarn", "-cp", f"{library}/*", "-d", str(folder), *map(str, programs)], folder)

        library = filled(cache / f"{home.name}-{version}" / "jars", (pom,), jars)
        compiled = filled(cache / f"{home.name}-{version}" / "classes", (pom, *programs), classes)
        return ["java", *flags, "-cp", f"{compiled}:{library}/*", "Driver"]

    return bring


# -- Go, Node, Python --------------------------------------------------------------------------------------------------


def go(home: Path) -> Callable[[Path], list[str]]:
    """Return what builds the driver with the module versions of go.sum."""
    sources = tuple(home / name for name in ("driver.go", "access/main.go", "go.mod", "go.sum"))

    def build(folder: Path) -> None:
        for program, package in (("driver", "."), ("access", "./access")):
            run(["go", "build", "-o", str(folder / program), package], home, {"GOFLAGS": "-mod=readonly"})

    return lambda cache: [str(filled(cache / home.name, sources, build) / "driver")]


def node(home: Path) -> Callable[[Path], list[str]]:
    """Return what installs the packages of package-lock.json beside copies of the programs, where they find them."""
    driver, access, lock, package = (
        home / name for name in ("driver.js", "access.js", "package-lock.json", "package.json")
    )

    def install(folder: Path) -> None:
        for source in (lock, package):
            shutil.copy(source, folder)
        run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)

    def bring(cache: Path) -> list[str]:
        folder = filled(cache / home.name, (lock, package), install)
        shutil.copy(driver, folder)
        shutil.copy(access, folder)
        return ["node", str(folder / "driver.js")]

    return bring


def python(_: Path) -> list[str]:
    """Use the wheel that the developer's tools bring."""
    if importlib.util.find_spec("rocketmq") is None:
        raise ClientUnavailable("there is no `rocketmq` wheel for this machine")
    return [sys.executable, str(HERE / "python" / "driver.py")]


def python5(cache: Path) -> list[str]:
    """Install rocketmq-python-client into an environment of its own: its package is called like the other one's."""
    requirements = HERE / "python5" / "requirements.txt"

    def install(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder)], folder)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        run([*pip, "-r", str(requirements)], folder)

    folder = filled(cache / "python5", (requirements,), install)
    return [str(folder / "bin" / "python"), str(HERE / "python5" / "driver.py")]


CLIENTS = (
    RealClient("java 5.3.3", ("java", "javac", "mvn"), java("5.3.3")),
    RealClient("java 5.3.3 binary", ("java", "javac", "mvn"), java("5.3.3", "-Drocketmq.serialize.type=ROCKETMQ")),
    RealClient("java 4.9.8", ("java", "javac", "mvn"), java("4.9.8")),
    RealClient("go 2.1.2", ("go",), go(HERE / "go"), why_no_tls="the client has no TLS"),
    RealClient("node 3.12.0", ("node", "npm"), node(HERE / "node"), why_no_tls="the client has no TLS"),
    RealClient("python 0.4.4", (), python, why_no_tls="its library is built without TLS"),
    RealClient("java5 5.2.0", ("java", "javac", "mvn"), java("5.2.0", home=HERE / "java5"), by_grpc=True),
    RealClient("go5 5.1.4", ("go",), go(HERE / "go5"), by_grpc=True),
    RealClient("node5 1.0.8", ("node", "npm"), node(HERE / "node5"), by_grpc=True),
    RealClient("python5 5.1.2", (), python5, by_grpc=True),
)
