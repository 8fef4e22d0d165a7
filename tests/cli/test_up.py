"""`staticfire up`: real processes, from the ready line to the last exit code."""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from staticfire.launch.places import WantedCluster
from staticfire.launch.plan import CONTROL_PORT
from staticfire.launch.processes import ProcessCluster
from staticfire.protocol.errors import UsageError
from staticfire.runtime.ports import NEXT_PORTS
from tests.cli.commands import FREE_PORTS, TIMEOUT_S, Up, call, command, environment, get, one_line


def test_up_is_ready_serves_and_leaves_nothing_behind() -> None:
    with Up("up", "--brokers", "2", *FREE_PORTS) as up:
        assert up.lines[0].startswith("The Name Server boot success. serializeType=JSON, address 127.0.0.1:")
        boot_lines = {line.split(",")[0] for line in up.lines[1:3]}
        assert boot_lines == {"The broker[broker-a", "The broker[broker-b"}
        assert up.lines[-1].endswith("(temporary, removed at the end)")
        folder = up.reported("DIR")
        assert sorted(os.listdir(folder)) == ["broker-a", "broker-b", "nameserver"]
        assert get(f"{up.reported('CONTROL')}/health") == (200, {"healthy": True, "problems": []})

        exit_code, _ = up.stop(signal.SIGTERM)

        assert exit_code == 0
        assert not os.path.exists(folder)


def test_interrupt_stops_it_and_a_folder_of_yours_stays(tmp_path: Path) -> None:
    with Up("up", "--dir", str(tmp_path), *FREE_PORTS) as up:
        assert up.lines[-1].endswith(f"DIR={tmp_path}")
        exit_code, _ = up.stop(signal.SIGINT)
    assert exit_code == 0
    assert (tmp_path / "broker-a" / "commitlog").is_dir()


def test_a_folder_that_is_gone_is_reported_while_it_runs_and_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with Up("up", "--dir", str(folder), "--set", "cleanResourceInterval=50", *FREE_PORTS) as up:
        control = up.reported("CONTROL")
        shutil.rmtree(folder / "broker-a")
        answer = get(f"{control}/health")
        while answer[0] == 200:
            answer = get(f"{control}/health")
        exit_code, err = up.stop(signal.SIGTERM)
    assert answer[0] == 503
    assert re.match(r"broker-a stores nothing: the disk of .*broker-a can't be checked", answer[1]["problems"][0])
    assert exit_code == 1
    assert re.search(r"staticfire: broker-a \(pid \d+\) ended with exit code 1", err)


def test_child_that_dies_is_named_with_its_signal_and_ends_it_all() -> None:
    with Up("up", *FREE_PORTS) as up:
        broker = up.pids()["broker-a"]
        os.kill(broker, signal.SIGKILL)
        exit_code, err = up.ended()
    assert exit_code == 125
    assert f"staticfire: broker-a (pid {broker}) was killed by SIGKILL" in err


def test_children_stop_by_themselves_and_clean_up_when_up_is_killed() -> None:
    with Up("up", *FREE_PORTS) as up:
        folder = up.reported("DIR")
        # Its stdout is theirs, too: the end of it, which stop waits for, is the end of all of them.
        exit_code, _ = up.stop(signal.SIGKILL)
    assert exit_code == -signal.SIGKILL
    assert not os.path.exists(folder)


def test_taken_port_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = call("up", "--namesrv-port", str(port), "--broker-port", "0", "--control-port", "0")
    assert refused.returncode == 2
    line = one_line(refused.stderr)
    assert line.startswith(f"staticfire: port {port} is in use: ")
    assert f" (pid {os.getpid()}) has it; stop it, or choose another port" in line
    assert "--namesrv-port" in line


def test_a_port_of_another_cluster_is_refused_with_its_pid() -> None:
    with Up("up", *FREE_PORTS) as up:
        port = up.reported("NAMESRV_ADDR").rpartition(":")[2]
        refused = call("up", "--namesrv-port", port, "--broker-port", "0", "--control-port", "0")
        pid = up.process.pid
    assert refused.returncode == 2
    assert f"port {port} is in use: another `staticfire up` (pid {pid}) has it; " in one_line(refused.stderr)


