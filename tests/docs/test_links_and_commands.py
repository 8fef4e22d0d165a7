"""Links of README and docs/ lead somewhere, and each command and HTTP request that they show is one."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from staticfire.cli.commands import staticfire
from staticfire.control.all_routes import ROUTES
from tests.cli.commands import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
CODE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    staticfire .*$", re.MULTILINE)

REQUEST = re.compile(
    r"(?:\b(GET|POST|PUT|DELETE) |(?:localhost|127\.0\.0\.1):8082|\$\{?(?:STATICFIRE_CONTROL|CONTROL)\}?)(/[\w.%/{}-]*)"
)


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", document.read_text()), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)) for text in headings)
    return {text.strip().lower().replace(" ", "-") for text in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(one.relative_to(ROOT)) for one in DOCUMENTS])
def test_links_lead_somewhere(document: Path) -> None:
    lost = []
    for link in LINK.findall(CODE.sub("", document.read_text())):
        path, _, anchor = link.partition("#")
        there = (document.parent / path).resolve() if path else document
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            lost.append(link)
    assert lost == []


def shown_commands() -> Iterator[tuple[str, str]]:
    """Yield document and line of each `staticfire ...` in a block of code."""
    for document in DOCUMENTS:
        text = document.read_text()
        blocks = "\n".join(found[0] for found in CODE.finditer(text))
        lines = [*blocks.splitlines(), *INDENTED.findall(CODE.sub("", text))]
        for line in lines:
            if re.match(r" *staticfire [a-z]", line):
                yield str(document.relative_to(ROOT)), line.strip()


@pytest.mark.parametrize(("document", "line"), list(shown_commands()))
def test_each_command_is_one(document: str, line: str) -> None:
    words = shlex.split(line.partition(" > ")[0], comments=True)[1:]
    command: click.Command = staticfire
    name, context = "staticfire", None
    try:
        while True:
            context = command.make_context(name, list(words), parent=context)
            if not isinstance(command, click.Group):
                return
            first = context._protected_args  # house: click has no other name for the first of them
            found, following, words = command.resolve_command(context, [*first, *context.args])
            assert following is not None
            name, command = found or "", following
    except click.ClickException as error:
        pytest.fail(f"{document}: {line}: {error.format_message()}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(one.relative_to(ROOT)) for one in DOCUMENTS])
def test_each_http_request_is_one_of_the_control_endpoint(document: Path) -> None:
    known = [(route.method, re.compile(re.sub(r"\{[^}]*\}", "[^/]+", route.path))) for route in ROUTES]
    unknown = [
        f"{method} {path}".strip()
        for method, path in REQUEST.findall(document.read_text())
        if not any(method in ("", its) and pattern.fullmatch(path.rstrip("/.") or "/") for its, pattern in known)
    ]
    assert unknown == []
