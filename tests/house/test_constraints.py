"""constraints.txt pins all packages that development and CI install."""

from packaging.requirements import Requirement

from tests.house.source import ROOT
from tools.constraints import installed_closure, installed_extras


def test_constraints_pin_every_package_at_the_installed_version() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = {requirement.name: str(requirement.specifier) for requirement in map(Requirement, lines)}
    installed = installed_closure(installed_extras())
    stale = {name: version for name, version in installed.items() if pins.get(name) != f"=={version}"}
    assert stale == {}, "run `make setup` (takes over constraints.txt) or `make constraints` (writes it)"
