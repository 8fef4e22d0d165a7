"""Environments with one installation each, as pip makes them on a user's machine."""

from dataclasses import dataclass
from pathlib import Path

from tools.release.building import Release
from tools.release.running import CheckFailed, clean_environment, run

COMPILED, PURE = "with compiled parts", "without compiled parts"


@dataclass(frozen=True)
class Installation:
    """What is installed, how, and what `staticfire --version` must say then."""

    name: str
    source: Path
    has_compiler: bool
    says: str


def installations(release: Release, is_build_python: bool) -> list[Installation]:
    """Return the ways to install a release; the wheel with compiled parts fits one Python only."""
    found = [
        Installation("sdist, compiler", release.sdist, has_compiler=True, says=COMPILED),
        Installation("sdist, no compiler", release.sdist, has_compiler=False, says=PURE),
        Installation("py3-none-any wheel", release.pure_wheel, has_compiler=False, says=PURE),
    ]
    wheel = Installation("compiled wheel", release.compiled_wheel, has_compiler=False, says=COMPILED)
    return [*found, wheel] if is_build_python else found


def install(installation: Installation, python: Path, folder: Path, extras: str = "") -> Path:
    """Make an environment; return its folder of programs. Raises: CheckFailed."""
    run([python, "-m", "venv", folder / "env"], folder)
    programs = folder / "env" / "bin"
    # A name that is no program: a build that needs a compiler finds none, and nothing else changes.
    hidden = {} if installation.has_compiler else {"CC": "no-compiler-here", "CXX": "no-compiler-here"}
    pip: list[str | Path] = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, f"{installation.source}{extras}", "pytest"], folder, clean_environment(**hidden))
    said = run([programs / "staticfire", "--version"], folder)
    if installation.says not in said:
        raise CheckFailed(f"`staticfire --version` must say {installation.says!r}, and says: {said.strip()}")
    return programs
