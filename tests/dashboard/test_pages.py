"""The pages over HTTP: what they show and refuse. In a browser: test_in_browser.py."""

import json
import re
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from email.message import Message as Headers
from pathlib import Path
from typing import NamedTuple

import pytest

from staticfire import Admin, Cluster, Message, Producer, SimpleConsumer
from staticfire.dashboard.pages import PAGES
from tests.cli.commands import FREE_PORTS, Up, get

pytestmark = [pytest.mark.row("S9")]

SCRIPT = "<script>alert(1)</script>"
TOKEN = "correct-horse"
BODY = SCRIPT.encode()
HELD_BODY_MAX = 64 * 1024


class Page(NamedTuple):
    status: int
    text: str
    headers: Headers


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def page(url: str, form: dict[str, str] | None = None, **headers: str) -> Page:
    data = None if form is None else urllib.parse.urlencode(form).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    try:
        with OPENER.open(urllib.request.Request(url, data, named), timeout=60) as answer:
            return Page(answer.status, answer.read().decode(), answer.headers)
    except urllib.error.HTTPError as refused:
        with refused:
            return Page(refused.code, refused.read().decode(), refused.headers)


def words_of(html: str) -> str:
    """Return the text of a page, with one space between its parts."""
    return re.sub(r"(?:<[^>]*>|\s)+", " ", html)


def act(control: str, name: str, /, **form: str) -> Page:
    return page(f"{control}/ui/do/{name}", form, Origin=control)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", queues=2)
        cluster.create_topic("resent")
        with Producer("shop", cluster.namesrv) as producer:
            properties = {SCRIPT: SCRIPT}
            producer.send(Message("orders", BODY, tags=SCRIPT, keys=[SCRIPT, "order-1"], properties=properties))
            producer.send(Message("%DLQ%billing", BODY, tags=SCRIPT, keys=[SCRIPT], properties=properties))
            producer.send(Message("orders", bytes(range(256)), keys=["binary"]))
            producer.send(Message("orders", b"x" * 3_900_000, keys=["large"]))
        with Admin(cluster.namesrv) as admin:
            admin.create_group("billing")
        yield cluster


@pytest.fixture(scope="module")
def control(cluster: Cluster) -> str:
    return cluster.control


@pytest.mark.parametrize("path", [one.path for one in PAGES if "{" not in one.path])
def test_every_page_of_the_menu_is_served_with_a_policy_against_scripts(control: str, path: str) -> None:
    found = page(f"{control}/ui{path}")
    assert found.status == 200
    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for words in ("frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "script-src 'self';"):
        assert words in policy
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert found.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", found.text)


def test_a_browser_gets_from_the_address_of_the_endpoint_to_the_pages(control: str) -> None:
    found = page(f"{control}/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (found.status, found.headers["Location"]) == (302, "/ui/")
    assert get(f"{control}/", Accept="*/*")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/messages?topic=orders", "/messages?key=order-1", "/messages/order-1", "/topics/orders", "/dlq/billing",
        "/messages?topic=orders&from=0&to=9999999999999", "/dlq/billing?match=script",
    ],
)  # fmt: skip
def test_a_message_is_never_html(control: str, path: str) -> None:
    found = page(f"{control}/ui{path}")
    assert found.status == 200
    assert SCRIPT not in found.text
    assert "&lt;script&gt;alert(1)" in found.text


def test_a_dead_letter_is_never_html(control: str) -> None:
    (letter,) = get(f"{control}/dlq/billing")[1]["letters"]
    found = page(f"{control}/ui/dlq/billing/{urllib.parse.quote(letter['id'], safe='')}")
    assert found.status == 200
    assert SCRIPT not in found.text
    assert "&lt;script&gt;alert(1)" in found.text


@pytest.mark.parametrize(
    "address",
    [f"/topics/{SCRIPT}", f"/groups/{SCRIPT}", f"/messages/{SCRIPT}", f"/dlq/{SCRIPT}", f"/messages?key={SCRIPT}",
     f"/topics?match={SCRIPT}", f"/journal?group={SCRIPT}", f"/do/consume?group=billing&id={SCRIPT}", f"/{SCRIPT}",
     f"/live?page={SCRIPT}", f"/do/{SCRIPT}"],
)  # fmt: skip
def test_a_text_in_an_address_is_never_html(control: str, address: str) -> None:
    found = page(f"{control}/ui{urllib.parse.quote(address, safe='/?=&')}")
    assert found.status < 500
    assert SCRIPT not in found.text