def test_the_usual_control_port_is_left_to_another_program() -> None:
    with socket.socket() as dashboard:
        try:
            dashboard.bind(("127.0.0.1", CONTROL_PORT))
            dashboard.listen()
        except OSError:
            pass  # Then it belongs to another program already.
        with Up("up", "--namesrv-port", "0", "--broker-port", "0", "--no-grpc") as up:
            control = up.reported("CONTROL")
            assert get(f"{control}/health")[0] == 200
            _, err = up.stop()
        refused = call("up", *FREE_PORTS[:4], "--no-grpc", "--control-port", str(CONTROL_PORT))
    assert CONTROL_PORT < int(control.rpartition(":")[2]) < CONTROL_PORT + NEXT_PORTS
    said = f"staticfire: another program listens on port {CONTROL_PORT}: the control endpoint is {control}"
    assert err.splitlines() == [f"{said} (choose another port with --control-port)"]
    assert refused.returncode == 2
    assert f"port {CONTROL_PORT} is in use" in one_line(refused.stderr)


def test_a_second_process_that_refuses_the_folder_is_not_reported_again(tmp_path: Path) -> None:
    wanted = WantedCluster(namesrv_port=0, broker_port=0, directory=str(tmp_path))
    first, second = ProcessCluster.prepare(wanted), ProcessCluster.prepare(wanted)
    try:
        first.start()
        with pytest.raises(UsageError, match="is in use by"):
            second.start()
        for child in (second.children[name] for name in second.names):
            if child.exit_code is None:  # It has ended by itself, too, before it is stopped.
                os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert second.stop() == []
    finally:
        first.stop()


def test_folder_of_another_cluster_is_one_line(tmp_path: Path) -> None:
    with Up("up", "--dir", str(tmp_path), *FREE_PORTS):
        refused = call("up", "--dir", str(tmp_path), *FREE_PORTS)
    assert refused.returncode == 2
    assert str(tmp_path) in one_line(refused.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "flushDiskTyp=SYNC_FLUSH"], "did you mean flushDiskType?"),
        (["--set", "flushDiskType=NEVER"], "it must be ASYNC_FLUSH or SYNC_FLUSH"),
        (["--set", "flushDiskType"], "must be written as key=value"),
        (["--brokrs", "2"], "--brokers"),
        (["--brokers", "0"], "allowed are 1 to 26"),
        (["--config", "/nowhere/broker.conf"], "/nowhere/broker.conf can't be read"),
        (["--dir", "/dev/null/data"], "/dev/null/data can't be created"),
        (["--user", "a b:secret"], "'a b' can't be the name of a user"),
    ],
)
def test_what_can_not_be_is_one_line_that_says_what_to_do(arguments: list[str], words: str) -> None:
    refused = call("up", *FREE_PORTS, *arguments)
    assert refused.returncode == 2
    assert words in one_line(refused.stderr)
    assert refused.stdout == ""


def test_a_deleted_working_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    arguments = command("up", *FREE_PORTS, "--dir", "data")
    refused = subprocess.run(
        ["sh", "-c", script, str(tmp_path / "gone"), *arguments],
        capture_output=True, text=True, timeout=TIMEOUT_S, env=environment(), check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "data can't be created: the current folder was deleted" in one_line(refused.stderr)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused = call("up", "--dir", str(tmp_path), *FREE_PORTS)
    assert refused.returncode == 2
    assert f"{tmp_path} is not writable" in one_line(refused.stderr)


def test_settings_reach_the_processes_that_know_them() -> None:
    arguments = ["--set", "autoCreateTopicEnable=false", "--set", "brokerExpiryMs=60s"]
    with Up("up", *FREE_PORTS, *arguments, STATICFIRE_BROKER_CLUSTER_NAME="Apollo") as up:
        refused = call("send", "orders", "hello", NAMESRV_ADDR=up.reported("NAMESRV_ADDR"))
        assert refused.returncode == 1
        assert "orders" in one_line(refused.stderr.splitlines()[-1])
        assert get(up.reported("CONTROL"))[1]["cluster"] == "Apollo"


def test_its_output_need_not_be_read() -> None:
    """With a pipe that is full, servers get ready all the same, and everything stops in order."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.write(writing, b"." * 65_536)
    os.set_blocking(writing, True)
    reported = environment(STATICFIRE_LOG_LEVEL="debug")
    with subprocess.Popen(
        command("up", *FREE_PORTS), stdout=writing, stderr=subprocess.PIPE, text=True, env=reported
    ) as up:
        assert up.stderr is not None
        for _ in ("nameserver", "broker-a"):
            next(line for line in up.stderr if "descriptor_limit" in line)
        up.terminate()
        _, err = up.communicate(timeout=TIMEOUT_S)
    assert up.returncode == 0
    assert "killed" not in err
    os.close(reading)
    os.close(writing)
