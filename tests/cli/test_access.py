"""Users and policies by the command line, over HTTP and in Python. Secrets are shown nowhere."""

import io
import json
import stat
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from staticfire import Cluster, Message, Producer
from staticfire.cli import main
from staticfire.cli.cluster_flags import user_of
from staticfire.client import ClientSettings, ProducerSettings
from staticfire.protocol.errors import BrokerAnswer, StaticfireError, UsageError
from staticfire.runtime.credentials import Credentials
from tests.cli.commands import FREE_PORTS, Up, call, get, one_line
from tests.cli.test_control_routes import posted

pytestmark = pytest.mark.row("G7")

SECRET = "s3cret-of-the-shop"
INNER = ("innerClientAuthenticationCredentials", '{"accessKey":"me","secretKey":"0123456789"}')
ME = {"ROCKETMQ_ACCESS_KEY": "me", "ROCKETMQ_SECRET_KEY": "0123456789"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, settings=dict([INNER]), users={"admin": "the-secret-of-admin"}) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _only_admin(cluster: Cluster) -> Iterator[None]:
    yield
    for one in cluster.users.all():
        if one.name != "admin":
            cluster.users.remove(one.name)


class Ran(NamedTuple):
    """The output of a command."""

    returncode: int
    stdout: str
    stderr: str


