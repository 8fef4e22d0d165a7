"""Docstrings, comments and names are plain English.

tests/house/test_words.py checks the texts that users see. This checks what developers read, with some more words in the
packages that somebody other than their author has read. A package joins READ when a second person has understood it.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.house.source import LAYERS, Finding, Rule, Source, check, found_in_head, sources

READ = ("broker/access/", "failover/", "faults/", "staticfire/chaos/", "staticfire/cluster/", "staticfire/dashboard/")
INSTEAD = {
    r"asked": "requested, queried, checked",
    r"told": "notified, reported, shown",
    r"nobody|somebody|anybody": "no client, no member, another member",
    r"whom|whoever": "which client, which server",
    r"stands|stood": "is at, has the offset",
    r"(go|goes|went) on": "continue",
    r"(is|are|was|were) to be": "must",
    r"anew": "again",
    r"under way": "in flight",
    r"desks?": "what it does: administration, control",
}
"""Pattern -> what to write instead."""

INSTEAD_WHERE_READ = {
    **INSTEAD,
    r"stand": "is at, has the offset",
    r"said|says?|saying": "contains, returns, means, describes",
    r"as far as": "if, what",
    r"so long": "for this time",
}

IDIOMS, IDIOMS_WHERE_READ = (
    re.compile(rf"\b(?:{'|'.join(instead)})\b", re.IGNORECASE) for instead in (INSTEAD, INSTEAD_WHERE_READ)
)
WORDS_OF_NAMES = frozenset({"asked", "asker", "asking", "told", "nobody", "desk", "taker", "whom", "said", "says"})


def explained(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of a file, with their lines."""
    for node in source.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def plain_explanations() -> Iterator[Finding]:
    for source in sources(*LAYERS):
        idioms = IDIOMS_WHERE_READ if str(source.path).startswith(READ) else IDIOMS
        for line, text in explained(source):
            for match in idioms.finditer(text):
                yield Finding(source, line, line, f"{match.group()!r}: write {replacement(match.group())}")


def replacement(word: str) -> str:
    return next(
        instead for pattern, instead in INSTEAD_WHERE_READ.items() if re.fullmatch(pattern, word, re.IGNORECASE)
    )


def plain_names() -> Iterator[Finding]:
    for source in sources(*LAYERS):
        for node in source.definitions():
            if words := words_of(node.name) & WORDS_OF_NAMES:
                yield found_in_head(source, node, f"{node.name}: {min(words)!r} is an idiom; name what it does")


def words_of(name: str) -> set[str]:
    """Return the words of a name: `_asked_in_vain` and `FaultDesk` have three and two."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}


@pytest.mark.parametrize("rule", [plain_explanations, plain_names])
def test_explanations_and_names_are_plain_english(rule: Rule) -> None:
    check(rule)


def test_each_package_exists() -> None:
    paths = [str(source.path) for source in sources(*LAYERS)]
    assert [package for package in READ if not any(path.startswith(package) for path in paths)] == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('"""What it says."""', ["says"]),
        ('"""Whom it calls."""', ["Whom"]),
        ("x = 1  # Nobody has asked for it.", ["Nobody", "asked"]),
        ('x = "asked"', []),
        ("def f():\n    # So long\n    return 1", ["So long"]),
    ],
)
def test_the_rule_finds_idioms(code: str, words: list[str]) -> None:
    source = Source(sources("protocol")[0].path, code)
    assert [match.group() for _, text in explained(source) for match in IDIOMS_WHERE_READ.finditer(text)] == words


def test_the_rule_finds_idioms_in_names() -> None:
    assert words_of("_asked_in_vain") & WORDS_OF_NAMES == {"asked"}
    assert words_of("FaultDesk") & WORDS_OF_NAMES == {"desk"}
    assert words_of("basket") & WORDS_OF_NAMES == set()
