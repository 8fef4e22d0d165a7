"""What others put into messages and client ids neither controls the terminal of `mqadmin`, nor chooses its files."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire.cli.listing import without_controls
from staticfire.cli.mqadmin import shown_messages
from staticfire.cli.mqadmin.output import NAME_CHARS_MAX, file_name
from staticfire.client import (
    Admin,
    ClientSettings,
    ConsumeContext,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.cluster.cluster import Cluster
from staticfire.protocol.properties import format_properties
from staticfire.protocol.requests.send import SendMessageV2
from tests.cli.commands import ROOT, TIMEOUT_S, call, command, environment, one_line
from tests.protocol.test_messages import received

pytestmark = pytest.mark.row("E2")

BODY = "中文　\tone\x1b]0;title\x07\x9b2J\rtwo\r\nthree"
SHOWN_BODY = "中文　\tone\\x1b]0;title\\x07\\x9b2J\\rtwo\r\nthree"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def send_raw(cluster: Cluster, topic: str, properties: dict[str, str], body: bytes) -> None:
    """Send a message with properties that our producers wouldn't send."""

    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            encoded = format_properties(properties).decode()
            request = SendMessageV2("g", topic, "TBW102", 4, 0, 0, 0, 0, encoded, body=body)
            await admin.client.pool.ask(cluster.addresses["broker-a"], request, 5_000)

    asyncio.run(work())


def printed(cluster: Cluster, *arguments: str) -> str:
    done = call("mqadmin", *arguments, NAMESRV_ADDR=cluster.namesrv)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_control_characters_of_messages_are_shown_as_text(cluster: Cluster) -> None:
    cluster.create_topic("coloured", queues=1)
    with Producer("shop", cluster.namesrv) as producer:
        sent = producer.send(Message("coloured", BODY.encode(), keys=["k"], properties={"colour": "\x1b[31mred"}))
    for arguments in (
        ["printMsg", "-t", "coloured"],
        ["consumeMessage", "-t", "coloured"],
        ["queryMsgById", "-t", "coloured", "-i", sent.offset_message_id, "-f", "UTF-8"],
    ):
        reported = printed(cluster, *arguments)
        assert not {"\x1b", "\x07", "\x9b"} & {*reported}
        assert SHOWN_BODY in reported
        assert "colour=\\x1b[31mred" in reported


def test_a_unique_id_that_is_a_path_is_no_file_name(cluster: Cluster, tmp_path: Path) -> None:
    mine = tmp_path / "bashrc"
    mine.write_text("mine")
    cluster.create_topic("paths", queues=1)
    send_raw(cluster, "paths", {"UNIQ_KEY": f"../../..{mine}"}, b"rm -r *")
    reported = printed(cluster, "queryMsgByOffset", "-t", "paths", "-b", "broker-a", "-i", "0", "-o", "0")
    assert mine.read_text() == "mine"
    offset_id = reported.splitlines()[0].split()[1]
    written = Path("/tmp/rocketmq/msgbodys", offset_id)
    assert f"Message Body Path:   {written}" in reported
    assert written.read_bytes() == b"rm -r *"
    written.unlink()


def test_control_characters_of_errors_are_shown_as_text(cluster: Cluster) -> None:
    done = call("mqadmin", "consumerStatus", "-g", "watchers", "-i", "\x1b[31mred", NAMESRV_ADDR=cluster.namesrv)
    assert done.returncode == 1
    assert "\\x1b[31mred" in one_line(done.stderr)


def test_a_linked_folder_of_bodies_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, parent = tmp_path / "elsewhere", tmp_path / "rocketmq"
    elsewhere.mkdir()
    parent.mkdir()
    (parent / "msgbodys").symlink_to(elsewhere)
    monkeypatch.setattr(shown_messages, "BODIES", str(parent / "msgbodys"))
    assert shown_messages.write_body(received(b"UNIQ_KEY\x01authorized_keys\x02")).startswith("not written: ")
    assert not list(elsewhere.iterdir())


async def watched(
    cluster: Cluster, settings: PushSettings, folder: Path
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Return what mqadmin reports about a member; consumerStatus writes its files below a folder."""
    member = PushConsumer("watchers", cluster.namesrv, settings)
    member.subscribe("watched")

    @member.listener
    async def consume(_: tuple[ReceivedMessage, ...], __: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    def status() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command("mqadmin", "consumerStatus", "-g", "watchers"),
            capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder, check=False,
            env=environment(NAMESRV_ADDR=cluster.namesrv, PYTHONPATH=str(ROOT)),
        )  # fmt: skip

    async with member:
        return (
            await asyncio.to_thread(status),
            await asyncio.to_thread(printed, cluster, "consumerConnection", "-g", "watchers"),
        )


def test_a_client_id_that_is_a_path_is_no_file_name(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("watched", queues=1)
    folder = tmp_path / "here"
    folder.mkdir()
    settings = PushSettings(client=ClientSettings(client_ip="../../..\x1b[31m", instance_name="x"))
    done, connection = asyncio.run(watched(cluster, settings, folder))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    (written,) = folder.glob("*/*")
    assert written.name == "%2E.%2F..%2F..%1B%5B31m@x"
    assert str(written.relative_to(folder)) in done.stdout
    for reported in (done.stdout, connection):
        assert "\x1b" not in reported
        assert "..\\x1b[31m@x" in reported


@pytest.mark.parametrize(
    "name", ["7F00000100002A9F0000000000000000", "10.0.3.7@4711#123", "fe80::1@DEFAULT", "a_b-c~d"]
)
def test_usual_ids_are_file_names(name: str) -> None:
    assert file_name(name) == name


def test_any_other_text_is_one_name_in_the_folder() -> None:
    long = [f"{'x' * 5_000}{last}" for last in "ab"]
    texts = ["", ".", "..", "...", "/etc/passwd", "../x", "%2E", "%", "-rf", ".hidden", "a\0b", "ü", "ü" * 300, *long]
    names = [file_name(text) for text in texts]
    assert len({*names}) == len(texts)
    for name in names:
        assert name.isascii()
        assert name.isprintable()
        assert 0 < len(name) <= NAME_CHARS_MAX
        assert os.path.normpath(os.path.join("/folder", name)) == f"/folder/{name}"
        assert name[0] not in ".-"


def test_only_control_characters_are_changed() -> None:
    normal = "".join(chr(code) for code in range(0x20, 0x3000) if not 0x7F <= code <= 0x9F) + "\t\n\r\n😀\u202f"
    assert without_controls(normal) == normal
    assert without_controls("\0\x1b\x7f\x9b\r") == "\\x00\\x1b\\x7f\\x9b\\r"
    assert json.loads(without_controls(json.dumps({"a": "\x1b"}))) == {"a": "\x1b"}
