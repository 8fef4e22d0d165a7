"""Each setting is read somewhere; otherwise it would have no effect."""

import ast
from collections.abc import Iterator
from dataclasses import fields

import pytest

from staticfire.broker.handlers import config as broker_config
from staticfire.broker.settings import BrokerSettings
from staticfire.client import ClientSettings, ProducerSettings, PullSettings, PushSettings
from staticfire.nameserver.handlers import config as nameserver_config
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


AT_START = {"__init__", "_start", "start", "intercept", "make_tables"}
"""The functions that run only when a program, or a part of it, starts."""
EXPLAINED = {
    # The policy is made again when the settings have changed.
    ("broker/retention.py", "file_reserved_time"),
    ("broker/retention.py", "delete_when"),
    # A change of it is compared with the last value, to make what already waits due earlier.
    ("broker/transactions/checks.py", "transaction_time_out"),
}
"""Files that read a setting at the start although it may change."""


def settings_read(source: Source) -> Iterator[tuple[str, str]]:
    """Yield each setting that a file reads, with the name of the function that reads it."""
    for function in source.definitions():
        if isinstance(function, ast.ClassDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1].lstrip("_") == "settings":
                yield node.attr, function.name


@pytest.mark.parametrize(
    ("program", "live"),
    [("broker", broker_config.LIVE), ("nameserver", nameserver_config.LIVE)],
    ids=["broker", "nameserver"],
)
def test_each_setting_that_may_change_is_read_while_the_program_runs(program: str, live: frozenset[str]) -> None:
    """What is read only at the start would be accepted with success, and have no effect."""
    read = {(str(source.path), *one) for source in sources(program) for one in settings_read(source)}
    at_start = {(path, name) for path, name, function in read if name in live and function in AT_START}
    later = {name for _, name, function in read if function not in AT_START}
    assert sorted(live - later) == []
    assert at_start == {(path, name) for path, name in EXPLAINED if path.startswith(program)}
