"""The control endpoint over HTTP."""

from collections.abc import Iterator

import pytest

from staticfire import Cluster
from tests.cli.commands import get


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
    status, told = get(f"{control}/helth")
    assert status == 404
    assert told["error"] == "GET /helth: Not Found"
    assert "GET /health" in told["paths"]


def test_wrong_method_answers_with_the_right_one(control: str) -> None:
    status, told = get(f"{control}/reset")
    assert status == 405
    assert told["error"] == "GET /reset: use POST"


def test_page_of_another_site_cant_reset_the_cluster(control: str) -> None:
    assert get(f"{control}/reset", "POST", Origin="https://elsewhere.example")[0] == 403
    assert get(f"{control}/reset", "POST", Origin=control)[0] == 200


def test_reset_tells_what_was_forgotten(control: str) -> None:
    assert get(f"{control}/reset", "POST") == (200, {"topics": [], "groups": []})
