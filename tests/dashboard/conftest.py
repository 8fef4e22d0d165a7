"""A browser for the tests of pages in one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.browser import Browser


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path) as tab:
        yield tab
