"""The module's own tests, and the examples for JUnit and Spring Boot, on clusters that the command starts."""

from collections import Counter
from pathlib import Path

import pytest

from tests.clients.toolchains import BRING_TIMEOUT_S
from tests.java.reactor import JUNIT, MODULE, SPRING, copied_module, results, run_maven

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(BRING_TIMEOUT_S + 60)]


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A copy in which Maven has run all tests, and what it printed."""
    folder = copied_module(tmp_path_factory.mktemp("java"))
    return folder, run_maven(folder)


@pytest.mark.parametrize(("module", "count"), [(MODULE, 34), (JUNIT, 4), (SPRING, 4)])
def test_each_test_passes(tested: tuple[Path, str], module: str, count: int) -> None:
    folder, printed = tested
    assert results(folder, module) == Counter(passed=count), printed
