"""The key of a cluster for the commands of its owner: while the cluster runs, and only then."""

import fcntl
import os
import resource
import signal
import stat
import subprocess
from collections.abc import Callable
from errno import EOPNOTSUPP
from pathlib import Path

import pytest

from staticfire import Cluster
from staticfire.cli import main
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.local_keys import KeyFile, OwnersKey, folder, read_key, remove_key, write_key
from tests.cli.commands import FREE_PORTS, Up, call, one_line

pytestmark = pytest.mark.row("G7")

SECRET = "s3cret-of-the-shop"
OWN = Credentials("staticfire", "0123456789")
NAMESRV, PORT = "127.0.0.1:4711", 4711


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("ROCKETMQ_ACCESS_KEY", raising=False)
    monkeypatch.delenv("ROCKETMQ_SECRET_KEY", raising=False)


def written(port: int = PORT, key: str = OWN.text) -> KeyFile:
    file = write_key(port, key)
    assert file is not None
    return file


def left_by_a_killed_process(port: int = PORT) -> Path:
    """Return a file whose process is gone: with the process, its descriptors are closed."""
    file = written(port)
    os.close(file.descriptor)
    return Path(file.path)


def files() -> list[str]:
    return sorted(os.listdir(folder()))


# -- whole clusters ----------------------------------------------------------------------------------------------------


def test_up_with_a_user_lets_its_owner_in_and_hides_secrets(tmp_path: Path) -> None:
    with Up("up", *FREE_PORTS, "--brokers", "2", "--user", f"admin:{SECRET}") as up:
        namesrv = up.reported("NAMESRV_ADDR")
        [key] = Path(folder()).iterdir()
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        own = call("user", "list", NAMESRV_ADDR=namesrv)
        assert (own.returncode, "admin" in own.stdout, SECRET in own.stdout) == (0, True, False)
        other = call("user", "list", NAMESRV_ADDR=namesrv, TMPDIR=str(tmp_path / "other"))
        assert "username cannot be null." in one_line(other.stderr)
        shown = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
        arguments = [line for line in shown.splitlines() if "-m staticfire." in line]
        assert arguments
        assert not any("secretKey" in line or SECRET in line for line in arguments)
    assert not Path(folder()).exists()


def test_the_key_of_a_killed_cluster_isnt_used_for_the_next_one_at_its_port() -> None:
    with Up("up", *FREE_PORTS, "--user", f"admin:{SECRET}") as up:
        namesrv = up.reported("NAMESRV_ADDR")
        os.kill(up.process.pid, signal.SIGSTOP)
        assert read_key(namesrv) is not None, "a process that is stopped may continue"
        os.kill(up.process.pid, signal.SIGCONT)
        up.stop(signal.SIGKILL)
    assert len(files()) == 1
    with Cluster(namesrv_port=parse_address(namesrv)[1], users={"admin": SECRET}):
        assert "username cannot be null." in one_line(call("user", "list", NAMESRV_ADDR=namesrv).stderr)
    assert files() == []


