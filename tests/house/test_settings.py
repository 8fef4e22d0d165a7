"""Each setting is read somewhere; otherwise it would have no effect."""

import ast
from collections.abc import Iterator
from dataclasses import fields

import pytest

from staticfire.broker.settings import BrokerSettings
from staticfire.client import ClientSettings, ProducerSettings, PullSettings, PushSettings
from staticfire.nameserver.settings import NameserverSettings
from staticfire.proxy.settings import ProxySettings
from staticfire.runtime.config import default_of
from staticfire.runtime.ranges import is_within
from tests.house.source import LAYERS, Source, sources


def fields_of_settings(source: Source) -> Iterator[tuple[str, ast.AnnAssign]]:
    """Yield the settings that a file declares, each with its name and place.

    A setting that accepts only one value, and states why, doesn't have to be read.
    """
    for node in source.tree.body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Settings"):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and not _is_refusal(field):
                    yield field.target.id, field


def names_read(source: Source) -> set[str]:
    """Return the attributes that a file reads."""
    return {
        node.attr
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def _is_refusal(field: ast.AnnAssign) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == "why" for node in ast.walk(field))


@pytest.mark.parametrize(
    "cls",
    [BrokerSettings, NameserverSettings, ClientSettings, ProducerSettings, ProxySettings, PullSettings, PushSettings],
)
def test_each_number_that_people_set_has_a_range_with_its_default(cls: type) -> None:
    numbers = [
        one for one in fields(cls) if "int" in str(one.type) or "float" in str(one.type) or "Ms" in str(one.type)
    ]
    without = [one.name for one in numbers if "range" not in one.metadata]
    beyond = [
        one.name for one in numbers if (number := default_of(one)) is not None and not is_within(number, one.metadata)
    ]
    assert numbers
    assert (without, beyond) == ([], [])


def test_each_setting_is_read_by_some_code() -> None:
    program = sources(*LAYERS)
    read = set().union(*(names_read(source) for source in program))
    declared = [(name, field, source) for source in program for name, field in fields_of_settings(source)]
    unread = [f"{source.place(field)}: {name}" for name, field, source in declared if name not in read]
    assert len(declared) > 100
    assert not unread, "settings that nobody reads:\n" + "\n".join(unread)
