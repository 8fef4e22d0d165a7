"""What users read is plain English: words that made sentences of these pages hard to understand stay out of them.

It covers README, CONTRIBUTING and docs/ without docs/decisions, generated parts, code, and `names in code`.
"""

import re
from pathlib import Path

import pytest

from tests.house.source import ROOT

INSTEAD = {
    r"whom|who may|whoever": "which client, member or program",
    r"nobody|somebody|anybody": "no client, another member, any program",
    r"told|tells (?:a|the|its|each|clients|members)": "notified, reported; a response says",
    r"(?:is|are|be) asked|asks (?:a|the|its|brokers|whether)": "requested, checked, called",
    r"comes? again|came again|coming again": "is redelivered, is delivered again",
    r"goes on|go on|went on": "continues",
    r"stands? (?:still|in|at|behind|for|beside)": "is frozen; is in, at, after; means",
    r"(?:is|are) to be": "must be",
    r"what is wrong|the way out|in words": "the problem; how to fix it; as text",
    r"passed over|passes over|pass over|passed by": "skipped, ignored",
    r"taken for|takes? for": "counts as",
    r"put back|put away": "restored, saved",
    r"test stand|the stand": "test cluster",
    r"mended|mend": "fixed",
    r"loss of power|losses of power": "power cut",
    r"for ever": "forever",
    r"handed out": "delivered",
    r"given back|give back|gives back": "sent back",
    r"troubles?": "problem, fault",
    r"at work": "in progress, running",
    r"pure Python": "Python, with optional compiled parts",
    r"anew": "again",
}
WORDS = {
    re.compile(rf"\b(?:{words})\b".replace(" ", r"\s+"), re.IGNORECASE): instead for words, instead in INSTEAD.items()
}
NOT_PROSE = re.compile(
    r"<!-- generated: (?P<part>[\w-]+) -->.*?<!-- end: (?P=part) -->"
    r"|^( *)```.*?^\2```$|^ {4}[^\n]*$|`[^`\n]+`|\]\([^)\s]+\)|https?://\S+",
    re.MULTILINE | re.DOTALL,
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def found_in(text: str) -> list[str]:
    """Return `line: word (instead)` for each word of the list in the prose of a page."""
    prose = NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    hits = [
        (prose.count("\n", 0, found.start()) + 1, found[0], instead)
        for words, instead in WORDS.items()
        for found in words.finditer(prose)
    ]
    return [f"{line}: {word} (better: {instead})" for line, word, instead in sorted(hits)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_do_without_the_words_of_the_list(page: Path) -> None:
    assert found_in(page.read_text()) == []


def test_readme_is_one_screen_and_a_bit() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_list_finds_words_in_prose_and_not_in_code() -> None:
    code = "    told\n\n```\ntold\n```\n\n`told` and\n<!-- generated: x -->\n\ntold\n\n<!-- end: x -->\n"
    text = f"# Whom\n\n{code}\nIt is *told*.\n"
    assert [hit.split(" (")[0] for hit in found_in(text)] == ["1: Whom", "16: told"]
