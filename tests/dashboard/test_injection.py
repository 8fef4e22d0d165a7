"""Names that clients give themselves, texts of faults and of errors: none of them is HTML on any page."""

import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from staticfire import Cluster, Message, Producer
from tests.cli.commands import get
from tests.dashboard.members import FAILS, Members
from tests.dashboard.test_pages import act, event, page

pytestmark = [pytest.mark.row("S9")]

SCRIPT = "<script>alert(1)</script>"
ODD = SCRIPT + "\"'/%41&amp;"
SHOWN = "&lt;script&gt;"


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        with Members(cluster, "billing", "orders") as members:
            members.join(ODD)
            with Producer("shop", cluster.namesrv) as producer:
                producer.send(Message("orders", FAILS, keys=["failed"]))
            while not get(f"{cluster.control}/journal?kind=delivered&group=billing")[1]["records"]:
                pass
            yield cluster.control


def client_of(control: str) -> str:
    (member,) = get(f"{control}/group/billing")[1]["members"]
    assert SCRIPT in member["clientId"]
    return str(member["clientId"])


@pytest.mark.parametrize("path", ["/groups/billing", "/journal", "/messages/failed"])
def test_the_id_of_a_client_is_never_html(control: str, path: str) -> None:
    text = page(f"{control}/ui{path}").text
    assert (SCRIPT in text, SHOWN in text) == (False, True)


def test_pages_of_a_member_with_an_odd_id(control: str) -> None:
    client = urllib.parse.quote(client_of(control), safe="")
    for path in (f"/groups/billing/members/{client}", f"/groups/billing/members/{client}?stack=1"):
        found = page(f"{control}/ui{path}")
        assert (found.status, SCRIPT in found.text, SHOWN in found.text) == (200, False, True)
        assert f"/groups/billing/members/{client}" in page(f"{control}/ui/groups/billing").text
    says = page(f"{control}/ui/do/consume?group=billing&id=failed&client={client}").text
    assert (SCRIPT in says, SHOWN in says) == (False, True)
    done = act(control, "consume", group="billing", id="failed", client=client_of(control))
    assert (done.status, SCRIPT in done.text, SHOWN in done.text) == (200, False, True)


def test_live_parts_are_never_html_of_clients(control: str) -> None:
    with urllib.request.urlopen(f"{control}/ui/live?page=/ui/groups/billing", timeout=60) as stream:
        part = event(stream)
    assert (SCRIPT in part, SHOWN in part) == (False, True)


def test_words_of_a_fault_and_of_errors_are_never_html(control: str) -> None:
    added = act(
        control, "add-fault", action="answer", value="SYSTEM_BUSY", code="PULL_MESSAGE", topic=SCRIPT, client=ODD
    )
    shown = page(f"{control}/ui/faults").text
    assert act(control, "clear-faults").status == 200
    refused = [
        act(control, "add-fault", action="answer", value=SCRIPT),
        act(control, "add-fault", action="delay", value=SCRIPT),
        act(control, "clock", mode=SCRIPT),
        act(control, "clock", mode="scaled", rate=SCRIPT),
        act(control, "advance", by=SCRIPT),
        page(f"{control}/ui/do/save-snapshot", {"name": SCRIPT}, Origin=control),
        act(control, "create-topic", topic=SCRIPT),
        act(control, "create-topic", topic="t", queues=SCRIPT),
        act(control, "send", topic="orders", body="b", delay=SCRIPT),
        act(control, "reset-offsets", group="billing", topic=SCRIPT, to=SCRIPT),
        act(control, "resend", group="billing", ids=SCRIPT),
    ]
    assert added.status == 200
    assert not [one.text for one in refused if one.status < 400]
    texts = [added.text, shown, *(one.text for one in refused)]
    assert [text for text in texts if SCRIPT in text] == []
