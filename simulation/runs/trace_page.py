"""A run as a page for a browser: one lane per machine, in a single file that loads nothing else."""

import json
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from staticfire.simulation.checkers.events import LocksSeen, MessageFound, RunEvent
from staticfire.simulation.runs.lessons import lessons
from staticfire.simulation.runs.outcome import RunOutcome

TEMPLATE = Path(__file__).with_name("trace.html")
EVENTS_SHOWN_MAX = 200_000


def trace_page(outcome: RunOutcome, workload: str, again: str = "") -> str:
    """Return the page of a run that has kept its events. All its times count from the start of the run.

    `again`: the command that repeats the run.
    """
    shown = [_row(event) for event in outcome.events if not isinstance(event, MessageFound | LocksSeen)]
    facts = {
        "events": shown[:EVENTS_SHOWN_MAX],
        "violations": [[violation.at_ms, str(violation)] for violation in outcome.violations],
        "lessons": [msgspec.to_builtins(lesson) for lesson in lessons(outcome)],
        "strikes": outcome.strike_lines,
        "endMs": outcome.virtual_ms,
    }
    title = f"seed {outcome.seed} of {workload}"
    verdict = "all promises kept" if outcome.passed else f"{len(outcome.violations)} broken promises"
    cut = f"; only the first {EVENTS_SHOWN_MAX:,} events are shown" if len(shown) > EVENTS_SHOWN_MAX else ""
    text = TEMPLATE.read_text(encoding="utf-8")
    # A body may contain anything, even the end tag of the script.
    data = json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c")
    words = {
        "TITLE": escape(title), "VERDICT": escape(verdict + cut), "FINGERPRINT": outcome.fingerprint,
        "AGAIN": escape(again), "DATA": data,
    }  # fmt: skip
    for name, word in words.items():
        text = text.replace(f"{{{{{name}}}}}", word)
    return text


def _row(event: RunEvent) -> list[Any]:
    """Return an event in the page's format: time, kind, fields."""
    values = {name: _plain(value) for name, value in msgspec.structs.asdict(event).items()}
    return [values.pop("at_ms"), type(event).__name__, values]


def _plain(value: Any) -> Any:
    """Return a value with texts as keys, because JSON has no tuples as keys."""
    if not isinstance(value, dict):
        return msgspec.to_builtins(value)
    texts = (key if isinstance(key, str) else " ".join(map(str, key)) for key in value)
    return dict(zip(texts, map(msgspec.to_builtins, value.values()), strict=True))
