"""Pages of long lists: which rows are queried, and how they are sorted. Without a cluster."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from staticfire.control.listed import SORTED_MAX, listed

pytestmark = [pytest.mark.row("S9")]

NAMES = [f"group-{number:04}" for number in range(SORTED_MAX + 100)]
LAGS = {"group-0007": 9, "group-0300": 12, "group-0301": 12}


async def page_of(sort: str, **more: Any) -> tuple[list[str], list[str]]:
    """Return the names of a page, and the names that were queried for it."""
    read: list[str] = []

    async def rows(names: Sequence[str]) -> list[dict[str, Any]]:
        read.extend(names)
        return [{"group": name, "lag": LAGS.get(name, 0), "members": len(name)} for name in names]

    async def lags() -> Mapping[str, int]:
        return LAGS

    found = await listed(NAMES, {"sort": sort, "max": 4, **more}, rows, "group", {"lag": lags})
    assert found["sort"] in (sort, "group")
    return [one["group"] for one in found["rows"]], read


async def test_a_column_that_is_known_for_all_sorts_a_long_list_without_reading_it() -> None:
    names, read = await page_of("-lag")
    assert names == ["group-0300", "group-0301", "group-0007", "group-0000"]
    assert read == names
    assert (await page_of("-lag", skip=2))[0] == ["group-0007", "group-0000", "group-0001", "group-0002"]
    assert (await page_of("lag"))[0] == NAMES[:4]
    assert (await page_of("-lag", match="030"))[0] == ["group-0300", "group-0301", "group-0030", "group-0302"]


async def test_another_column_sorts_short_lists_only() -> None:
    assert (await page_of("-members"))[0] == NAMES[:4]
    names, read = await page_of("-members", match="group-000")
    assert (len(names), len(read)) == (4, 10)
