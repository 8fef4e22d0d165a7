"""`staticfire run`: a cluster around a command, whose exit code is handed on."""

import signal
import sys

import pytest

from tests.cli.commands import Up, call, one_line

SHOW = "import os; print(os.environ['NAMESRV_ADDR'], os.environ['STATICFIRE_CONTROL'])"


def test_command_finds_the_cluster_in_its_environment_and_has_stdout_for_itself() -> None:
    done = call("run", "--brokers", "2", "--", sys.executable, "-c", SHOW)
    assert done.returncode == 0
    namesrv, control = one_line(done.stdout).split()
    assert namesrv.startswith("127.0.0.1:")
    assert control.startswith("http://127.0.0.1:")


def test_command_without_an_endpoint_does_not_get_that_of_a_surrounding_run() -> None:
    show = "import os; print(os.environ.get('ROCKETMQ_ENDPOINT'))"
    done = call("run", "--no-grpc", "--", sys.executable, "-c", show, ROCKETMQ_ENDPOINT="127.0.0.1:1")
    assert (done.returncode, one_line(done.stdout)) == (0, "None")


@pytest.mark.parametrize(
    ("script", "exit_code"), [("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM), ("kill -KILL $$", 128 + 9)]
)
def test_exit_code_is_the_commands_own(script: str, exit_code: int) -> None:
    assert call("run", "sh", "-c", script).returncode == exit_code


@pytest.mark.parametrize(("name", "exit_code"), [("/nowhere/command", 127), ("/dev/null", 126)])
def test_command_that_can_not_be_run_is_reported_as_env_does(name: str, exit_code: int) -> None:
    done = call("run", "--", name)
    assert done.returncode == exit_code
    assert name in one_line(done.stderr)


def test_signal_is_passed_on_to_the_command() -> None:
    program = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "print('ready to wait', flush=True)\n"
        "sys.exit(3 if signal.sigwait([signal.SIGTERM]) == signal.SIGTERM else 4)\n"
    )
    with Up("run", "--", sys.executable, "-c", program) as running:
        exit_code, _ = running.stop(signal.SIGTERM)
    assert exit_code == 3


def test_process_that_dies_meanwhile_makes_it_125_and_lets_the_command_end() -> None:
    program = (
        "import json, os, signal, urllib.request as u\n"
        "there = json.load(u.urlopen(os.environ['STATICFIRE_CONTROL']))\n"
        "os.kill(there['processes'][1]['pid'], signal.SIGKILL)\n"
        "print('still here')\n"
    )
    done = call("run", "--", sys.executable, "-c", program)
    assert done.returncode == 125
    assert done.stdout == "still here\n"
    assert "broker-a" in done.stderr
    assert "killed by SIGKILL" in done.stderr


def test_usage_error_comes_before_the_command() -> None:
    done = call("run", "--set", "nonsense=1", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown setting nonsense" in one_line(done.stderr)
