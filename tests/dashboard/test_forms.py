"""Forms that lack a field, are too large, unreadable or never end."""

import socket
from collections.abc import Iterator

import pytest

from staticfire import Cluster
from staticfire.dashboard import site
from staticfire.dashboard.actions import ACTIONS
from tests.dashboard.test_pages import act, page

pytestmark = [pytest.mark.row("S9")]


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        yield cluster.control


def connected(control: str) -> socket.socket:
    host, _, port = control.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.mark.parametrize("name", [one.name for one in ACTIONS.values() if "{" in one.path])
def test_a_form_without_the_name_of_a_thing_is_refused(control: str, name: str) -> None:
    refused = act(control, name)
    assert (refused.status, "The form has no" in refused.text) == (400, True)
    assert page(f"{control}/ui/do/{name}").status == 400


@pytest.mark.parametrize("kind", ["multipart/form-data", "application/x-www-form-urlencoded; charset=nothing"])
def test_what_is_no_form_is_refused(control: str, kind: str) -> None:
    refused = page(f"{control}/ui/do/send", {"topic": "orders"}, Origin=control, Content_Type=kind)
    assert (refused.status, "The form can&#39;t be read" in refused.text) == (400, True)


def test_a_form_that_is_too_large_is_refused(control: str) -> None:
    refused = act(control, "send", topic="orders", body="x" * 1_100_000)
    assert (refused.status, "The form is too large: up to 1.0 MiB" in refused.text) == (413, True)


def test_a_form_that_never_ends_is_refused(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "HALF_REQUEST_S", 0.1)
    host = control.removeprefix("http://")
    with connected(control) as half:
        lines = ("POST /ui/login HTTP/1.1", f"Host: {host}", f"Origin: {control}", "Content-Length: 100")
        half.sendall(
            ("\r\n".join((*lines, "Content-Type: application/x-www-form-urlencoded")) + "\r\n\r\ntoken=").encode()
        )
        assert half.recv(64).startswith(b"HTTP/1.1 408 ")


def test_a_stream_that_no_browser_reads_is_closed(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unread(*_: object) -> bool:
        return False

    monkeypatch.setattr(site, "is_written", unread)
    got = b""
    with connected(control) as reader:
        reader.sendall(
            f"GET /ui/live?page=/ui/topics HTTP/1.1\r\nHost: {control.removeprefix('http://')}\r\n\r\n".encode()
        )
        try:
            while data := reader.recv(4096):
                got += data
        except ConnectionResetError:
            pass
    assert not got.endswith(b"0\r\n\r\n")  # That would be the end of a complete response.
