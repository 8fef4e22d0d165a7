"""The control endpoint over HTTP."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse

import pytest

from staticfire import Cluster
from tests.cli.commands import FREE_PORTS, Up, get


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with Cluster(brokers=2) as cluster:
        yield cluster.control


def test_root_lists_processes_and_paths(control: str) -> None:
    status, there = get(control)
    assert status == 200
    assert [process["name"] for process in there["processes"]] == ["nameserver", "broker-a", "broker-b"]
    assert all(process["address"].startswith("127.0.0.1:") for process in there["processes"])
    assert there["temporary"] is True
    assert {"GET /health", "POST /reset"} <= there["paths"].keys()


def test_healthy_means_every_broker_answers_and_has_routes(control: str) -> None:
    assert get(f"{control}/health") == (200, {"healthy": True, "problems": []})


def test_unknown_path_answers_with_the_list_of_paths(control: str) -> None:
    status, reported = get(f"{control}/helth")
    assert status == 404
    assert reported["error"] == "GET /helth: Not Found: did you mean /health?"
    assert "GET /health" in reported["paths"]


def test_wrong_method_answers_with_the_right_one(control: str) -> None:
    status, reported = get(f"{control}/reset")
    assert status == 405
    assert reported["error"] == "GET /reset: use POST"


def test_page_of_another_site_cant_reset_the_cluster(control: str) -> None:
    assert get(f"{control}/reset", "POST", Origin="https://elsewhere.example")[0] == 403
    assert get(f"{control}/reset", "POST", Origin="http://localhost:3000")[0] == 403
    assert get(f"{control}/reset", "POST", Origin="null")[0] == 403
    assert get(f"{control}/reset", "POST", Origin=control)[0] == 200


def test_name_that_was_pointed_at_us_cant_reset_the_cluster(control: str) -> None:
    """DNS rebinding: Origin and Host are the same, and both are the attacker's."""
    port = control.rpartition(":")[2]
    for forged in (
        f"elsewhere.example:{port}",
        "127.0.0.1.elsewhere.example",
        "localhost.elsewhere.example",
        "8.8.8.8",
    ):
        status, reported = get(f"{control}/reset", "POST", Host=forged, Origin=f"http://{forged}")
        assert status == 403, forged
        assert "--control-hosts" in reported["error"]
        assert get(control, Host=forged)[0] == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8082", "localhost.", "127.0.0.1", "127.0.0.9:1", "[::1]:8082"]
)
def test_own_names_are_answered(control: str, host: str) -> None:
    assert get(f"{control}/health", Host=host)[0] == 200


def test_two_host_headers_or_none_are_refused(control: str) -> None:
    host, _, port = control.removeprefix("http://").partition(":")
    for headers in ("", "Host: 127.0.0.1\r\nHost: elsewhere.example\r\n"):
        with socket.create_connection((host, int(port)), timeout=60) as sock:
            sock.sendall(f"GET / HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode())
            answer = sock.makefile("rb").readline()
        assert answer.split()[1] in (b"400", b"403"), answer


def test_names_that_were_given_are_answered() -> None:
    with Cluster(control_hosts=["stand.example"]) as cluster:
        assert get(cluster.control, Host="stand.example:8082")[0] == 200
        assert get(cluster.control, Host="elsewhere.example")[0] == 403


def test_reset_reports_what_was_removed(control: str) -> None:
    assert get(f"{control}/reset", "POST") == (200, {"topics": [], "groups": []})


NO_HTTP = [
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nno header\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /clock HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /clock HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /clock HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
]


def test_bytes_that_are_no_http_are_reported_in_one_line_each() -> None:
    with Up("up", *FREE_PORTS) as up:
        port = int(up.reported("CONTROL").rpartition(":")[2])
        for data in NO_HTTP:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(data)
                response = HTTPResponse(client)
                response.begin()
                assert response.status == 400
                assert response.headers.get_content_type() == "application/json"
                assert json.load(response)["error"]
        exit_code, err = up.stop()
    assert exit_code == 0
    reported = err.splitlines()
    assert len(reported) == len(NO_HTTP)
    assert all("event=request_unreadable" in line for line in reported)


HALF = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{",
]


@pytest.mark.parametrize("half", HALF, ids=["head", "body"])
def test_half_a_request_is_answered_with_408(half: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("half_requests", "site"):
        monkeypatch.setattr(f"staticfire.control.{module}.HALF_REQUEST_S", 0.05)
    with Cluster() as cluster:
        host, _, port = cluster.control.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as sock:
            sock.sendall(half)
            assert sock.makefile("rb").readline() == b"HTTP/1.1 408 Request Timeout\r\n"
