"""`staticfire nameserver` and `staticfire broker`: one process each, as scripts and images start them."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.commands import Up, call, one_line

ANY_PORT = ["--set", "listenHost=127.0.0.1", "--port", "0"]


def test_broker_registers_at_a_nameserver_that_was_started_alone(tmp_path: Path) -> None:
    with Up("nameserver", *ANY_PORT, ready="The Name Server boot success. ") as nameserver:
        namesrv = nameserver.lines[-1].rpartition(" ")[2]
        flags = [*ANY_PORT, "--dir", str(tmp_path), "--name", "broker-x", "--set", "vipPortEnable=false"]
        with Up("broker", *flags, ready="The broker[broker-x, 127.0.0.1:", NAMESRV_ADDR=namesrv) as broker:
            assert broker.lines[-1].endswith(f"boot success. serializeType=JSON and name server is {namesrv}")
            sent = call("send", "orders", "hello", NAMESRV_ADDR=namesrv)
            assert " orders broker-x/" in one_line(sent.stdout)
            assert broker.stop(signal.SIGTERM)[0] == 0
        assert nameserver.stop(signal.SIGINT)[0] == 0


@pytest.mark.parametrize(
    ("flag", "reported"),
    [("broker.example:7", "broker.example:7"), ("10.0.0.7", "10.0.0.7:"), ("[fd01::7]:7", "[fd01::7]:7")],
)
def test_a_broker_is_known_as_it_is_advertised(flag: str, reported: str) -> None:
    with Up("broker", *ANY_PORT, "--advertise", flag, ready="The broker[") as broker:
        assert broker.lines[-1].startswith(f"The broker[broker-a, {reported}")


def test_broker_without_a_folder_has_a_temporary_one_and_removes_it() -> None:
    with Up("broker", *ANY_PORT, ready="The broker[") as broker:
        (folder,) = Path(f"/proc/{broker.process.pid}/fd").parent.joinpath("cmdline").read_text().split("\0")[-2:-1]
        assert os.path.isdir(folder)
        exit_code, err = broker.stop()
    assert exit_code == 0
    assert folder in err
    assert not os.path.exists(os.path.dirname(folder))


def test_terminal_that_is_closed_stops_a_broker_in_order(tmp_path: Path) -> None:
    with Up("broker", *ANY_PORT, "--dir", str(tmp_path), ready="The broker[") as broker:
        assert broker.stop(signal.SIGHUP) == (0, "")


def test_folder_in_use_is_one_line(tmp_path: Path) -> None:
    with Up("broker", *ANY_PORT, "--dir", str(tmp_path), ready="The broker["):
        refused = call("broker", *ANY_PORT, "--dir", str(tmp_path))
    assert refused.returncode == 2
    assert str(tmp_path) in one_line(refused.stderr)


def test_settings_are_listed_and_the_example_file_is_one_that_works(tmp_path: Path) -> None:
    listed = call("broker", "--settings", COLUMNS="160").stdout
    assert "autoCreateTopicEnable" in listed
    example = call("broker", "--settings", "toml").stdout
    file = tmp_path / "broker.toml"
    file.write_text(example + f'\nstorePathRootDir = "{tmp_path}/data"\nlistenHost = "127.0.0.1"\n')
    with Up("broker", "--config", str(file), "--port", "0", ready="The broker["):
        assert (tmp_path / "data" / "commitlog").is_dir()


def test_help_lists_every_command() -> None:
    text = call("--help").stdout
    assert all(f"\n  {name} " in text for name in ("up", "run", "nameserver", "broker", "send", "peek"))


def test_unknown_command_is_one_line() -> None:
    refused = call("launch")
    assert refused.returncode == 2
    assert "unknown command launch; the commands are up, run" in one_line(refused.stderr)


def test_a_broker_that_refuses_its_settings_leaves_no_folder(tmp_path: Path) -> None:
    done = call("broker", *ANY_PORT, "--set", "messageDelayLevel=never", TMPDIR=str(tmp_path))
    assert done.returncode == 2
    assert "'never' is not a delay" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_no_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = call("broker", *ANY_PORT, "--dir", str(file))
    assert (done.returncode, done.stderr) == (2, f"staticfire broker: {file} is not a folder; choose another place\n")


def test_a_broker_is_no_nameserver() -> None:
    with Up("broker", *ANY_PORT, ready="The broker[") as broker:
        address = broker.lines[-1].partition(", ")[2].partition("]")[0]
        done = call("consume", "-g", "Billing", "Orders", "--timeout", "5s", NAMESRV_ADDR=address)
    assert done.returncode == 1
    assert f"the program at {address} is not a nameserver; it may be a broker" in one_line(done.stderr)
