"""The flags of a cluster at `staticfire run`, each with another value than its default: what its command finds."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.commands import call, one_line
from tests.ports import free_ports

pytestmark = pytest.mark.row("E2")

LOOK = """
import json, os, urllib.error, urllib.request
def status(path, **headers):
    request = urllib.request.Request(os.environ["STATICFIRE_CONTROL"] + path, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
token = os.environ.get("STATICFIRE_CONTROL_TOKEN")
bearer = {"Authorization": f"Bearer {token}"} if token else {}
with urllib.request.urlopen(urllib.request.Request(os.environ["STATICFIRE_CONTROL"], headers=bearer)) as answer:
    processes = json.load(answer)["processes"]
print(json.dumps({
    "namesrv": os.environ["NAMESRV_ADDR"],
    "control": os.environ["STATICFIRE_CONTROL"],
    "endpoint": os.environ.get("ROCKETMQ_ENDPOINT"),
    "token": token,
    "without": status("/topics"),
    "shop": status("/topics", Host="shop.example", **bearer),
    "bank": status("/topics", Host="bank.example", **bearer),
    "brokers": [found["address"] for found in processes if found["name"] == "broker-a"],
}))
"""


def test_ports_addresses_names_and_the_token(tmp_path: Path) -> None:
    namesrv, _, broker, *_, control = free_ports()
    flags = ["--listen", "127.0.0.2", "--namesrv-port", namesrv, "--broker-port", broker,
             "--control-port", control, "--control-address", "127.0.0.3", "--control-token", "a-long-t0ken",
             "--dir", tmp_path]  # fmt: skip
    done = call("run", "--no-grpc", *map(str, flags), "--", sys.executable, "-c", LOOK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "namesrv": f"127.0.0.2:{namesrv}", "control": f"http://127.0.0.3:{control}", "endpoint": None,
        "token": "a-long-t0ken", "without": 401, "shop": 200, "bank": 200, "brokers": [f"127.0.0.2:{broker}"],
    }  # fmt: skip
    assert (tmp_path / "broker-a").is_dir()


def test_the_same_by_the_environment() -> None:
    given = {"STATICFIRE_LISTEN": "127.0.0.2", "STATICFIRE_CONTROL_HOSTS": "bank.example, shop.example"}
    done = call("run", "--no-grpc", "--nameservers", "2", "--", sys.executable, "-c", LOOK, **given)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [address.rpartition(":")[0] for address in found["namesrv"].split(";")] == ["127.0.0.2"] * 2
    assert (found["without"], found["shop"], found["bank"]) == (200, 200, 200)


def test_the_control_endpoint_accepts_no_other_names_without_a_token() -> None:
    done = call("run", "--no-grpc", "--control-hosts", "shop.example", "--", sys.executable, "-c", LOOK)
    found = json.loads(done.stdout)
    assert (found["without"], found["shop"], found["bank"]) == (200, 200, 403)


@pytest.mark.slow
def test_users_slaves_and_who_lets_them_take_over(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerClusterName=shop-cluster\n")
    flags = ["--user", "admin:the-secret-of-admin", "--replicas", "1", "--failover", "auto", "-c", str(file)]
    commands = ("user list", "replication", "mqadmin clusterList")
    shell = "; ".join(f"{sys.executable} -m staticfire {one}" for one in commands)
    done = call("run", "--no-grpc", *flags, "--", "sh", "-c", shell)
    assert done.returncode == 0, done.stderr
    for words in ("admin", "may do everything", "broker-a-1", "shop-cluster"):
        assert words in done.stdout


LOSE_THE_MASTER = """
import json, os, threading, urllib.request
from staticfire import Message, Producer, SendStatus, StaticfireError
def control(path, **sent):
    data = json.dumps(sent).encode() if sent else None
    with urllib.request.urlopen(os.environ["STATICFIRE_CONTROL"] + path, data) as answer:
        return json.load(answer)
def master():
    return next(one["address"] for one in control("/replication")["replicas"] if one["id"] == 0)
before = master()
with Producer("shop", os.environ["NAMESRV_ADDR"]) as shop:
    while shop.send(Message("orders", b"before")).status != SendStatus.SEND_OK:
        pass  # The slave isn't connected yet.
    control("/faults", broker="broker-a", kill=True)
    for _ in range(1_000):
        try:
            shop.send(Message("orders", b"after"))
            break
        except StaticfireError:
            threading.Event().wait(0.05)
assert master() != before
"""


@pytest.mark.slow
def test_a_slave_takes_over_and_clients_continue_there() -> None:
    shell = '"$0" -c "$1" && "$0" -m staticfire peek orders --json'
    command = ["sh", "-c", shell, sys.executable, LOSE_THE_MASTER]
    flags = ["--replicas", "1", "--failover", "auto", "--set", "brokerRole=SYNC_MASTER"]
    done = call("run", "--no-grpc", *flags, "--", *command)
    assert done.returncode == 0, done.stderr
    assert {json.loads(line)["body"] for line in done.stdout.splitlines()} == {"before", "after"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--failover auto", "--failover auto needs slaves"),
        ("--user admin", "--user must be written as NAME:SECRET"),
        ("--control-address 0.0.0.0", "token"),
        ("--listen nowhere.invalid", "nowhere.invalid"),
    ],
)
def test_what_cant_work_is_refused_in_one_line(flags: str, words: str) -> None:
    refused = call("run", "--no-grpc", *flags.split(), "--", "true")
    assert refused.returncode == 2
    assert words in one_line(refused.stderr)
