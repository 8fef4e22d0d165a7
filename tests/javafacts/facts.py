"""What is asked, what the answers mean, and the file that they lie in."""

from pathlib import Path

import msgspec

FILE = Path(__file__).parent / "facts.jsonl"


class Fact(msgspec.Struct, frozen=True):
    """A question, part by part, and what RocketMQ's classes answer."""

    parts: tuple[str, ...]
    answer: str


def read_facts(kind: str) -> list[Fact]:
    """Return those of a kind: the first part of the question."""
    facts = [msgspec.json.decode(line, type=Fact) for line in FILE.read_bytes().splitlines()]
    return [fact for fact in facts if fact.parts[0] == kind]


def write_facts(facts: list[Fact]) -> None:
    """Write all of them."""
    FILE.write_bytes(b"".join(msgspec.json.encode(fact) + b"\n" for fact in facts))
