"""Every action that doesn't only create or send something shows first what will change, with names and numbers."""

import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

import staticfire.dashboard
from staticfire import Admin, Cluster, Message, Producer
from staticfire.dashboard.actions import ACTIONS
from tests.cli.commands import get
from tests.dashboard.test_pages import act, page, words_of

pytestmark = [pytest.mark.row("S9")]

ADDS = {"create-topic", "create-group", "send"}
"""Actions that only add something. Their forms show what."""
SAYS: dict[str, tuple[dict[str, str], str]] = {
    "change-topic": ({"topic": "orders", "queues": "1"}, "broker-a: writeQueues changes from 2 to 1."),
    "delete-topic": ({"topic": "orders"}, "Topic orders is deleted on 1 broker, with 3 messages."),
    "change-group": ({"group": "billing", "retries": "3"}, "broker-a: retries changes from 16 to 3."),
    "delete-group": ({"group": "billing"}, "Group billing is deleted, with its offsets and 1 dead letter."),
    "reset-offsets": (
        {"group": "billing", "topic": "orders", "to": "latest"},
        "billing moves in orders: 0 messages will be delivered again, 3 messages will be skipped.",
    ),
    "consume": ({"group": "billing", "id": "order-1"}, "Group billing has no member that could consume it."),
    "resend": ({"group": "billing"}, "1 dead letter will be sent again, to the topics that they came from"),
    "clock": ({"mode": "real"}, r"clock changes from frozen to real\..* Now waiting: 2 messages, the first at \d{4}-"),
    "advance": ({"by": "90m"}, r"moves from \S+Z to \S+Z\. It never moves back\. 1 message that waits is due"),
    "add-fault": (
        {"action": "kill", "broker": "broker-a"}, "A rule is added at broker-a: the process: kill. The process of "
        "broker-a ends at once, .* until it is removed",
    ),
    "remove-fault": (
        {"number": "1"},
        r"Rule FIRST \(PULL_MESSAGE of topic nothing: drop\) at broker-a, which has 0 hits, is removed. "
        r"1 other rule stays\.",
    ),
    "clear-faults": ({}, r"2 rules are removed: Rule FIRST \(.* Rule SECOND \(PULL_MESSAGE of topic nothing: close"),
    "save-snapshot": ({"name": "base"}, "replaces the snapshot base that exists, with 0 messages in 0 topics"),
    "restore-snapshot": ({"name": "base"}, "become those of snapshot base: 0 messages in 0 topics"),
    "remove-snapshot": ({"name": "base"}, "Snapshot base is removed, with 0 messages in 0 topics"),
    "reset": ({}, "1 topic with all messages, 1 group with their offsets, and 1 dead letter are deleted"),
}  # fmt: skip
"""A form of each action, and the words that its page must contain."""


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with Cluster(isolation="process") as cluster:
        control = cluster.control
        act(control, "save-snapshot", name="base")
        cluster.clock.freeze()
        cluster.create_topic("orders", queues=2)
        with Admin(cluster.namesrv) as admin, Producer("shop", cluster.namesrv) as producer:
            admin.create_group("billing")
            for number in range(3):
                producer.send(Message("orders", b"sent", keys=[f"order-{number}"]))
            producer.send(Message("%DLQ%billing", b"dead"))
            for hours in (1, 2):
                producer.send(Message("orders", b"later", delay_ms=hours * 3_600_000))
        yield control


def says(control: str, name: str, form: dict[str, str]) -> str:
    found = page(f"{control}/ui/do/{name}?{urllib.parse.urlencode(form)}")
    assert found.status == 200, found.text
    return words_of(found.text)


def test_every_action_shows_what_will_change_or_only_adds_something() -> None:
    assert {name for name, one in ACTIONS.items() if one.warn is None} == ADDS
    assert {*SAYS} == {*ACTIONS} - ADDS