@pytest.mark.parametrize("name", ["a/b", "ä", '"quoted"', "日本", "x" * 300, "..", "%DLQ%nothing", " "])
@pytest.mark.parametrize("path", ["/topics/", "/groups/", "/dlq/", "/messages/"])
def test_an_unknown_name_of_any_form_is_not_found(control: str, path: str, name: str) -> None:
    found = page(f"{control}/ui{path}{urllib.parse.quote(name, safe='')}")
    assert found.status in (400, 404), found.text
    assert 'role="alert"' in found.text


def test_a_binary_body_is_shown_as_hex_and_a_large_one_only_at_its_beginning(control: str) -> None:
    binary = page(f"{control}/ui/messages/binary").text
    assert "000000  00 01 02 03" in binary
    assert "0000f0  f0 f1 f2 f3" in binary
    assert "256 B" in re.sub(r"<[^>]+>", "", binary)
    large = page(f"{control}/ui/messages/large").text
    assert len(large) < HELD_BODY_MAX
    assert "only the beginning is shown" in large


def test_an_action_of_another_page_or_of_no_page_is_refused(control: str) -> None:
    address = f"{control}/ui/do/create-topic"
    assert page(address, {"topic": "stolen"}, Origin="http://evil.example").status == 403
    assert page(address, {"topic": "stolen"}).status == 403
    assert "stolen" not in [one["topic"] for one in get(f"{control}/topics")[1]["topics"]]


def test_actions_change_the_cluster_and_say_what_they_did(control: str) -> None:
    made = act(control, "create-topic", topic="from-page", queues="3")
    assert "Topic from-page was created." in made.text
    sent = act(control, "send", topic="from-page", body="hello", keys="a b", tags="t")
    assert re.search(r"Message \w+ is in broker-[ab]/\d at offset 0", sent.text)
    says = page(f"{control}/ui/do/delete-topic?topic=from-page").text
    assert "with 1 message." in says
    assert "Topic from-page was deleted." in act(control, "delete-topic", topic="from-page").text
    assert act(control, "delete-topic", topic="from-page").status == 404


def test_a_wrong_value_is_refused_with_the_reason(control: str) -> None:
    wrong = act(control, "create-topic", topic="orders", queues="many")
    assert wrong.status == 400
    assert "queues" in wrong.text


def test_two_people_remove_the_same_rule(control: str) -> None:
    added = act(control, "add-fault", action="answer", value="SYSTEM_BUSY", code="PULL_MESSAGE", topic="nothing")
    found = re.search(r"Rule (\d+):", added.text)
    assert found is not None, added.text
    assert act(control, "remove-fault", number=found[1]).status == 200
    second = act(control, "remove-fault", number=found[1])
    assert (second.status, "there is no fault rule" in second.text) == (404, True)


def test_a_reset_of_offsets_is_shown_before_it_is_done(control: str) -> None:
    says = page(f"{control}/ui/do/reset-offsets?group=billing&topic=orders&to=latest").text
    assert "3 messages will be skipped" in says
    assert get(f"{control}/group/billing")[1]["progress"] == []
    done = act(control, "reset-offsets", group="billing", topic="orders", to="latest")
    assert "3 are skipped" in done.text
    assert sum(one["committed"] for one in get(f"{control}/group/billing")[1]["progress"]) == 3


def test_with_a_token_pages_need_a_login() -> None:
    with Up("up", *FREE_PORTS, "--control-token", TOKEN) as up:
        control = up.reported("CONTROL")
        locked = page(f"{control}/ui/topics?match=x")
        assert locked.status == 401
        assert 'name="back" value="/ui/topics?match=x"' in locked.text
        assert page(f"{control}/ui/live?page=/ui/").status == 401
        assert page(f"{control}/ui/do/reset", {}, Origin=control).status == 401
        assert page(f"{control}/ui/login", {"token": "wrong-horse"}, Origin=control).status == 401
        assert page(f"{control}/ui/login", {"token": TOKEN}, Origin="http://evil.example").status == 403
        logged = page(f"{control}/ui/login", {"token": TOKEN, "back": "/ui/topics?match=x"}, Origin=control)
        assert (logged.status, logged.headers["Location"]) == (303, "/ui/topics?match=x")
        cookie = logged.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/ui"} <= set(cookie.split("; "))
        assert TOKEN not in cookie
        given = cookie.partition(";")[0]
        assert page(f"{control}/ui/topics", Cookie=given).status == 200
        assert page(f"{control}/topics", Cookie=given).status == 401  # The calls of programs take the token only.
        assert page(f"{control}/ui/topics", Authorization=f"Bearer {TOKEN}").status == 200
        for link in set(re.findall(r'(?:href|src)="(/[^"#]*)"', page(f"{control}/ui/", Cookie=given).text)) - {
            "/ui/logout"
        }:
            assert page(f"{control}{link}", Cookie=given).status == 200, link
        assert page(f"{control}/ui/data/dlq/nothing").status == 401
        assert page(f"{control}/ui/data/dlq/nothing", Cookie=given).status == 404
        for foreign in ("https://evil.example/", "//evil.example", "/ui/\\evil.example", "/ui/\r\nX-Y: 1", "/ui/ä"):
            answer = page(f"{control}/ui/login", {"token": TOKEN, "back": foreign}, Origin=control)
            assert answer.headers["Location"] == "/ui/"


