"""Messages name pages of the documentation by address, and each of these pages exists."""

import re

from staticfire.protocol.documentation import SITE, page
from tests.house.source import LAYERS, ROOT, sources

CALL = re.compile(r"\bpage\(['\"]([^'\"]+)['\"]\)")


def test_each_page_that_a_message_names_is_there() -> None:
    names = {name for source in sources(*LAYERS) for name in CALL.findall(source.text)}
    assert {"groups", "faults", "compatibility"} <= names
    assert [name for name in names if not (ROOT / "docs" / f"{name}.md").is_file()] == []
    assert page("groups") == f"{SITE}groups/"
