"""What holds for every command: help, options spelt alike, JSON, exit codes, a stopped cluster, typos, completion.

The whole tree is walked. A command that is new here fails until it has a line in EXAMPLES: how it is called.
"""

import json
import shlex
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from threading import Thread

import click
import pytest
from click.shell_completion import BashComplete

from staticfire import Cluster, Message, Producer
from staticfire.cli import family, main
from staticfire.cli.commands import COMMANDS, staticfire
from staticfire.cli.mqadmin.frame import COMMANDS as MQADMIN
from tests.cli.commands import environment, one_line
from tools.command_line import SERVERS, walk

NOWHERE = "127.0.0.1:1"
LEAVES = {" ".join(path): command for path, command in walk(staticfire)}
FOR_ITSELF = {"copy", "chaos", "certificates", "dashboard"}
"""They ask two clusters, start their own, ask none, or serve pages: their options are their own."""
FAMILY = {name: one for name, one in LEAVES.items() if name.split()[0] not in SERVERS and name not in FOR_ITSELF}
ADMIN = {name: command for name, command in LEAVES.items() if name.startswith("mqadmin ")}
WATCHED = {"topics", "groups", "group", "explain", "dlq list", "fault list", "clock now", "replication show"}
ALIKE = ("--namesrv", "--protocol", "--json", "--watch", "--control", "--last", "--queue", "--client")

EXAMPLES = {
    "create": "create orders --queues 4",
    "change": "change orders --perm 4",
    "send": "send orders hello",
    "peek": "peek orders",
    "message": "message order-1",
    "trace": "trace order-1",
    "consume": "consume orders -g billing --max 1 --timeout 1s",
    "topics": "topics",
    "groups": "groups",
    "explain": "explain billing",
    "group": "group billing",
    "dlq list": "dlq list",
    "dlq show": "dlq show billing broker-a/0/0",
    "dlq export": "dlq export billing",
    "dlq resend": "dlq resend billing --all",
    "journal": "journal",
    "fault add": "fault add --topic orders --delay 1ms",
    "fault list": "fault list",
    "fault remove": "fault remove 1",
    "fault clear": "fault clear",
    "clock now": "clock now",
    "clock freeze": "clock freeze",
    "clock run": "clock run",
    "clock skip": "clock skip",
    "clock scale": "clock scale 2",
    "clock advance": "clock advance 1s",
    "reset": "reset",
    "member": "member billing --stay 10ms",
    "replication show": "replication show",
    "replication hold": "replication hold broker-a-1",
    "replication release": "replication release broker-a-1",
    "replication lag": "replication lag broker-a-1 1s",
    "replication sync": "replication sync broker-a-1",
    "failover": "failover broker-a",
    "user add": "user add shop --secret s3cret",
    "user change": "user change shop --secret s3cret",
    "user remove": "user remove shop",
    "user list": "user list",
    "allow": "allow shop Topic:orders Pub",
    "deny": "deny shop Topic:orders Pub",
    "snapshot save": "snapshot save",
    "snapshot restore": "snapshot restore",
    "snapshot list": "snapshot list",
    "snapshot remove": "snapshot remove default",
}
WORDS = {
    "--topic": "orders", "--groupName": "billing", "--group": "billing", "--consumerGroup": "billing",
    "--producerGroup": "shop", "--srcGroup": "billing", "--destGroup": "ledger", "--clusterName": "DefaultCluster",
    "--method": "get", "--perm": "4", "--mode": "POP", "--timestamp": "0", "--key": "name", "--value": "1",
    "--namespace": "space", "--brokerName": "broker-a", "--queueId": "0", "--offset": "0", "--msgId": "A" * 32,
    "--msgKey": "order-1", "--brokerId": "1", "--body": "x", "--topicName": "orders",
}  # fmt: skip
"""What the flags that commands of mqadmin need are given."""


def admin_line(name: str) -> str:
    needed = [param for param in LEAVES[name].params if param.required]
    flags = {next(one for one in param.opts if one in WORDS) for param in needed}
    places = {one for param in LEAVES[name].params for one in param.opts if one in ("--clusterName", "--brokerAddr")}
    flags |= {"--clusterName"} if len(places) == 2 or name == "mqadmin getSyncStateSet" else set()
    return " ".join([name, *(f"{flag} {WORDS[flag]}" for flag in sorted(flags))])


@pytest.fixture(autouse=True)
def _without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", NOWHERE)
    monkeypatch.setenv("STATICFIRE_CONTROL", "")


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_every_command_and_every_option_has_help() -> None:
    known = {name: command for name, command in LEAVES.items() if name not in FOR_ITSELF}
    lacking = [name for name, command in known.items() if not command.help]
    options = ((name, param) for name, command in known.items() for param in command.params)
    lacking += [f"{name} {one.opts}" for name, one in options if isinstance(one, click.Option) and not one.help]
    assert lacking == []


def test_the_lists_of_commands_say_what_their_helps_do() -> None:
    listed = {f"mqadmin {name}": text for names in MQADMIN.values() for name, text in names.items()}
    assert listed.keys() == ADMIN.keys()
    assert {name: command.help.split("\n\n")[0] for name, command in ADMIN.items() if command.help} == listed
    assert EXAMPLES.keys() == FAMILY.keys()


