"""Descriptions of all settings, for help, documentation and an example file. They are read from the settings classes.

The text of a setting is the docstring below its field in the source code. So this module reads source code, and no
starting process imports it.
"""

import ast
import inspect
import itertools
import textwrap
from dataclasses import dataclass, fields, is_dataclass
from typing import get_type_hints

from staticfire.runtime.config import default_of, key_of, text_of, variable_of, what_it_takes


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as help and documentation show it."""

    key: str
    environment: str
    takes: str
    default: str
    text: str


def describe(cls: type) -> list[Setting]:
    """Return all settings in the order of the class."""
    hints, texts = get_type_hints(cls), _texts_of(cls)
    return [
        Setting(
            key=key_of(one),
            environment=variable_of(one.name),
            takes=what_it_takes(hints[one.name], one),
            default=text_of(default_of(one)),
            text=texts.get(one.name, ""),
        )
        for one in fields(cls)
    ]


def example_toml(cls: type) -> str:
    """Return a file that contains every setting at its default, commented out."""
    lines = [f"# {(cls.__doc__ or cls.__name__).splitlines()[0]}", ""]
    for setting in describe(cls):
        lines += [f"# {line}" for line in setting.text.splitlines()]
        plain = setting.takes == "true or false" or setting.takes.startswith(("a whole number", "a number"))
        key = _quoted(setting.key) if "." in setting.key else setting.key  # A bare dot would make it a table.
        lines += [f"# {key} = {setting.default if plain else _quoted(setting.default)}", ""]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _texts_of(cls: type) -> dict[str, str]:
    """Return the docstring below each field in the source code."""
    texts: dict[str, str] = {}
    for each in reversed([each for each in cls.__mro__ if is_dataclass(each)]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for above, below in itertools.pairwise(body):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name) and is_text:
                texts[above.target.id] = inspect.cleandoc(str(below.value.value))  # type: ignore[attr-defined]
    return texts