def test_a_command_that_is_called_as_a_function_leaves_no_key_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATICFIRE_TLS_ENABLE", "false")
    users = {"admin": SECRET}
    with Cluster(users=users, settings={"innerClientAuthenticationCredentials": OWN.text}) as cluster:
        file = write_key(parse_address(cluster.namesrv)[1], OWN.text)
        before = dict(os.environ)
        assert main(["user", "list", "-n", cluster.namesrv]) == 0
        assert "admin" in capsys.readouterr().out
        assert dict(os.environ) == before
        main(["topics", "--tls", "--tls-trust", "nosuch.pem", "-n", cluster.namesrv])
        assert dict(os.environ) == before
        remove_key(file)
        capsys.readouterr()
        assert main(["user", "list", "-n", cluster.namesrv]) == 1
        assert "username cannot be null." in one_line(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("command", "says"), [(["user", "list"], "staticfire"), (["send", "orders", "x"], "staticfire send")]
)
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"innerClientAuthenticationCredentials": OWN.text}, "check signature failed."),
        ({}, "User:staticfire is not found."),
    ],
)
def test_a_refusal_of_the_owners_key_names_the_file_and_the_fix(
    command: list[str], says: str, settings: dict[str, object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Credentials("staticfire", "another secret").text
    inner = settings or {"innerClientAuthenticationCredentials": Credentials("inner", "0123456789").text}
    with Cluster(users={"admin": SECRET}, settings=inner) as cluster:
        cluster.create_topic("orders")
        file = written(parse_address(cluster.namesrv)[1], other)
        capsys.readouterr()
        assert main([*command, "-n", cluster.namesrv]) == 1
        said = one_line(capsys.readouterr().err)
        remove_key(file)
    assert said.startswith(f"{says}: NO_PERMISSION (16): ")
    assert words in said
    assert f"this command signed as staticfire, with the key in {file.path}" in said
    assert "to sign as another user, set ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY" in said


def test_a_refusal_that_isnt_about_the_key_doesnt_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    inner = {"innerClientAuthenticationCredentials": OWN.text}
    with Cluster(users={"admin": SECRET}, settings=inner) as cluster:
        file = written(parse_address(cluster.namesrv)[1])
        assert main(["user", "remove", "nobody", "-n", cluster.namesrv]) == 2
        assert file.path not in one_line(capsys.readouterr().err)
        remove_key(file)


# -- keys in the environment -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ACCESS_KEY": "admin"}, "ROCKETMQ_ACCESS_KEY is set, but ROCKETMQ_SECRET_KEY isn't set: set both, or none"),
        ({"ACCESS_KEY": "admin", "SECRET_KEY": ""}, "ROCKETMQ_ACCESS_KEY is set, but ROCKETMQ_SECRET_KEY is empty"),
        ({"SECRET_KEY": SECRET}, "ROCKETMQ_SECRET_KEY is set, but ROCKETMQ_ACCESS_KEY isn't set: set both, or none"),
        ({"SECURITY_TOKEN": "x"}, "ROCKETMQ_SECURITY_TOKEN is set, but ROCKETMQ_ACCESS_KEY isn't set"),
        ({"ACCESS_KEY": " ", "SECRET_KEY": SECRET}, "ROCKETMQ_ACCESS_KEY begins or ends with white space"),
        ({"ACCESS_KEY": "admin", "SECRET_KEY": f"{SECRET}\n"}, "ROCKETMQ_SECRET_KEY begins or ends with white space"),
        ({"ACCESS_KEY": "admin\udcff", "SECRET_KEY": SECRET}, "ROCKETMQ_ACCESS_KEY isn't UTF-8"),
        ({"ACCESS_KEY": "admin", "SECRET_KEY": f"{SECRET}\udcff"}, "ROCKETMQ_SECRET_KEY isn't UTF-8"),
    ],
)
def test_a_key_in_the_environment_that_cant_be_used_is_an_error(
    variables: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also on the cluster's own machine: whoever names a key, or a part of one, wants it to be used."""
    file = written()
    for name, text in variables.items():
        monkeypatch.setenv(f"ROCKETMQ_{name}", text)
    assert main(["user", "list", "-n", NAMESRV]) == 2
    said = one_line(capsys.readouterr().err)
    assert said.startswith(f"staticfire: {words}")
    assert SECRET not in said
    remove_key(file)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_refusal_of_a_command_without_a_key_names_the_fix(
    is_empty: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_empty:
        monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "")
        monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "")
    with Cluster(users={"admin": SECRET}, settings={"innerClientAuthenticationCredentials": OWN.text}) as cluster:
        assert main(["user", "list", "-n", cluster.namesrv]) == 1
        cause = "ROCKETMQ_ACCESS_KEY is empty" if is_empty else "this command has no access key"
        fix = f"; {cause}: set ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY"
        assert one_line(capsys.readouterr().err).endswith(fix)
        file = written(parse_address(cluster.namesrv)[1])
        assert main(["user", "list", "-n", cluster.namesrv]) == 0, "an empty variable is none"
        remove_key(file)


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_key_file_counts_only_if_no_other_user_can_write_it() -> None:
    file = written()
    assert read_key(NAMESRV) == OwnersKey(OWN, False, file.path)
    assert read_key("10.0.0.1:4711") is None
    assert read_key("127.0.0.1:4712") is None
    assert read_key("nonsense") is None
    Path(folder()).chmod(0o777)
    assert read_key(NAMESRV) is None
    assert write_key(PORT, OWN.text) is None
    remove_key(file)


def test_a_file_without_its_process_is_ignored_and_removed() -> None:
    left = left_by_a_killed_process()
    assert read_key(NAMESRV) is None
    assert not left.exists()


def test_a_start_removes_the_files_of_killed_clusters_some_at_a_time() -> None:
    running = written()
    for port in range(5000, 5150):
        left_by_a_killed_process(port)
    assert read_key(NAMESRV) is not None
    for _ in range(8):
        remove_key(written(6000))
    assert files() == [os.path.basename(running.path)]
    remove_key(running)
    assert not Path(folder()).exists()


def test_a_file_of_another_machine_or_container_stays() -> None:
    left = left_by_a_killed_process()
    foreign = left.rename(left.with_name("4711@00000000-1"))
    remove_key(written(6000))
    assert read_key(NAMESRV) is None
    assert foreign.exists()


def test_a_file_on_a_file_system_without_locks_counts_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int, __: int) -> None:
        raise OSError(EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    left = left_by_a_killed_process()
    assert read_key(NAMESRV) == OwnersKey(OWN, False, str(left))
    remove_key(written(6000))
    assert left.exists()


def test_the_end_of_a_cluster_leaves_the_file_of_the_next_one_at_its_port() -> None:
    first, second = written(), written(PORT, Credentials("staticfire", "another secret").text)
    remove_key(first)
    found = read_key(NAMESRV)
    assert found is not None
    assert found.credentials.secret_key == "another secret"
    remove_key(second)


def test_a_reader_doesnt_wait_for_a_start_that_has_locked_the_folder() -> None:
    left = left_by_a_killed_process()
    busy = os.open(folder(), os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    assert read_key(NAMESRV) is None
    assert left.exists(), "the next command removes it"
    os.close(busy)
    assert read_key(NAMESRV) is None
    assert not left.exists()


@pytest.mark.parametrize("content", ["", "{", '{"accessKey":"staticfire"', "\udcff", "[]", "x" * 10_000])
def test_a_broken_file_says_nothing(content: str) -> None:
    file = written(key="")
    Path(file.path).write_bytes(content.encode(errors="surrogateescape"))
    assert read_key(NAMESRV) is None
    assert Path(file.path).exists(), "its process runs"
    remove_key(file)


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    left = left_by_a_killed_process()
    left.unlink()
    other = tmp_path / "other"
    other.write_text(OWN.text)
    makes: list[Callable[[], None]] = [lambda: os.mkfifo(left), left.mkdir, lambda: left.symlink_to(other)]
    for make in makes:
        make()
        assert read_key(NAMESRV) is None
        remove_key(written(6000))
        assert left.exists()
        left.rmdir() if left.is_dir() else left.unlink()
    assert other.exists()


def test_a_full_disk_has_no_key_file_and_no_half_of_one(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for bytes_max in (0, 5):
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, limits[1]))
        try:
            assert write_key(PORT, OWN.text) is None
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert list(tmp_path.iterdir()) == []
