"""What a person got wrong is one line that says so and the way out, whichever command it was."""

import shlex
import subprocess

import pytest

from staticfire.cli import main
from tests.cli.commands import command, environment

NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", NOWHERE)


@pytest.mark.parametrize(
    ("line", "exit_code", "words"),
    [
        ("nosuch", 2, "staticfire: unknown command nosuch; the commands are up, run, "),
        ("clock nosuch", 2, "staticfire clock: unknown command nosuch; the commands are now, freeze, run, skip, scale"),
        ("dlq nosuch", 2, "staticfire dlq: unknown command nosuch; the commands are list, "),
        ("pipeline nosuch", 2, "staticfire pipeline: unknown command nosuch; the commands are "),
        ("mqadmin brokerStatus -b here", 2, "staticfire: 'here' is not an address; write host:port"),
        ("mqadmin nosuch", 2, "staticfire mqadmin: unknown command nosuch; the commands are updateTopic, "),
        ("clock advance -1h", 2, "No such option '-1'; if this is a number, it must not be negative"),
        ("clock scale -5", 2, "No such option '-5'; if this is a number, it must not be negative"),
        (
            "clock now",
            1,
            "staticfire: no nameserver responds (connect to 127.0.0.1:1 failed: Connection refused): check that ",
        ),
        (
            "fault list",
            1,
            "staticfire: no nameserver responds (connect to 127.0.0.1:1 failed: Connection refused): check that ",
        ),
        ("clock now -n a_b,", 2, "'a_b' is not an address"),
        ("clock now --namesrv 'a b:1'", 2, "'a b:1' is not an address; write host:port"),
        (
            "send Orders body",
            1,
            "staticfire send: no nameserver responds (connect to 127.0.0.1:1 failed: Connection",
        ),
        ("send 'a b' body", 2, "'a b': The specified topic contains illegal characters"),
        ("send '' body", 2, "'': The specified topic is blank"),
        ("consume Orders --group ''", 2, "the group is blank"),
        ("consume 'a b' --group Billing", 2, "'a b': The specified topic contains illegal characters"),
        ("clock scale 0", 2, "clock scale 0: the rate must be above 0; to stop message time, use `staticfire clock"),
        ("clock scale nan", 2, "clock scale nan: the rate must be above 0"),
        ("send Orders body --count 0", 2, "Invalid value for '--count': 0 is not a whole number of at least 1"),
        ("send Orders body --count x", 2, "Invalid value for '--count': x is not a whole number of at least 1"),
        ("send Orders body --delay-level 19", 2, "19 is not a whole number from 0 to 18"),
        ("send Orders body --tag 'a || b'", 2, "--tag 'a || b': a message has one tag, and no consumer can subscribe"),
        ("send Orders body --tag ' a'", 2, "--tag ' a': a message has one tag"),
        ("consume -g Billing Orders --tag 'a || b || '", 2, "--tag 'a || b || ': a tag is missing; write `paid`, "),
        ("consume -g Billing Orders --tag ''", 2, "--tag '': a tag is missing"),
        ("consume -g Billing Orders --tag ' '", 2, "--tag ' ': a tag is missing"),
        ("consume -g Billing Orders --tag '|| a'", 2, "--tag '|| a': a tag is missing"),
        ("consume -g Billing Orders --tag 'a | b'", 2, "--tag 'a | b': tags are separated by two bars"),
        (
            "consume -g Billing Orders --tag '* || a'",
            2,
            "--tag '* || a': `*` means all tags and can't be combined with others",
        ),
        ("consume -g Billing Orders --timeout 0s", 2, "--timeout 0s: the timeout must be above 0"),
        ("peek Orders --max 0", 2, "Invalid value for '--max': 0 is not a whole number of at least 1"),
        ("up --brokers x", 2, "Invalid value for '--brokers': x is not a whole number"),
        (
            "nameserver --port 99999",
            2,
            "Invalid value for '--port': 99999 is not a whole number from 0 to 65535",
        ),
        ("broker --advertise 'a b'", 2, "'a b' is not an address"),
    ],
)
def test_it_is_reported_in_one_line(line: str, exit_code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert words in said.err


@pytest.mark.parametrize(
    "line",
    [
        "peek x\udcff", "group x\udcff", "send Orders body --tag x\udcff", "send Orders body --property a=x\udcff",
        "consume -g Billing Orders --tag x\udcff", "user add x\udcff --secret s",
        "fault add --topic x\udcff --delay 5ms", "failover x\udcff",
        "mqadmin topicRoute -t x\udcff", "certificates --to x\udcff",
    ],
)  # fmt: skip
def test_an_argument_that_is_not_utf8_is_named(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Python has a surrogate for each byte of an argument that isn't UTF-8. No request can contain one."""
    assert main(line.split()) == 2
    assert "x\\udcff' isn't UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("group", ["", "dlq", "mqadmin", "pipeline"])
def test_who_says_nothing_gets_the_help_and_nothing_in_front_of_it(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([group] if group else [])
    said = capsys.readouterr()
    assert (said.out + said.err).startswith("Usage: staticfire ")


@pytest.mark.parametrize(
    "line",
    ["clock -n NOWHERE", "clock -n NOWHERE now", "clock now -n NOWHERE", "clock --json --namesrv NOWHERE freeze"],
)
def test_flags_stand_before_a_command_or_behind_it(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.replace("NOWHERE", "127.0.0.1:2").split()) == 1
    assert "connect to 127.0.0.1:2 failed: Connection refused" in capsys.readouterr().err


def test_flags_of_letters_stand_before_their_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dlq", "-n", "127.0.0.1:2", "--max", "3", "list"]) == 1
    assert "connect to 127.0.0.1:2 failed" in capsys.readouterr().err


def test_a_full_disk_for_the_output_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("create", "--help"), stdout=full, stderr=subprocess.PIPE, env=environment(), text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "staticfire: the output can't be written: No space left on device\n")


def test_help_says_nothing_of_a_range_without_limits(capsys: pytest.CaptureFixture[str]) -> None:
    main(["up", "--help"])
    said = capsys.readouterr().out
    assert "Number of brokers." in said
    assert "None" not in said