def test_options_are_spelt_alike() -> None:
    """A short letter means one thing; what several commands share is the same in each."""
    letters, shared = defaultdict(set), defaultdict(set)
    for command in FAMILY.values():
        for param in command.params:
            if not isinstance(param, click.Option):
                continue
            name = next(one for one in param.opts if one.startswith("--"))
            for letter in (one for one in param.opts if not one.startswith("--")):
                letters[letter].add(name)
            if name in ALIKE and (name, command.name) != ("--queue", "peek"):
                shared[name].add((param.help, param.envvar, param.metavar, param.show_default))
    assert {letter: names for letter, names in letters.items() if len(names) > 1} == {}
    assert {name: forms for name, forms in shared.items() if len(forms) > 1 and name != "--client"} == {}


@pytest.mark.parametrize("name", FAMILY)
def test_each_has_what_the_family_has(name: str) -> None:
    names = {one for param in FAMILY[name].params for one in param.opts}
    assert "--namesrv" in names
    assert ("--json" in names) == (name != "dlq export")  # JSON is all that it writes.
    assert ("--watch" in names) == (name in WATCHED)


LOAD = """
import contextlib, io, json, sys
from staticfire.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    for line in json.loads(sys.argv[1]):
        main([*line.split(), "--help"])
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    ("lines", "needless", "most"),
    [
        (["", *sorted({name.split()[0] for name in FAMILY}), *FAMILY, "mqadmin"], {"asyncio", "msgspec", "rich"}, 220),
        (list(ADMIN), {"rich", "aiohttp"}, 425),
    ],
)
def test_help_loads_little(lines: list[str], needless: set[str], most: int) -> None:
    """All of them together: about 150 modules take 50 ms to load on a machine that does nothing else.

    With Python 3.13, some modules of the standard library consist of a few more.
    """
    command = [sys.executable, "-c", LOAD, json.dumps(lines)]
    reported = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    modules = set(json.loads(reported.stdout)) - {"sitecustomize"}  # Debian has one.
    assert modules & needless == set()
    assert len(modules) <= most


# -- wrong use ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [*EXAMPLES.values(), *map(admin_line, ADMIN)])
def test_a_stopped_cluster_is_one_line_and_an_exit_code(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert NOWHERE in one_line(said.err)


@pytest.mark.parametrize("name", [*FAMILY, *ADMIN])
def test_a_typo_in_an_option_is_reported_with_the_likely_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = EXAMPLES.get(name) or admin_line(name)
    assert main([*shlex.split(line), "--namesrvv", "x"]) == 2
    assert "--namesrv" in one_line(capsys.readouterr().err).replace("--namesrvv", "")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("topcs", "did you mean topics"),
        ("clock advnce", "did you mean advance"),
        ("dlq lst", "did you mean list"),
        ("mqadmin consumerprogres", "did you mean consumerProgress?"),
        ("journal deliverd", "did you mean delivered?"),
    ],
)
def test_a_typo_in_a_command_is_reported_with_the_likely_name(
    line: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert meant in one_line(capsys.readouterr().err)


def test_who_hangs_up_may_be_a_rocketmq(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1)

        Thread(target=hang_up, daemon=True).start()
        assert main(["topics", "-n", f"127.0.0.1:{server.getsockname()[1]}"]) == 1
        assert "for an Apache RocketMQ use --protocol rocketmq" in one_line(capsys.readouterr().err)
        server.shutdown(socket.SHUT_RDWR)


# -- with a cluster ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A topic with a message, and a group that nobody is in."""
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        with Producer("shop", cluster.namesrv) as producer:
            producer.send(Message("orders", b"x" * 300, keys=["order-1"]))
        assert main(["mqadmin", "updateSubGroup", "-c", "DefaultCluster", "-g", "billing", "-n", cluster.namesrv]) == 0
        yield cluster


