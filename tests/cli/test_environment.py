"""What is said of variables that look like settings and are none."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from staticfire.launch.environment import NO_SETTINGS, check_environment, environment_of
from staticfire.launch.plan import PROGRAMS
from staticfire.protocol.errors import UsageError
from tests.cli.commands import FREE_PORTS, ROOT, Up, call, one_line

KUBERNETES = {
    "STATICFIRE_GRPC_SERVICE_HOST": "10.0.0.7",
    "STATICFIRE_GRPC_SERVICE_PORT": "8081",
    "STATICFIRE_GRPC_SERVICE_PORT_GRPC": "8081",
    "STATICFIRE_GRPC_PORT": "tcp://10.0.0.7:8081",
    "STATICFIRE_GRPC_PORT_8081_TCP_PORT": "8081",
}
"""Of a service named staticfire-grpc."""


def reported(**variables: str) -> list[str]:
    words: list[str] = []
    check_environment({f"STATICFIRE_{name}": text for name, text in variables.items()}, words.append)
    return words


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("AUTO_CREATE_TOPIC_ENABL", "AUTO_CREATE_TOPIC_ENABLE"),
        ("AUTOCREATETOPICENABLE", "AUTO_CREATE_TOPIC_ENABLE"),
        ("autoCreateTopicEnable", "AUTO_CREATE_TOPIC_ENABLE"),
        ("BROKER_EXPIRY", "BROKER_EXPIRY_MS"),
        ("LOGLEVEL", "LOG_LEVEL"),
    ],
)
def test_typing_error_is_refused_with_the_likely_one(typed: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        reported(**{typed: "x"})
    assert str(caught.value) == (
        f"unknown setting STATICFIRE_{typed} (the environment): did you mean STATICFIRE_{meant}?"
    )


@pytest.mark.parametrize("level", ["loud", " ", "warn"])
def test_an_unknown_level_of_the_log_is_refused(level: str) -> None:
    with pytest.raises(UsageError, match="is not a level of the log: it must be debug, info, warning, error, critical"):
        reported(LOG_LEVEL=level)
    assert reported(LOG_LEVEL="") == reported(LOG_LEVEL="Debug") == []


def test_settings_of_all_programs_are_known_to_each() -> None:
    assert (
        reported(AUTO_CREATE_TOPIC_ENABLE="no", BROKER_EXPIRY_MS="1s", GRPC_SERVER_PORT="0", CONTROL="http://a") == []
    )


def test_variable_that_resembles_no_setting_is_reported() -> None:
    assert reported(VERSION="1.2", TEST_TIMEOUT="9") == [
        f"STATICFIRE_{name} (the environment) is not a setting and is ignored: "
        "`staticfire broker --settings` lists all settings"
        for name in ("TEST_TIMEOUT", "VERSION")
    ]


def test_variables_of_a_kubernetes_service_are_no_typing_errors() -> None:
    words: list[str] = []
    check_environment(KUBERNETES, words.append)
    assert words == []


def test_port_without_a_service_is_a_typing_error() -> None:
    with pytest.raises(UsageError, match="did you mean STATICFIRE_LISTEN_PORT"):
        reported(LISTN_PORT="1")


def test_every_variable_that_the_program_reads_is_known() -> None:
    """Those that are written out; a name that begins like one and is none is taken out here."""
    constants = {"GRPC_ENDPOINTS", "MQADMIN", "SEND", "COMPLETE", "VERSION", "SERVICE_HOST", "PORT"}
    packages = ("staticfire", "broker", "client", "faults", "nameserver", "pipeline", "protocol", "proxy", "runtime")
    sources = [path for package in packages for path in Path(ROOT, package).rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"\bSTATICFIRE_([A-Z_]+)", path.read_text())}
    settings = {one.name.upper() for cls in PROGRAMS for one in fields(cls)}
    assert read - constants - settings == NO_SETTINGS


@pytest.mark.parametrize("command", ["up", "run", "broker", "nameserver", "mqbroker"])
def test_every_command_that_starts_servers_refuses_it(command: str) -> None:
    arguments = {"up": FREE_PORTS, "run": ["--", "true"]}.get(command, [])
    refused = call(command, *arguments, STATICFIRE_AUTO_CREATE_TOPIC_ENABL="false")
    assert refused.returncode == 2
    assert "did you mean STATICFIRE_AUTO_CREATE_TOPIC_ENABLE?" in one_line(refused.stderr)


def test_cluster_starts_beside_a_variable_of_another_program() -> None:
    with Up("up", *FREE_PORTS, STATICFIRE_VERSION="1.2") as up:
        exit_code, said = up.stop()
    assert exit_code == 0
    assert one_line(said).startswith("staticfire: STATICFIRE_VERSION (the environment) is not a setting")


def test_programs_get_the_addresses_of_one_cluster() -> None:
    outer = environment_of(
        {"PATH": "/bin"},
        "10.0.0.1:9876",
        control="http://10.0.0.1:8082",
        token="s3cret",
        grpc="10.0.0.1:8081",
        chaos=True,
    )
    assert outer == {
        "PATH": "/bin",
        "NAMESRV_ADDR": "10.0.0.1:9876",
        "STATICFIRE_CONTROL": "http://10.0.0.1:8082",
        "STATICFIRE_CONTROL_TOKEN": "s3cret",
        "ROCKETMQ_ENDPOINT": "10.0.0.1:8081",
        "STATICFIRE_CHAOS": "true",
    }
    assert environment_of(outer, "127.0.0.1:9876") == {"PATH": "/bin", "NAMESRV_ADDR": "127.0.0.1:9876"}
    inner = environment_of(outer, "127.0.0.1:9876", control="http://127.0.0.1:1", tls=True)
    assert "STATICFIRE_CONTROL_TOKEN" not in inner
    assert (inner["STATICFIRE_CONTROL"], inner["STATICFIRE_TLS_ENABLE"]) == ("http://127.0.0.1:1", "true")
