"""Texts for users are plain sentences: words and phrases that readers of English as a second language have to guess.

This checks the texts of errors, log lines, pages and help: string literals of three words or more, docstrings of
commands (click shows them), and docstrings below the fields of settings classes (`--settings` shows them). Names that
programs read (keys, events, codes) and SQL aren't sentences and aren't checked.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import LAYERS, Finding, Source, check, found, sources

INSTEAD = {
    r"asked( for)?": "requested, checked, sent to",
    r"told": "notified, reported, shown",
    r"nobody|somebody|anybody": "no client, no member, another member",
    r"whom|whoever": "which client, which server",
    r"stands?|stood": "is at, has the offset",
    r"(comes?|came) again": "is redelivered",
    r"(is|are|was|were) to be": "must",
    r"what is wrong": "the problem",
    r"way out": "how to fix it",
    r"so long": "for this time",
    r"anew": "again, rebuilt",
    r"can't be (had|listened on)": "the limit is, can't listen on",
    r"(is|are) none": "there is no, invalid",
    r"(?<!there )is no (value|whole number|address|time|duration|setting|folder|option|request code)": "is not a",
    r"pass(es|ed)? over": "skip, ignore",
    r"put aside|set aside": "moved to",
    r"given? back": "release, send back",
    r"hand(s|ed)? out": "deliver",
    r"(goes|went|go) on": "continue",
    r"goodbye": "unregister",
    r"called back": "recalled",
    r"isn't whole": "incomplete",
    r"under way": "in flight",
}
"""Pattern -> what to write instead."""

ALLOWED = {
    "set aside": "the name of an event in a message's life, which programs read",
    "comes again": "the name of an event in a message's life, which programs read",
    "told-by={": "a key of the one-line summary, which scripts read",
}
"""Texts that may contain such a word, and why."""

WORDS = re.compile(rf"\b({'|'.join(f'(?:{pattern})' for pattern in INSTEAD)})\b", re.IGNORECASE)
WORDS_MIN = 3


def text_of(node: ast.expr) -> str | None:
    """Return the text of a string literal, with `{}` for each value in it; None for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def shown_docstrings(source: Source) -> Iterator[ast.expr]:
    """Yield the docstrings of commands, and of the fields of settings classes."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(one) for one in node.decorator_list):
            yield from (one.value for one in node.body[:1] if isinstance(one, ast.Expr))
        elif isinstance(node, ast.ClassDef) and node.name in ("BrokerSettings", "NameserverSettings", "ProxySettings"):
            yield from (one.value for one in node.body if isinstance(one, ast.Expr))


def shown_texts(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Yield the texts of a file that users can read, with their nodes."""
    inside = {id(part) for node in source.nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    docstrings = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    docstrings -= {id(node) for node in shown_docstrings(source)}
    for node in source.nodes:
        if isinstance(node, ast.expr) and id(node) not in inside and id(node) not in docstrings:
            text = text_of(node)
            if text is not None and len(text.split()) >= WORDS_MIN and "SELECT " not in text:
                yield node, text


def hidden_words(text: str) -> list[str]:
    """Return the words of a text that must be replaced."""
    for one in ALLOWED:
        text = text.replace(one, "")
    return [match.group().lower() for match in WORDS.finditer(text)]


def plain_sentences() -> Iterator[Finding]:
    for source in sources(*LAYERS):
        for node, text in shown_texts(source):
            for word in hidden_words(text):
                yield found(source, node, f"{word!r} in {text[:80]!r}: write {replacement(word)}")


def replacement(word: str) -> str:
    return next(instead for pattern, instead in INSTEAD.items() if re.fullmatch(pattern, word))


def test_texts_for_users_are_plain_sentences() -> None:
    check(plain_sentences)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('raise E("a broker has asked nobody")', ["asked", "nobody"]),
        ('raise E(f"{told} {asked} the port is in use")', []),
        ('raise E("its name " "stands behind")', ["stands"]),
        ('EVENT = "asked"', []),
        ('def f():\n    """What nobody is told here."""', []),
        ('@click.command()\ndef f():\n    """What nobody can read."""', ["nobody"]),
        ('class BrokerSettings:\n    port: int = 1\n    """Where it stands now."""', ["stands"]),
    ],
)
def test_the_rule_finds_them(code: str, words: list[str]) -> None:
    source = Source(sources("protocol")[0].path, code)
    assert [word for _, text in shown_texts(source) for word in hidden_words(text)] == words


def test_each_exception_is_needed() -> None:
    texts = [text for source in sources(*LAYERS) for node in source.nodes if (text := text_of_any(node)) is not None]
    assert [one for one in ALLOWED if not any(one.rstrip("{") in text for text in texts)] == []


def text_of_any(node: ast.AST) -> str | None:
    return text_of(node) if isinstance(node, ast.expr) else None


RULES = [plain_sentences]