def test_no_form_changes_anything_without_a_warning_before() -> None:
    """Only the page that shows what will change may have a form that carries the action out."""
    for template in (Path(staticfire.dashboard.__file__).parent / "templates").glob("*.html"):
        direct = re.findall(r"""(?:method="post" action|hx-post)="\{\{ address\('/do/([^']*)'""", template.read_text())
        assert {*direct} <= ({""} if template.name == "confirm.html" else ADDS), template.name


@pytest.mark.parametrize("name", [name for name in SAYS if "fault" not in name])
def test_a_warning_has_names_and_numbers_and_changes_nothing(control: str, name: str) -> None:
    form, words = SAYS[name]
    before = everything(control)
    assert re.search(words, says(control, name, form)), says(control, name, form)
    assert everything(control) == before


def test_warnings_about_faults_have_names_and_numbers_and_change_nothing(control: str) -> None:
    form, words = SAYS["add-fault"]
    assert re.search(words, says(control, "add-fault", form))
    assert get(f"{control}/faults")[1]["faults"] == []
    for action in ("drop", "close"):
        assert act(control, "add-fault", action=action, code="PULL_MESSAGE", topic="nothing").status == 200
    first = min(one["number"] for one in get(f"{control}/faults")[1]["faults"])
    for name in ("remove-fault", "clear-faults"):
        form, words = SAYS[name]
        found = says(control, name, {field: str(first) for field in form})
        assert re.search(words.replace("FIRST", str(first)).replace("SECOND", str(first + 1)), found), found
    assert len(get(f"{control}/faults")[1]["faults"]) == 2
    assert act(control, "clear-faults").status == 200
    assert "There is no rule. Nothing changes." in says(control, "clear-faults", {})
    gone = page(f"{control}/ui/do/remove-fault?number={first}")
    assert (gone.status, f"there is no fault rule {first} any more" in gone.text) == (404, True)


def test_the_warning_before_the_end_of_a_kill_mentions_that_the_process_is_started_again() -> None:
    with Cluster(isolation="process") as cluster:
        assert act(cluster.control, "add-fault", action="kill", broker="broker-a").status == 200
        number = str(get(f"{cluster.control}/faults")[1]["faults"][0]["number"])
        for name, form in (("remove-fault", {"number": number}), ("clear-faults", {})):
            assert "A process that it has killed is started again." in says(cluster.control, name, form)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("clock", {"mode": "backwards"}), ("clock", {"mode": "scaled", "rate": "fast"}),
        ("clock", {"mode": "scaled", "rate": "-5"}), ("clock", {"mode": "scaled", "rate": "nan"}), ("clock", {}),
        ("advance", {"by": "a while"}), ("advance", {}), ("add-fault", {"action": "answer", "value": "NOTHING"}),
        ("add-fault", {"action": "drop", "broker": "broker-z"}), ("add-fault", {}), ("save-snapshot", {"name": "a/b"}),
        ("add-fault", {"action": "kill", "broker": "broker-z"}),
        ("change-topic", {"topic": "a/b\"ü"}), ("restore-snapshot", {"name": "ü/\""}),
    ],
)  # fmt: skip
def test_what_isnt_possible_is_refused_before_the_button(control: str, name: str, form: dict[str, str]) -> None:
    found = page(f"{control}/ui/do/{name}?{urllib.parse.urlencode(form)}")
    assert (found.status in (400, 404), 'role="alert"' in found.text) == (True, True), found.text
    assert act(control, name, **form).status in (400, 404)


def test_a_clock_that_is_already_in_the_mode_changes_nothing(control: str) -> None:
    assert "Nothing changes: the clock is frozen already" in says(control, "clock", {"mode": "frozen"})
    for mode, words in (("skipping", "jumps from"), ("scaled", "runs 60 times as fast")):
        assert words in says(control, "clock", {"mode": mode})


def everything(control: str) -> list[object]:
    """Return what actions can change."""
    paths = ("/topics/orders", "/groups/billing", "/dlq", "/snapshots", "/faults", "/overview")
    clock = get(f"{control}/clock")[1]
    return [clock["mode"], clock["messageMs"], *(get(f"{control}{path}")[1] for path in paths)]
