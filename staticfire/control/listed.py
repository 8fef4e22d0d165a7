"""A part of a long list: filtered by name, sorted, and cut into pages. Pure, but for the calls that it is given.

A column other than the name must be queried for every row. So a list with more rows than SORTED_MAX is sorted by name,
and only the rows of the page are queried. Some columns are known for all rows at once; these always sort the list.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from staticfire.control.routes import Parameter

SORTED_MAX = 500
ROWS_MAX = 1_000
Rows = list[dict[str, Any]]
Ranks = Mapping[str, Callable[[], Awaitable[Mapping[str, int]]]]
"""By column: returns its values by name. Names that are left out have 0."""


def list_parameters(columns: tuple[str, ...]) -> tuple[Parameter, ...]:
    """Return the parameters of a list with these columns; the first is the name."""
    descending = tuple(f"-{one}" for one in columns)
    return (
        Parameter("match", "only names that contain this text"),
        Parameter("sort", "by this column; with a minus: descending", choices=(*columns, *descending)),
        Parameter("skip", "leave out this many rows at the beginning", "integer"),
        Parameter("max", "how many rows", "integer", 1, ROWS_MAX),
    )


def ranks_of(rows: Rows, key: str) -> dict[str, Callable[[], Awaitable[Mapping[str, int]]]]:
    """Return the columns of rows that are known already, by name."""
    columns = [column for column in (rows[0] if rows else {}) if column != key]
    return {column: known_ranks({row[key]: row[column] for row in rows}) for column in columns}


def known_ranks(values: Mapping[str, int]) -> Callable[[], Awaitable[Mapping[str, int]]]:
    """Return a function that returns values which are known already."""

    async def ranks() -> Mapping[str, int]:
        return values

    return ranks


async def listed(
    names: Sequence[str],
    query: Mapping[str, Any],
    read: Callable[[Sequence[str]], Awaitable[Rows]],
    key: str,
    ranks: Ranks | None = None,
) -> dict[str, Any]:
    """Return the rows of a page, the number of all rows, and by which column they are sorted.

    `read`: returns the rows with these names. `key`: the column of the name.
    """
    match = query.get("match", "").lower()
    chosen = [name for name in names if match in name.lower()] if match else [*names]
    column = query.get("sort", key)
    ranked = (ranks or {}).get(column.lstrip("-"))
    if len(chosen) > SORTED_MAX and column.lstrip("-") != key and ranked is None:
        column = key
    skip = query.get("skip", 0)
    end = skip + query["max"] if "max" in query else None
    if column.lstrip("-") == key:
        ordered = sorted(chosen, reverse=column.startswith("-"))
        rows = await read(ordered[skip:end])
    elif ranked is not None:
        values = await ranked()
        ordered = sorted(sorted(chosen), key=lambda name: values.get(name, 0), reverse=column.startswith("-"))
        rows = await read(ordered[skip:end])
    else:
        rows = sorted(await read(chosen), key=lambda row: row[column.lstrip("-")], reverse=column.startswith("-"))
        rows = rows[skip:end]
    return {"rows": rows, "count": len(chosen), "all": len(names), "sort": column}
