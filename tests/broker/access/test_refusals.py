"""What is remembered and logged about refusals stays small, whatever clients send."""

import pytest

from staticfire.broker.access.book import AccessBook
from staticfire.broker.access.policies import Acl, PolicyVerdict
from staticfire.broker.access.refusals import (
    CHARS_MAX,
    GROUPS_MAX,
    LINES_MAX,
    LINES_MS,
    REFUSALS_MAX,
    UNKNOWN,
    AccessRefusal,
    AccessRefusals,
    RefusalLines,
)
from staticfire.broker.access.resources import TOPIC, Resource
from staticfire.protocol.times import UptimeMs

pytestmark = pytest.mark.row("G7")


def test_lines_are_limited_for_a_time_and_then_counted() -> None:
    lines = RefusalLines()
    assert [lines.admits(UptimeMs(7)) for _ in range(LINES_MAX + 3)] == [True] * LINES_MAX + [False] * 3
    assert not lines.admits(UptimeMs(7 + LINES_MS - 1))
    assert lines.admits(UptimeMs(7 + LINES_MS))
    assert (lines.take_left_out(), lines.take_left_out()) == (4, 0)


def test_names_of_clients_are_cut_and_shown_without_control_characters() -> None:
    refusals = AccessRefusals()
    one = AccessRefusal(UNKNOWN, 11, "\x1b[2J" + "u" * 1_000_000, "10.0.0.9", Resource(TOPIC, "t" * 1_000_000))
    groups = ["g" * 1_000_000, *map(str, range(1_000))]
    noted = refusals.note(one, "c" * 1_000_000, groups, "", 1)
    assert noted is not None
    assert noted.user.startswith("?[2Ju")
    assert all(len(text) <= CHARS_MAX + 3 for text in (noted.user, noted.client, noted.group, noted.resource))
    assert len(refusals.of_group("")) == GROUPS_MAX


def test_only_the_newest_refusals_are_kept() -> None:
    refusals = AccessRefusals()
    for number in range(2 * REFUSALS_MAX):
        assert refusals.note(AccessRefusal(UNKNOWN, 11, f"u{number}"), "c", ["g"], "", number) is not None
    assert len(refusals.of_group("g")) == REFUSALS_MAX


def test_decisions_about_impossible_names_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[str] = []
    whole = Acl.decide

    def decide(acl: Acl, resource: Resource, actions: frozenset[str], source: str) -> PolicyVerdict:
        decided.append(resource.name)
        return whole(acl, resource, actions, source)

    monkeypatch.setattr(Acl, "decide", decide)
    book, impossible = AccessBook(), "x" * 1_000
    for name in ("orders", impossible, "orders", impossible):
        book.decide("shop", Resource(TOPIC, name), frozenset({"Pub"}), "10.0.0.9")
    assert decided == ["orders", impossible, impossible]
