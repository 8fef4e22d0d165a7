"""One run as a page: a single file with lanes for clients and queues, deliveries, commits and faults. Pure.

The page needs no network and no script: it is text and one drawing.
"""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from staticfire.chaos.broken import Broken
from staticfire.chaos.drawing import Drawing
from staticfire.chaos.evidence import Evidence
from staticfire.chaos.story import story, title

STORIES_MAX = 6


def page_of(name: str, evidence: Evidence, broken: Sequence[Broken], command: Sequence[str]) -> str:
    """Return the page of a run as HTML."""
    template = Template(files(__package__).joinpath("page.html").read_text("utf-8"))
    shown_ids = list(dict.fromkeys(message_id for one in broken for message_id in one.message_ids))[:STORIES_MAX]
    return template.substitute(
        title=escape(f"{name}: {'a promise is broken' if broken else 'all promises kept'}"),
        command=escape(" ".join(command)),
        summary=escape(_summary(evidence)),
        broken="\n".join(map(_broken, broken)) or "<p>No promise was broken.</p>",
        faults="\n".join(_faults(evidence)) or "<tr><td>none</td></tr>",
        drawing=Drawing(evidence, shown_ids).svg(),
        stories="\n".join(_story(evidence, message_id) for message_id in shown_ids),
    )


def _summary(evidence: Evidence) -> str:
    ended = "was stopped at the limit" if evidence.exit_code is None else f"exit code {evidence.exit_code}"
    messages = sum(len(found) for topic, found in evidence.stored.topics.items() if not topic.startswith("%"))
    return f"{ended} after {evidence.seconds:.1f} s; {messages:,} messages stored, groups: {', '.join(evidence.groups)}"


def _broken(one: Broken) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in one.evidence)
    return f"<div class=broken><b>{escape(one.promise)}</b> {escape(one.words)}<ul>{lines}</ul></div>"


def _faults(evidence: Evidence) -> list[str]:
    return [
        f"<tr class={'hit' if injected.hits else 'missed'}><td>{escape(injected.fault.kind)}</td>"
        f"<td><code>{escape(injected.fault.command)}</code></td><td>{_hits(injected.hits, injected.problem)}</td></tr>"
        for injected in evidence.injected
    ]


def _hits(hits: int, problem: str) -> str:
    if hits:
        return f"hit {hits} time{'s' * (hits != 1)}"
    return escape(f"hit nothing{f': {problem}' if problem else ''}")


def _story(evidence: Evidence, message_id: str) -> str:
    rows = "".join(
        f"<tr><td>{max(0, chapter.real_ms - evidence.began_ms) / 1_000:.3f} s</td><td>{escape(chapter.words)}</td></tr>"
        for chapter in story(evidence, message_id)
    )
    return f"<h3>{escape(title(evidence, message_id))}</h3><table>{rows}</table>"
