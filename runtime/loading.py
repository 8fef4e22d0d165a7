"""Load the settings of a program: flag > environment (STATICFIRE_<NAME>) > file > default.

A file is TOML if its name ends in .toml; a .yml is RocketMQ 4's plain_acl.yml; otherwise it has RocketMQ's `key=value`
lines. Anything that isn't understood is an error that states the fix, because a silently ignored setting can cost
hours. A program reads only its own settings from the environment. `staticfire/launch/environment.py` finds misspelt
ones, because it has the settings of all programs.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from staticfire.protocol.errors import UsageError
from staticfire.runtime.config import Unparsable, field_named, field_of, key_of, parse_value, text_of, variable_of
from staticfire.runtime.ranges import HIDDEN, shown

S = TypeVar("S")

TOML = ".toml"
YAML = (".yml", ".yaml")
ENVIRONMENT = "the environment"


def load_settings(
    cls: type[S],
    overrides: Mapping[str, str],
    environment: Mapping[str, str],
    file: str | None,
    others: tuple[type, ...] = (),
    tell: Callable[[str], None] | None = None,
    defaults: Mapping[str, str] | None = None,
    source: str = "--set",
) -> S:
    """Return the settings. `others`: programs whose settings may be in the same flags and file.

    `defaults`: the values of settings that aren't given, if they differ from the defaults of the class.
    `tell`: called with each part that isn't understood of a file that isn't TOML, and so is probably RocketMQ's.
    Without `tell`, such a part is an error. `source`: how a user gives the overrides.
    Raises: UsageError (unknown key, bad value, unreadable file), with a message for the user.
    """
    values: dict[str, Any] = {}
    sources = [(file or "", _read_file(file))] if file else []
    if file and tell is not None and not file.endswith((TOML, *YAML)):
        # Imported here because most starts read no file.
        from staticfire.runtime.foreign_conf import understood

        sources = [(file, understood(sources[0][1], file, (cls, *others), tell))]
    for place, given in [
        ("defaults", defaults or {}),
        *sources,
        (ENVIRONMENT, _from_environment(cls, environment)),
        (source, overrides),
    ]:
        for key, text in given.items():
            name = field_of(cls, key)
            if name is None:
                if not any(field_of(other, key) for other in others):
                    raise UsageError(_unknown(key, place, (cls, *others)))
                continue
            try:
                values[name] = parse_value(text, cls, field_named(cls, name))
            except Unparsable as wrong:
                given_as = variable_of(key) if place == ENVIRONMENT else key
                value = HIDDEN if field_named(cls, name).metadata.get("secret") else shown(text)
                words = f"{given_as}={value} ({place}) is not a value for this setting: it must be {wrong}"
                raise UsageError(words) from None
    return cls(**values)


def _from_environment(cls: type, environment: Mapping[str, str]) -> dict[str, str]:
    names = {one.name: variable_of(one.name) for one in fields(cls)}
    return {name: environment[variable] for name, variable in names.items() if variable in environment}


def _read_file(path: str) -> dict[str, str]:
    if path.endswith(YAML):
        # RocketMQ's only file in YAML is plain_acl.yml. The broker reads it.
        return {"aclEnable": "true", "plainAclFile": os.path.abspath(path)}
    try:
        with open(path, "rb") as file:
            # Bytes in a broker.conf that aren't UTF-8 are normally in a comment.
            text = file.read().decode(errors="strict" if path.endswith(TOML) else "replace")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from None
    return _toml_values(path, text) if path.endswith(TOML) else _line_values(path, text)


def _toml_values(path: str, text: str) -> dict[str, str]:
    # Imported here because most starts read no file.
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None
    nested = [key for key, value in table.items() if isinstance(value, dict)]
    if nested:
        raise UsageError(f"{path}: [{nested[0]}] is a table; write settings at the top level, as key = value")
    return {key: text_of(tuple(value) if isinstance(value, list) else value) for key, value in table.items()}


def _line_values(path: str, text: str) -> dict[str, str]:
    """Read RocketMQ's broker.conf, a Java properties file. Raises: UsageError for a key without a value."""
    # Imported here because most starts read no file.
    from staticfire.protocol.java_properties import read_properties

    values = read_properties(text)
    for number, line in enumerate(text.splitlines(), 1):
        if values.get(line.strip()) == "":
            raise UsageError(f"{path}, line {number}: {line.strip()!r} must be written as key=value")
    return {key: value.strip() for key, value in values.items()}


def _unknown(key: str, source: str, classes: tuple[type, ...]) -> str:
    # Imported here because most starts have no unknown setting.
    import difflib

    known = {key_of(one).lower(): key_of(one) for cls in classes for one in fields(cls)}
    alike = difflib.get_close_matches(shown(key).replace("_", "").lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {known[alike[0]]}?" if alike else "`staticfire broker --settings` lists all settings"
    return f"unknown setting {shown(key)} ({source}): {hint}"