def test_a_dashboard_of_another_cluster_only_reads(cluster: Cluster) -> None:
    with Up("dashboard", "--namesrv", cluster.namesrv, "--port", "0") as up:
        control = up.reported("DASHBOARD").rstrip("/")
        assert "orders" in page(f"{control}/ui/topics").text
        assert act(control, "create-topic", topic="refused").status == 403
        assert get(f"{control}/reset", "POST")[0] == 403
        assert 'action="/ui/do/' not in page(f"{control}/ui/topics/orders").text
        exit_code, _ = up.stop()
    assert exit_code == 0


def test_a_dashboard_listens_at_the_given_address_and_knows_names_and_a_token(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.2", 0)) as free:
        port = free.getsockname()[1]
    place = "--address", "127.0.0.2", "--port", str(port)
    hosts = "--hosts", "shop.example, 127.0.0.2"
    with Up("dashboard", "--namesrv", cluster.namesrv, *place, *hosts) as up:
        control = up.reported("DASHBOARD").rstrip("/")
        assert control == f"http://127.0.0.2:{port}"
        assert [get(f"{control}/topics", Host=host)[0] for host in ("shop.example", "bank.example")] == [200, 403]
    with Up("dashboard", "--namesrv", cluster.namesrv, *place, "--token", "a-long-t0ken") as up:
        control = up.reported("DASHBOARD").rstrip("/")
        assert get(f"{control}/topics")[0] == 401
        assert get(f"{control}/topics", Authorization="Bearer a-long-t0ken")[0] == 200


def test_with_write_it_changes_the_cluster(cluster: Cluster) -> None:
    with Up("dashboard", "--namesrv", cluster.namesrv, "--port", "0", "--write") as up:
        control = up.reported("DASHBOARD").rstrip("/")
        assert act(control, "create-topic", topic="written").status == 200
        assert act(control, "delete-topic", topic="written").status == 200


def test_scripts_and_styles_are_small_and_kept_by_browsers(control: str) -> None:
    text = page(f"{control}/ui/").text
    addresses = re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', text)
    files = [page_of_bytes(f"{control}{one}") for one in addresses]
    assert sum(size for size, _ in files) < 150 * 1024
    assert {age for _, age in files} == {"public, max-age=31536000, immutable"}


def page_of_bytes(url: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return len(answer.read()), answer.headers["Cache-Control"]


def test_a_live_part_is_sent_at_once_and_again_when_it_changes(control: str) -> None:
    address = f"{control}/ui/live?page={urllib.parse.quote('/ui/topics?match=live-')}"
    with urllib.request.urlopen(address, timeout=60) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert "No topic has a name with" in event(stream)
        act(control, "create-topic", topic="live-1")
        assert "live-1" in event(stream)


def event(stream: object) -> str:
    lines = []
    for line in stream:  # type: ignore[attr-defined]  # a response is a file
        text = line.decode().rstrip("\n")
        if text.startswith("data: "):
            lines.append(text.removeprefix("data: "))
        elif lines:
            return "\n".join(lines)
    raise AssertionError("the stream has ended")


def test_dead_letters_are_resent_as_the_warning_says(control: str) -> None:
    (letter,) = get(f"{control}/dlq/billing")[1]["letters"]
    says = page(f"{control}/ui/do/resend?group=billing&ids={urllib.parse.quote(letter['id'])}&to=resent").text
    assert "1 dead letter will be sent again, to topic resent." in says
    left = act(control, "resend", group="billing", ids=letter["id"])
    assert "1 could not be sent" in left.text
    done = act(control, "resend", group="billing", ids=letter["id"], to="resent")
    assert "1 dead letter sent again" in done.text, done.text


def test_all_dead_letters_are_exported_from_the_page(control: str) -> None:
    (address,) = re.findall(r'href="([^"]*)" download=', page(f"{control}/ui/dlq/billing").text)
    found = page(f"{control}{address}")
    assert found.headers["Content-Disposition"] == "attachment"
    assert [json.loads(line)["group"] for line in found.text.splitlines()] == ["billing"]


def test_the_chosen_dead_letters_are_resent_and_no_others(cluster: Cluster, control: str) -> None:
    with Producer("shop", cluster.namesrv) as producer:
        for _ in range(3):
            producer.send(Message("%DLQ%choosing", b"failed"))
    with Admin(cluster.namesrv) as admin:
        admin.create_group("choosing")
    ids = [one["id"] for one in get(f"{control}/dlq/choosing")[1]["letters"]]
    chosen = urllib.parse.urlencode([("ids", ids[0]), ("ids", ids[2]), ("group", "choosing"), ("chosen", "1")])
    says = page(f"{control}/ui/do/resend?{chosen}").text
    assert "2 dead letters will be sent again" in says
    assert f'value="{ids[0]} {ids[2]}"' in says
    none = page(f"{control}/ui/do/resend?group=choosing&chosen=1")
    assert (none.status, "No dead letter is chosen" in none.text) == (400, True)
    assert act(control, "resend", group="choosing", chosen="1").status == 400
    assert (
        "2 dead letters sent again"
        in act(control, "resend", group="choosing", ids=f"{ids[0]} {ids[2]}", to="resent").text
    )


def test_a_queue_links_to_its_own_messages(control: str) -> None:
    text = page(f"{control}/ui/topics/orders").text
    links = re.findall(r'href="(/ui/messages[^"]*)">(broker-[ab])/(\d)<', text)
    assert {(name, queue) for _, name, queue in links} == {
        (name, queue) for name in ("broker-a", "broker-b") for queue in "01"
    }
    for link, name, queue in links:
        shown = page(f"{control}{link.replace('&amp;', '&')}").text
        assert set(re.findall(r"(broker-[ab]/\d) @", shown)) <= {f"{name}/{queue}"}


def test_a_group_shows_what_it_has_popped_and_what_waits(cluster: Cluster, control: str) -> None:
    cluster.create_topic("slow", queues=1)
    with Producer("shop", cluster.namesrv) as producer, SimpleConsumer("popping", cluster.namesrv) as consumer:
        consumer.subscribe("slow")
        producer.send(Message("slow", b"now"))
        producer.send(Message("slow", b"later", delay_ms=3_600_000))
        while not consumer.receive():
            pass
        while not (found := get(f"{control}/group/popping/waiting")[1])["waiting"]:
            pass  # A broker adds a message to its timers after it has stored it.
        assert [(one["topic"], one["kind"], one["count"]) for one in found["waiting"]] == [("slow", "timer", 1)]
        assert [(one["topic"], one["count"]) for one in found["popped"]] == [("slow", 1)]
        text = page(f"{control}/ui/groups/popping").text
    assert "popped, not acknowledged" in text
    assert "with their own time" in text


def test_a_page_without_a_live_part_cant_be_followed(control: str) -> None:
    for path in ("/ui/messages", "/ui/nothing", "", "x" * 5_000):
        assert page(f"{control}/ui/live?page={urllib.parse.quote(path)}").status == 404


def test_a_stop_doesnt_wait_for_browsers() -> None:
    with Up("up", *FREE_PORTS) as up:
        control = up.reported("CONTROL")
        with urllib.request.urlopen(f"{control}/ui/live?page=/ui/topics", timeout=60) as stream:
            event(stream)
            exit_code, err = up.stop()
    assert (exit_code, err) == (0, "")


def test_a_cluster_that_is_gone_is_an_error_that_ends_by_itself(tmp_path: Path) -> None:
    folder = ("--dir", str(tmp_path), "--no-grpc", "--control-port", "0", "--broker-port", "0")
    with Up("up", *folder, "--namesrv-port", "0") as up:
        namesrv = up.reported("NAMESRV_ADDR")
        with Up("dashboard", "--namesrv", namesrv, "--port", "0") as shown:
            control = shown.reported("DASHBOARD").rstrip("/")
            assert page(f"{control}/ui/topics").status == 200
            up.stop()
            gone = page(f"{control}/ui/topics")
            assert (gone.status, "data-live=" in gone.text) == (502, True), gone.text
            assert "GET /topics/orders: no nameserver responds" in page(f"{control}/ui/topics/orders").text
            with Up("up", *folder, "--namesrv-port", namesrv.rpartition(":")[2]):
                assert page(f"{control}/ui/topics").status == 200