def staticfire(cluster: Cluster, *arguments: str, text: str = "") -> Ran:
    """Run a command in this process: many of them would take long as processes."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in {"NAMESRV_ADDR": cluster.namesrv, **ME}.items():
            patch.setenv(name, value)
        patch.setattr("sys.stdin", io.StringIO(text))
        code = main(list(arguments))
    ran = Ran(code, out.getvalue(), err.getvalue())
    assert SECRET not in ran.stdout + ran.stderr
    return ran


def sends(cluster: Cluster, topic: str, key: str = "shop", secret: str = SECRET) -> str:
    settings = ProducerSettings(
        client=ClientSettings(access_key=key, secret_key=secret), retry_times_when_send_failed=0
    )
    try:
        with Producer("shop", cluster.namesrv, settings) as producer:
            return producer.send(Message(topic, b"x")).status.name
    except StaticfireError as error:
        return str(error)


def test_a_user_is_added_allowed_changed_and_removed(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    assert staticfire(cluster, "user", "add", "shop", "--secret", SECRET).stdout.startswith("added user shop")
    ran = staticfire(cluster, "allow", "shop", "topic:orders", "pub,Sub", "--from", "10.0.0.0/8,127.0.0.1")
    assert ran.stdout == "shop may Pub, Sub on Topic:orders from 10.0.0.0/8, 127.0.0.1\n"
    assert staticfire(cluster, "deny", "shop", "Topic:audit", "All").stdout == "shop may not All on Topic:audit\n"
    users = [json.loads(line) for line in staticfire(cluster, "user", "list", "--json").stdout.splitlines()]
    assert users == [
        {"user": "admin", "type": "Super", "status": "enabled", "policies": []},
        {
            "user": "shop", "type": "Normal", "status": "enabled",
            "policies": ["Allow Topic:orders Pub,Sub from 10.0.0.0/8,127.0.0.1", "Deny Topic:audit All"],
        },
    ]  # fmt: skip
    assert sends(cluster, "orders") == "SEND_OK"
    assert "User:shop has no permission to access Topic:audit from 127.0.0.1, the decision is deny." in sends(
        cluster, "audit"
    )
    assert staticfire(cluster, "allow", "shop", "Topic:audit", "--remove").returncode == 0
    assert "no matched policies" in sends(cluster, "audit")
    assert staticfire(cluster, "user", "change", "shop", "--secret-stdin", text="n3w\n").returncode == 0
    assert "check signature failed" in sends(cluster, "orders")
    assert sends(cluster, "orders", secret="n3w") == "SEND_OK"
    assert staticfire(cluster, "user", "change", "shop", "--disable").returncode == 0
    assert "User:shop is disabled." in sends(cluster, "orders", secret="n3w")
    assert staticfire(cluster, "user", "remove", "shop").stdout == "removed user shop\n"
    assert "User:shop is not found." in sends(cluster, "orders")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["user", "add", "shop"], "give a secret"),
        (["user", "add", "shop", "--secret", " "], "the secret is empty"),
        (["user", "add", "a b", "--secret", "x"], "can't be the name of a user"),
        (["user", "add", "admin", "--secret", "x"], "the user admin exists"),
        (["user", "change", "admin"], "give --secret"),
        (["user", "change", "nobody", "--enable"], "there is no user nobody; the users are admin"),
        (["user", "remove", "nobody"], "there is no user nobody"),
        (["user", "remove", "admin"], "the last super user"),
        (["user", "change", "admin", "--disable"], "the last super user"),
        (["user", "change", "admin", "--normal"], "the last super user"),
        (["allow", "nobody", "Topic:a", "Pub"], "there is no user nobody"),
        (["allow", "admin", "Topic:a", "Fly"], "'Fly' is not an action; actions are All, Pub"),
        (["allow", "admin", "Topik:a", "Pub"], "'Topik:a' is not a resource"),
        (["allow", "admin", "orders", "Pub"], "write Topic:orders"),
        (["allow", "admin", "Topic:a"], "give the actions"),
        (["allow", "admin", "Topic:a", "--remove"], "has no policy about Topic:a"),
        (["allow", "admin", "Topic:a", "Pub", "--from", "1.2.3"], "'1.2.3' is not an address or network"),
        (["deny", "admin", "Topic:*a", "Pub"], "'Topic:*a' can't be the name of a topic"),
        (["deny", "admin", "Topic:a", "Pub", "--remove"], "and nothing else"),
    ],
)
def test_wrong_use_is_refused_in_one_line(cluster: Cluster, arguments: list[str], words: str) -> None:
    ran = staticfire(cluster, *arguments)
    assert ran.returncode in (1, 2)
    assert words in one_line(ran.stderr)


def test_the_last_super_user_stays_over_http(cluster: Cluster) -> None:
    status, answer = get(f"{cluster.control}/users/admin", "DELETE")
    assert (status, answer["code"]) == (403, "NO_PERMISSION")
    assert "is the last super user" in answer["error"]


def test_over_http(cluster: Cluster) -> None:
    def ask(method: str, path: str, **body: Any) -> tuple[int, Any]:
        return posted(f"{cluster.control}/{path}", json.dumps(body).encode() if body else b"", method)

    assert ask("POST", "users", user="shop", secret=SECRET) == (200, {"user": "shop"})
    policy = {"resource": "topic:orders", "actions": "Pub"}
    assert ask("PUT", "users/shop/policies", **policy)[1]["resource"] == "Topic:orders"
    status, users = get(f"{cluster.control}/users")
    assert status == 200
    assert users["users"][1]["policies"][0]["actions"] == ["Pub"]
    assert SECRET not in json.dumps(users)
    assert "check signature failed" in sends(cluster, "orders", secret="wrong")
    _, access = get(f"{cluster.control}/access")
    assert "wrong signature" in {one["reason"] for broker in access["brokers"].values() for one in broker["refused"]}
    assert ask("PATCH", "users/shop", enabled=False)[0] == 200
    assert ask("DELETE", "users/shop/policies?resource=Topic:orders")[0] == 200
    assert ask("DELETE", "users/shop") == (200, {"removed": "shop"})
    assert ask("DELETE", "users/admin")[0] >= 400
    assert ask("PUT", "users/admin/policies", resource="Topic:a", actions="Fly")[0] == 400
    assert ask("POST", "users", user="shop", secret=7)[0] == 400


def test_recorded_requests_show_no_secret(cluster: Cluster) -> None:
    cluster.users.add("shop", SECRET)
    cluster.users.change("shop", SECRET + "2")
    reported = staticfire(cluster, "journal", "--requests", "--json")
    found = [json.loads(line) for line in reported.stdout.splitlines()]
    hidden = {one["details"]["code"] for one in found if one["details"].get("body") == "******"}
    assert hidden >= {"AUTH_CREATE_USER", "AUTH_UPDATE_USER"}
    signatures = {one["details"]["fields"]["signature"] for one in found if one["details"]["code"] == "SIGN_IN"}
    assert signatures == {"******"}


def test_a_group_whose_heartbeats_are_refused_is_explained(cluster: Cluster) -> None:
    cluster.users.add("shop", SECRET)
    cluster.users.allow("shop", "Topic:orders", "Sub")
    ran = call(
        "consume", "orders", "--group", "billing", "--protocol", "rocketmq", "--timeout", "1s",
        NAMESRV_ADDR=cluster.namesrv, ROCKETMQ_ACCESS_KEY="shop", ROCKETMQ_SECRET_KEY=SECRET,
    )  # fmt: skip
    assert SECRET not in ran.stdout + ran.stderr
    finding = cluster.explain("billing").findings[0]
    assert finding.words == "billing's heartbeats are refused: user shop may not Sub on Group:billing"
    assert finding.way_out == "staticfire allow shop Group:billing Sub"


def test_parameters_that_are_no_users_are_refused() -> None:
    users: Any
    for users in ({"admin": ""}, {"": "x"}, {"admin": 7}, ["admin"]):
        with pytest.raises(UsageError, match="users"):
            Cluster(users=users)
    with pytest.raises(UsageError, match="belong together"):
        ClientSettings(access_key="shop")
    assert "s3" not in repr(ClientSettings(access_key="shop", secret_key="s3"))
    assert "s3" not in repr(Credentials("shop", "s3"))


def test_a_snapshot_has_the_users_and_a_reset_keeps_them(cluster: Cluster) -> None:
    cluster.users.add("shop", SECRET)
    cluster.snapshot("with-shop")
    cluster.users.remove("shop")
    assert "is not found" in sends(cluster, "orders")
    cluster.restore("with-shop")
    cluster.users.allow("shop", "Topic:orders", "Pub")
    assert sends(cluster, "orders") == "SEND_OK"
    cluster.reset()
    assert [one.name for one in cluster.users.all()] == ["admin", "shop"]


def test_users_on_the_disk_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    with Cluster(directory=str(tmp_path), users={"admin": SECRET}, settings=dict([INNER])) as cluster:
        cluster.snapshot("with-users")
    found = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert sorted({path.name for path in found}) == ["access.json"]
    assert len(found) == 2, "one is in the snapshot"
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}


def test_the_owners_commands_speak_tls_with_a_cluster_that_takes_nothing_else(tmp_path: Path) -> None:
    only_tls = ("--set", "tls.server.mode=enforcing", "--set", "authenticationEnabled=true")
    with Up("up", *FREE_PORTS, *only_tls, "--user", f"admin:{SECRET}", TMPDIR=str(tmp_path)) as up:
        namesrv = up.reported("NAMESRV_ADDR")
        own = {"NAMESRV_ADDR": namesrv, "TMPDIR": str(tmp_path)}
        for arguments in (["user", "add", "shop", "--secret", SECRET], ["allow", "shop", "Topic:orders", "Pub,Sub"]):
            ran = call(*arguments, **own)
            assert (ran.returncode, ran.stderr) == (0, "")
        assert "Allow Topic:orders Pub,Sub" in call("user", "list", **own).stdout
        assert "speaks only TLS on this port: turn TLS on" in call("user", "list", NAMESRV_ADDR=namesrv).stderr


@pytest.mark.parametrize("text", ["admin", "admin:", ":secret", " : "])
def test_a_flag_that_names_no_user_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME:SECRET"):
        user_of(text)


def test_a_file_of_rocketmq_4_and_a_setting_without_it(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts:\n- accessKey: rocketmq2\n  secretKey: 12345678\n  admin: true\n")
    with Cluster(settings={"plainAclFile": str(path)}) as cluster:
        cluster.create_topic("orders")
        assert sends(cluster, "orders", "rocketmq2", "12345678") == "SEND_OK"
        assert "check signature failed." in sends(cluster, "orders", "rocketmq2", "wrong")
    path.write_text("accounts:\n\t- x\n")
    reported = call("up", *FREE_PORTS, "-c", str(path))
    assert reported.returncode == 2
    assert "line 2" in reported.stderr.splitlines()[-1]
    with pytest.raises(UsageError, match="needs plainAclFile"), Cluster(settings={"aclEnable": True}):
        pass


def test_broken_settings_never_show_their_secret() -> None:
    for setting in ("initAuthenticationUser", "innerClientAuthenticationCredentials"):
        broken = Cluster(settings={setting: f'{{"username":"admin","passwort":"{SECRET}"}}'})
        with pytest.raises(UsageError, match=setting) as reported, broken:
            pass
        assert SECRET not in str(reported.value)


def test_a_broker_answer_names_the_user(cluster: Cluster) -> None:
    refused = pytest.raises(BrokerAnswer, match="username cannot be null")
    with Producer("shop", cluster.namesrv) as producer, refused:
        producer.send(Message("orders", b"x"))


def test_mqadmin_signs_with_the_key_of_tools_yml(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "tools.yml"
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))

    def listed() -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            # Set and deleted, so that what the command sets is removed at the end.
            for name in ("ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"):
                patch.setenv(name, "")
                patch.delenv(name)
            code = main(["mqadmin", "getBrokerConfig", "-n", cluster.namesrv, "-b", cluster.addresses["broker-a"]])
        return Ran(code, out.getvalue(), err.getvalue())

    file.write_text("accessKey: admin\nsecretKey: the-secret-of-admin\n")
    assert "brokerName" in listed().stdout
    file.write_text("accessKey: admin\nsecretKey: 0123\n")
    assert "check signature failed." in listed().stderr
    file.write_text("accessKey: [\n")
    assert "accessKey: ..." in one_line(listed().stderr)
