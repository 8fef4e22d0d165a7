"""Tables that are sorted, filtered and paged by the server: their links. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from staticfire.dashboard.addresses import address

ROWS = 50


class TableColumn(NamedTuple):
    """The head of a column. `link`: sorts by it, or in the opposite order; empty: the table can't be sorted by it."""

    name: str
    title: str
    link: str = ""
    order: str = ""
    """How the table is sorted by it, for screen readers: ascending, descending, or not."""
    is_number: bool = False


class Pager(NamedTuple):
    """Which part of the rows is shown."""

    first: int
    last: int
    rows: int
    """How many there are on all pages."""
    before: str
    after: str


def columns(
    path: str, query: Mapping[str, str], titles: Mapping[str, str], numbers: frozenset[str], sort: str
) -> list[TableColumn]:
    """Return the heads of a table's columns. `sort`: the column that it is sorted by, with a minus if descending."""
    found = []
    for name, title in titles.items():
        is_number, is_sorted = name in numbers, sort.lstrip("-") == name
        # Numbers are most interesting from the largest on.
        first, other = (f"-{name}", name) if is_number else (name, f"-{name}")
        link = address(path, **{**kept(query, "page"), "sort": other if sort == first else first})
        order = ("descending" if sort.startswith("-") else "ascending") if is_sorted else "none"
        found.append(TableColumn(name, title, link, order, is_number))
    return found


def pager(path: str, query: Mapping[str, str], page: int, count: int, rows: int = ROWS) -> Pager:
    """Return what a page of a table shows, and the links to its neighbours. Pages are counted from 1 on."""
    first = (page - 1) * rows
    last = min(count, first + rows)
    before = address(path, **{**kept(query, "page"), "page": page - 1}) if page > 1 else ""
    after = address(path, **{**kept(query, "page"), "page": page + 1}) if last < count else ""
    return Pager(min(first + 1, count), last, count, before, after)


def kept(query: Mapping[str, str], *without: str) -> dict[str, Any]:
    """Return the parameters of an address without some of them."""
    return {name: text for name, text in query.items() if name not in without}