SHOWN = [
    ("create audit --queues 2", 0, {"topic", "created", "queues"}),
    ("create audit --queues 3", 1, set()),
    ("create --group auditing --retries 3", 0, {"group", "created", "retries"}),
    ("create", 2, set()),
    ("change audit --queues 3", 0, {"topic", "queues", "perm"}),
    ("change --group auditing --retries 4", 0, {"group", "retries"}),
    ("change audit --retries 3", 2, set()),
    ("change nosuch --perm 4", 1, set()),
    ("send orders hello", 0, {"messageId", "status", "topic", "brokerName", "queueId", "queueOffset"}),
    ("peek orders --max 1", 0, {"topic", "messageId", "queueOffset", "storedMs", "keys", "properties", "body"}),
    ("message order-1", 0, {"messageId", "offsetMessageId", "groups", "life"}),
    ("message nothing", 1, set()),
    ("trace order-1", 0, {"messageId", "what"}),
    ("trace nothing", 1, set()),
    ("consume orders -g new --from first --max 1 --timeout 20s", 0, {"topic", "messageId", "body"}),
    ("consume orders -g new2 --from last --max 9 --timeout 300ms", 1, set()),
    ("topics", 0, {"topic", "brokers", "queues", "messages"}),
    ("groups", 0, {"group", "members", "lag", "deadLetters", "warnings"}),
    ("group billing", 0, {"group", "members", "warnings"}),
    ("group biling", 1, set()),
    ("explain billing", 1, {"group", "findings"}),
    ("explain", 2, set()),
    ("dlq list", 0, set()),
    ("dlq show billing broker-a/0/0", 1, set()),
    ("dlq resend billing --all", 0, {"resent", "left"}),
    ("journal delivered", 0, {"kind", "topic"}),
    ("fault add --topic nosuch --delay 1ms", 0, {"number", "words", "hits"}),
    ("fault add --topic nosuch", 2, set()),
    ("fault list", 0, {"number", "words", "hits", "leftMs"}),
    ("fault remove 99", 1, set()),
    ("fault clear", 0, {"removed"}),
    ("clock now", 0, {"messageMs", "wallMs", "mode", "rate"}),
    ("clock advance 1s", 0, {"messageMs", "delivered"}),
    ("clock scale 0", 2, set()),
    ("peek ordes", 1, set()),
    ("snapshot save", 0, {"name", "savedMs", "topics", "groups", "messages"}),
    ("snapshot list", 0, {"name", "savedMs", "messageMs", "messages"}),
    ("snapshot restore", 0, {"name", "gone", "queuesMoved"}),
    ("snapshot remove default", 0, {"removed"}),
    ("snapshot restore nosuch", 1, set()),
    ("reset", 0, {"topics", "groups", "brokers"}),
]
"""What is asked, its exit code, and keys that each line of JSON has; none: nothing is printed."""


def test_exit_codes_tables_and_json(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """One after another, since they change what the next ones see."""
    capsys.readouterr()
    wrong: list[str] = []
    for line, exit_code, keys in SHOWN:
        given = [*line.split(), "--namesrv", cluster.namesrv]
        if line.split()[0] == "fault":
            given += ["--control", cluster.control]
        found = main([*given, "--json"])
        said = capsys.readouterr()
        if found != exit_code:
            wrong.append(f"{line}: {found}, not {exit_code}: {said.err}")
        objects = [json.loads(one) for one in said.out.splitlines()]
        if bool(objects) != bool(keys) or any(not keys <= one.keys() for one in objects):
            wrong.append(f"{line}: {objects}")
        if line.split()[0] in ("topics", "groups", "group", "peek", "explain", "clock") and exit_code == 0:
            main(given)
            reported = capsys.readouterr().out
            wrong += [f"{line}: {reported!r}"] * (not reported or "\x1b" in reported or "…" in reported)
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "exit_code", "meant"),
    [
        ("peek ordes", 1, "did you mean orders?"),
        ("group biling", 1, "did you mean billing?"),
        ("dlq list biling", 1, "did you mean billing?"),
        ("dlq export biling", 1, "did you mean billing?"),
        ("dlq resend biling --all", 1, "did you mean billing?"),
        ("mqadmin topicRoute -t ordes", 1, "did you mean orders?"),
        ("journal --group biling", 0, "there is no group biling, did you mean billing?"),
        ("journal --topic ordes", 0, "there is no topic ordes, did you mean orders?"),
        ("consume ordes --group reader --timeout 1ms", 0, "there is no topic ordes, did you mean orders?"),
    ],
)
def test_a_typo_in_a_name_is_reported_with_the_likely_name(
    cluster: Cluster, line: str, exit_code: int, meant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("orders")
    main(["mqadmin", "updateSubGroup", "-c", "DefaultCluster", "-g", "billing", "-n", cluster.namesrv])
    capfd.readouterr()
    assert main([*line.split(), "-n", cluster.namesrv]) == exit_code
    assert meant in capfd.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("clock adv", ["advance"]),
        ("mqadmin topicSt", ["topicStatus"]),
        ("peek --pro", ["--protocol"]),
        ("peek ord", ["orders"]),
        ("group bil", ["billing"]),
        ("mqadmin topicRoute -t ord", ["orders"]),
        (f"peek -n {NOWHERE} ord", []),
    ],
)
def test_the_shell_completes_commands_options_and_names(
    cluster: Cluster, words: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("orders")
    main(["mqadmin", "updateSubGroup", "-c", "DefaultCluster", "-g", "billing", "-n", cluster.namesrv])
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    monkeypatch.setattr(family, "COMPLETION_S", 30.0)  # However busy this machine is.
    *before, begun = words.split()
    shell = BashComplete(staticfire, {}, "staticfire", "_STATICFIRE_COMPLETE")
    assert [one.value for one in shell.get_completions(before, begun)] == found


def test_the_shell_asks_the_command_itself() -> None:
    requested = {"_STATICFIRE_COMPLETE": "bash_complete", "COMP_WORDS": "staticfire to", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "staticfire"]
    reported = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(**requested))
    assert (reported.stdout.strip(), reported.stderr) == ("plain,topics", "")


def test_every_command_is_in_the_list_that_help_shows() -> None:
    assert {name.split()[0] for name in LEAVES} == set(COMMANDS)
