"""`mqnamesrv` and `mqbroker`: servers started with the flags of RocketMQ's start scripts."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import Up, call, command, environment, one_line

pytestmark = pytest.mark.row("E2")

PLACE = "listenHost=127.0.0.1\nlistenPort=0\nvipPortEnable=false\n"


def conf(folder: Path, text: str = "") -> str:
    file = folder / "broker.conf"
    file.write_text(PLACE + text)
    return str(file)


def test_a_cluster_is_started_with_rocketmqs_flags_and_says_so_in_rocketmqs_words(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    with Up(
        "mqnamesrv", "-c", conf(tmp_path), ready="The Name Server boot success. serializeType=JSON", **home
    ) as names:
        namesrv = names.lines[-1].rpartition(" ")[2]
        file = conf(tmp_path, "brokerRole=SYNC_MASTER\nhaListenPort=1\nautoCreateTopicEnabel=true\n")
        ready = "The broker[broker-a, 127.0.0.1:"
        with Up("mqbroker", "-n", namesrv, "-c", file, ready=ready, **home) as broker:
            assert broker.lines[-1].endswith(f"] boot success. serializeType=JSON and name server is {namesrv}")
            assert " orders broker-a/" in one_line(call("send", "orders", "hello", NAMESRV_ADDR=namesrv).stdout)
            exit_code, err = broker.stop(signal.SIGTERM)
        assert exit_code == 0
        assert "did you mean autoCreateTopicEnable?" in err
        assert "have no effect here: haListenPort" in err
        assert (tmp_path / "store" / "commitlog").is_dir()


def test_a_slave_is_started_with_its_broker_conf(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("names", "master", "slave")]
    for folder in folders:
        folder.mkdir()
    names_home, master_home, slave_home = folders
    ready = "The broker[broker-a, 127.0.0.1:"
    with Up("mqnamesrv", "-c", conf(names_home), ready="The Name Server boot success.", HOME=str(names_home)) as names:
        namesrv = names.lines[-1].rpartition(" ")[2]
        master = conf(master_home, "brokerRole=SYNC_MASTER\ninSyncReplicas=2\n")
        slave = conf(slave_home, "brokerRole=SLAVE\nbrokerId=1\n")
        with (
            Up("mqbroker", "-n", namesrv, "-c", master, ready=ready, HOME=str(master_home)),
            Up("mqbroker", "-n", namesrv, "-c", slave, ready=ready, HOME=str(slave_home)),
        ):
            assert " orders broker-a/" in one_line(call("send", "orders", "hello", NAMESRV_ADDR=namesrv).stdout)
            shown = call("replication", NAMESRV_ADDR=namesrv).stdout
            assert "copied by 1; sends wait for 2 copies" in shown
            assert "SLAVE" in shown


def test_flag_wins_over_file_and_file_over_namesrv_addr(tmp_path: Path) -> None:
    def namesrv(*flags: str, text: str = "") -> str:
        shown = call("mqbroker", "-p", *flags, "-c", conf(tmp_path, text), NAMESRV_ADDR="environment:1").stdout
        return next(line for line in shown.splitlines() if line.startswith("namesrvAddr="))

    assert namesrv() == "namesrvAddr=environment:1"
    assert namesrv(text="namesrvAddr=file:1\n") == "namesrvAddr=file:1"
    assert namesrv("-n", "flag:1", text="namesrvAddr=file:1\n") == "namesrvAddr=flag:1"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused = call("mqbroker", "-n", "127.0.0.1:9", HOME=str(tmp_path))
    assert refused.returncode == 2
    assert f"{tmp_path}/store: Permission denied for user {os.getuid()}" in one_line(refused.stderr)


def test_a_signal_that_comes_while_a_server_begins_is_not_lost(tmp_path: Path) -> None:
    arguments = command("mqbroker", "-n", "127.0.0.1:9", "-c", conf(tmp_path))
    process = subprocess.Popen(
        arguments, env=environment(HOME=str(tmp_path)), stdout=subprocess.PIPE, preexec_fn=_hold_back_sigterm
    )
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=100)[0] == b""
    assert process.returncode == 0


def _hold_back_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
