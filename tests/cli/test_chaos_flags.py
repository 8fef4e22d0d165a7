"""The flags of `staticfire chaos`, each with another value than its default: what the runs do, and what they show."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import call
from tests.ports import free_ports

pytestmark = [pytest.mark.row("S10"), pytest.mark.slow]

SHOP = """
import asyncio, json, os
from staticfire import Admin, Message, Producer
with Producer("shop", os.environ["NAMESRV_ADDR"]) as shop:
    for number in range(3):
        shop.send(Message("orders", b"1 book", keys=str(number)))
        for _ in range(2 if os.path.exists(os.environ["MARK"]) else 1):
            shop.send(Message("invoices", b"please pay", keys=str(number)))
async def seen():
    async with Admin(os.environ["NAMESRV_ADDR"]) as admin:
        queues = {one.broker_name: one.read_queue_nums for one in (await admin.route("orders")).queue_datas}
        return {"namesrv": os.environ["NAMESRV_ADDR"], "brokers": await admin.masters(), "queues": queues}
print(json.dumps(asyncio.run(seen())), flush=True)
with open(os.environ["MARK"], "a") as mark:
    mark.write("run\\n")
"""
"""From its second run on, it makes two invoices of each order. It prints the cluster that it has used."""

PROGRAM = ("--", sys.executable, "-c", SHOP)
EACH = ("--each", "orders -> invoices by key")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file with one line for each run of the program."""
    return tmp_path / "mark"


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_ports_and_settings_of_the_cluster_and_outputs_beside_json(mark: Path) -> None:
    namesrv, _, broker, *_ = free_ports()
    flags = ["--namesrv-port", namesrv, "--broker-port", broker, "--set", "defaultTopicQueueNums=3",
             "--at-rest", "echo at rest; exit 5", "--show-output", "--json"]  # fmt: skip
    done = call("chaos", *flags, *PROGRAM, MARK=str(mark))
    [calm] = lines_of(done.stdout)
    assert (done.returncode, calm["exitCode"]) == (1, 0)
    assert [one["words"] for one in calm["broken"]] == ["the command of --at-rest ended with exit code 5"]
    seen, at_rest = done.stderr.splitlines()
    assert json.loads(seen) == {
        "namesrv": f"127.0.0.1:{namesrv}", "brokers": {"broker-a": f"127.0.0.1:{broker}"}, "queues": {"broker-a": 3},
    }  # fmt: skip
    assert at_rest == "at rest"


def test_plan_is_printed_without_the_faults_that_are_not_wanted(mark: Path) -> None:
    flags = ["--seeds", "2", "--never", "busy,slow,lost-answer", "--faults", "2"]
    done = call("chaos", "--plan", "--json", *flags, *PROGRAM, MARK=str(mark))
    calm, *plans = lines_of(done.stdout)
    assert [(one["run"], one["seed"], one["numbers"]) for one in plans] == [("plan", 1, [2]), ("plan", 2, [2])]
    assert all("--duplicate" in command for one in plans for command in one["faults"])
    assert (done.returncode, calm["run"], mark.read_text()) == (0, "calm", "run\n")


def test_no_empty_file_is_left_if_there_is_nothing_to_write(tmp_path: Path) -> None:
    test = tmp_path / "test_seed.py"
    assert call("chaos", "--test", str(test), "--", "false").returncode == 1
    assert not test.exists()


def test_first_broken_seed_is_the_last_one_and_its_test_has_the_same_cluster(mark: Path, tmp_path: Path) -> None:
    test = tmp_path / "test_seed.py"
    flags = "--at-rest true --limit 5m --settle 2s --brokers 2 --set defaultTopicQueueNums=3"
    runs = ["--seeds", "3", "--until-broken", "--no-shrink", "--json", "--test", str(test)]
    done = call("chaos", *runs, *flags.split(), *EACH, *PROGRAM, MARK=str(mark))
    _, seed, end = lines_of(done.stdout)
    assert (done.returncode, end["seeds"], seed["tries"], mark.read_text()) == (1, 1, 1, "run\nrun\n")
    repeat = seed["repeat"].partition(" -- ")[0]
    assert repeat.endswith(flags)
    source = test.read_text("utf-8")
    assert "brokers=2, settings={'defaultTopicQueueNums': '3'}" in source
    assert "subprocess.run('true', shell=True, env=environment, check=True, timeout=300)" in source


def test_program_gets_tls_if_brokers_speak_nothing_else(mark: Path) -> None:
    done = call("chaos", "--plan", "--set", "tls.server.mode=enforcing", *PROGRAM, MARK=str(mark))
    assert (done.returncode, mark.read_text()) == (0, "run\n"), done.stdout
    assert "it uses topics invoices, orders" in done.stdout


def test_failing_seed_is_repeated_and_reduced_to_one_of_its_faults(mark: Path) -> None:
    """Each run after the first one fails, so that no fault is needed: one is left."""
    flags = ["--only", "duplicate,busy", "--faults", "1,2"]
    done = call("chaos", *flags, *EACH, *PROGRAM, MARK=str(mark))
    assert done.returncode == 1, done.stdout
    assert "2 of 2 faults hit" in done.stdout
    assert "it failed 3 of 3 times" in done.stdout
    assert "1 of 2 faults reproduce it (1 run)" in done.stdout
    assert len(mark.read_text().splitlines()) == 1 + 1 + 2 + 1
