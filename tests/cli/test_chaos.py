"""`staticfire chaos`: a program that is right, one that is wrong, and everything that a user can get wrong."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.chaos.running import LIMIT_S, SETTLE_S
from staticfire.cli import main
from staticfire.cli.chaos import chaos
from staticfire.protocol.durations import parse_duration
from tests.cli.commands import ROOT, call, command, environment, one_line

pytestmark = pytest.mark.row("S10")

WRONG = str(ROOT / "examples" / "chaos" / "not_idempotent.py")
EACH = "orders -> invoices by key"
SENDER = (
    "import os\n"
    "from staticfire import Message, Producer\n"
    "with Producer('shop', os.environ['NAMESRV_ADDR']) as shop:\n"
    "    shop.send(Message('orders', b'1 book', keys='1'))\n"
)


def test_flags_have_the_defaults_that_commands_leave_out() -> None:
    default = {flag.name: str(flag.default) for flag in chaos.params}
    assert parse_duration(default["limit"]) == LIMIT_S * 1_000
    assert parse_duration(default["settle"]) == SETTLE_S * 1_000


@pytest.mark.slow
def test_wrong_program_is_found_with_evidence_a_page_and_a_test(tmp_path: Path) -> None:
    page, test = tmp_path / "out.html", tmp_path / "test_seed.py"
    flags = ["--only", "duplicate", "--each", EACH, "--no-shrink", "--page", str(page), "--test", str(test)]
    done = call("chaos", *flags, "--", sys.executable, WRONG)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "seed 1: BROKEN" in done.stdout
    assert "the work was done twice" in done.stdout
    assert "repeat: staticfire chaos --seed 1" in done.stdout
    assert "the work was done twice" in page.read_text("utf-8")
    compile(test.read_text("utf-8"), str(test), "exec")


@pytest.mark.slow
def test_right_program_keeps_its_promises_under_the_same_faults() -> None:
    done = call("chaos", "--json", "--only", "duplicate", "--each", EACH, "--", sys.executable, WRONG, "--fixed")
    calm, seed, end = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, calm["run"], seed["run"], end["broken"]) == (0, "calm", "seed", 0)
    assert calm["groups"] == {"billing": {"orders": calm["groups"]["billing"]["orders"]}}
    assert all(fault["hits"] for fault in seed["faults"])


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["--", "/nowhere/command"], 127, "command not found"),
        (["--", "/dev/null"], 126, "can't be run"),
        (["--only", "duplicat", "--", "true"], 2, "did you mean duplicate"),
        (["--only", "busy", "--never", "busy", "--", "true"], 2, "leaves nothing"),
        (["--each", "orders", "--", "true"], 2, "isn't understood"),
        (["--faults", "x", "--", "true"], 2, "write the numbers"),
        (["--topic", "steps:fifo", "--", "true"], 2, "the types are NORMAL, FIFO, DELAY, TRANSACTION"),
        (["--limit", "0s", "--", "true"], 2, "needs some time"),
        (["--seed", "1", "--seeds", "2", "--", "true"], 2, "either --seed or --seeds"),
        (["--page", "/nowhere/out.html", "--", "true"], 2, "can't be written"),
        (["--namesrv", "10.0.0.1:9876", "--", "true"], 2, "such as a real RocketMQ"),
    ],
)
def test_wrong_use_is_refused_before_anything_runs(arguments: list[str], exit_code: int, words: str) -> None:
    done = call("chaos", *arguments)
    assert done.returncode == exit_code
    assert words in one_line(done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "exit_code", "words"),
    [
        (["sh", "-c", "echo what is wrong"], 2, "no topic was used, so nothing can be tested"),
        (["sh", "-c", "echo what is wrong; exit 7"], 7, "the command fails without any fault: exit code 7"),
    ],
)
def test_nothing_is_tried_where_nothing_can_be_tested(program: list[str], exit_code: int, words: str) -> None:
    done = call("chaos", "--", *program)
    assert done.returncode == exit_code
    assert words in done.stdout
    assert "nothing else was tried" in done.stdout
    assert "| what is wrong" in done.stdout


@pytest.mark.slow
def test_condition_that_matches_nothing_and_a_fault_that_can_not_hit() -> None:
    done = call("chaos", "--each", "orders -> bills by key", "--", sys.executable, "-c", SENDER)
    assert done.returncode == 2
    assert "matches nothing: nothing was stored in bills (topics with messages: orders)" in done.stdout
    done = call("chaos", "--only", "rebalance", "--", sys.executable, "-c", SENDER)
    assert done.returncode == 2
    assert "rebalance can't hit anything here" in done.stdout
    assert "nothing was tested" in done.stdout


RESETTING = (
    "import os, urllib.request\n"
    "from staticfire import Message, Producer\n"
    "for _ in range(2):\n"
    "    urllib.request.urlopen(urllib.request.Request(os.environ['STATICFIRE_CONTROL'] + '/reset', method='POST'))\n"
    "    with Producer('shop', os.environ['NAMESRV_ADDR']) as shop:\n"
    "        shop.send(Message('orders', b'1 book', keys='1'))\n"
)


@pytest.mark.slow
def test_program_that_resets_its_cluster_between_tests_keeps_the_faults() -> None:
    done = call("chaos", "--json", "--only", "busy", "--seed", "1", "--", sys.executable, "-c", RESETTING)
    calm, seed, _ = map(json.loads, done.stdout.splitlines())
    assert calm["sends"] == {"orders": 2}
    assert (seed["broken"], seed["faults"][0]["hits"]) == ([], 1)


@pytest.mark.parametrize("flag", ["--namesrv-port", "--broker-port"])
def test_port_that_is_taken_is_refused_with_the_flags(flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = call("chaos", flag, str(server.getsockname()[1]), "--", "true")
    assert done.returncode == 2
    assert "another port with --namesrv-port or --broker-port" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--until-broken"], "use it with --seeds N"),
        (["--plan", "--page", "run.html"], "--plan tries nothing"),
        (["--plan", "--test", "test_run.py"], "--plan tries nothing"),
    ],
)
def test_flags_that_would_have_no_effect_are_refused(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", *flags, "--", "true"]) == 2
    assert words in one_line(capsys.readouterr().err)


def test_real_cluster_that_the_environment_names_is_refused() -> None:
    done = call("chaos", "--", "true", ROCKETMQ_TARGET="10.0.0.1:9876")
    assert done.returncode == 2
    assert "such as a real RocketMQ" in one_line(done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_shows_what_was_tested_and_leaves_nothing_running(number: signal.Signals) -> None:
    program = "import os, time\nprint(os.getpid(), flush=True)\n" + SENDER + "time.sleep(600)\n"
    flags = ["--show-output", "--limit", "10m", "--", sys.executable, "-c", program]
    process = subprocess.Popen(command("chaos", *flags), stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(number)
    assert process.wait(100) == 128 + number
    process.stdout.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_program_that_never_ends_is_stopped_at_the_limit() -> None:
    program = SENDER + "import time\ntime.sleep(600)\n"
    done = call("chaos", "--limit", "2s", "--only", "busy", "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "was stopped at the limit" in done.stdout
    assert "seed 1: kept" in done.stdout


SLOW_BILLING = SENDER + (
    "    for _ in range(2 if os.path.exists(os.environ['MARK']) else 1):\n"
    "        shop.send(Message('invoices', b'pay', keys='1'))\n"
    "if os.path.exists(os.environ['MARK']):\n"
    "    import time\n"
    "    print(os.getpid(), flush=True)\n"
    "    time.sleep(600)\n"
    "open(os.environ['MARK'], 'w').close()\n"
)
"""Its second run makes two invoices, and then doesn't end."""


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_seed_gives_its_verdict_so_far(tmp_path: Path) -> None:
    flags = ["--only", "busy", "--each", EACH, "--show-output"]
    process = subprocess.Popen(
        command("chaos", *flags, "--", sys.executable, "-c", SLOW_BILLING),
        stdout=subprocess.PIPE,
        text=True,
        env={**environment(), "MARK": str(tmp_path / "mark")},
        start_new_session=True,
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    pid = next(int(line) for line in lines if line.strip().isdigit())
    os.killpg(process.pid, signal.SIGINT)  # As a terminal does it: the brokers get it, too.
    reported = "".join(lines)
    assert process.wait(100) == 1
    process.stdout.close()
    assert "seed 1: stopped, BROKEN so far, after" in reported
    assert "1 value(s) of orders have more than one message in invoices" in reported
    assert "exit code" not in reported
    assert "stopped: 1 of 1 seed broke a promise" in reported
    assert not Path(f"/proc/{pid}").exists()


COUNTED = SENDER + "with open(os.environ['MARK'], 'a') as mark:\n    mark.write('run\\n')\n"
"""Each of its runs adds a line to a file."""


@pytest.mark.slow
def test_ctrl_c_ends_the_command_of_at_rest_and_starts_no_other_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    flags = ["--only", "busy", "--at-rest", "echo $$; exec sleep 600", "--", sys.executable, "-c", COUNTED]
    process = subprocess.Popen(
        command("chaos", *flags), stdout=subprocess.PIPE, text=True, env={**environment(), "MARK": str(mark)}
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    assert process.wait(100) == 128 + signal.SIGINT
    assert "seed" not in process.stdout.read()
    process.stdout.close()
    assert mark.read_text() == "run\n"
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_command_of_at_rest_that_never_ends_is_stopped_at_the_limit() -> None:
    flags = ["--limit", "5s", "--at-rest", "echo $$; exec sleep 600", "--", sys.executable, "-c", SENDER]
    done = call("chaos", *flags)
    assert done.returncode == 1
    assert "the command of --at-rest was still running at the limit (--limit)" in done.stdout
    pid = int(done.stdout.splitlines()[0])
    assert not Path(f"/proc/{pid}").exists()
