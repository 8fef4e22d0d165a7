"""The settings of TLS under RocketMQ's names. RocketMQ: TlsSystemConfig, where they are system properties (`-D`).

A server has both parts, because a broker is a client of its nameservers. A program has `TlsClient`.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from staticfire.protocol.errors import UsageError
from staticfire.runtime.ranges import SettingsValue, settings_class

DISABLED, PERMISSIVE, ENFORCING = "disabled", "permissive", "enforcing"
NO_AUTH, OPTIONAL_AUTH, REQUIRED_AUTH = "none", "optional", "require"
ENABLE, TEST_MODE = "tls.enable", "tls.test.mode.enable"
CLIENT_PREFIX = "tls.client."
NAME_FORM = r"(\*\.)?[A-Za-z0-9_.:%-]+"


@dataclass(frozen=True, slots=True)
class TlsClient:
    """How a client speaks TLS. Without any of these it encrypts, and accepts every server, as RocketMQ's clients do."""

    trust_cert_path: str = ""
    """A PEM file with the certificates of the CAs that are trusted. If it is set, the server is verified."""
    auth_server: bool | None = None
    """Verify the server. None: if `trust_cert_path` is set. True without that file: against the system's CAs."""
    cert_path: str = ""
    """The client's own certificate, for servers that require one (mutual TLS). PEM."""
    key_path: str = ""
    key_password: str = field(default="", repr=False)
    check_name: bool = True
    """If the server is verified: its certificate must name the host that was connected to. RocketMQ never checks it."""

    @property
    def verifies(self) -> bool:
        """Whether a server with any other certificate is refused."""
        return bool(self.trust_cert_path) if self.auth_server is None else self.auth_server

    @property
    def reads_files(self) -> bool:
        """Whether it needs files: its certificate, or those of the CAs that it trusts."""
        return bool(self.trust_cert_path or self.cert_path or self.key_path)


def tls_client(wanted: "bool | Mapping[str, Any] | TlsClient | None") -> TlsClient | None:
    """Return how to speak TLS, None for plain text. A mapping has RocketMQ's names. Raises: UsageError."""
    if wanted is None or isinstance(wanted, bool):
        return TlsClient() if wanted else None
    if isinstance(wanted, TlsClient):
        return wanted
    if not isinstance(wanted, Mapping):
        raise UsageError(f"tls={type(wanted).__name__}: it must be True, False, a TlsClient, or a dictionary")
    return _from_properties({str(key): _text(value) for key, value in wanted.items()})


_NAMES = {
    "certPath": "cert_path",
    "keyPath": "key_path",
    "keyPassword": "key_password",
    "trustCertPath": "trust_cert_path",
}


def _from_properties(properties: Mapping[str, str]) -> TlsClient | None:
    values: dict[str, Any] = {}
    for key, text in properties.items():
        name = key.removeprefix(CLIENT_PREFIX)
        if key.startswith(CLIENT_PREFIX) and name in _NAMES:
            values[_NAMES[name]] = text
        elif key == f"{CLIENT_PREFIX}authServer":
            values["auth_server"] = _flag(key, text)
        elif key not in (ENABLE, TEST_MODE) and not key.startswith("tls.server."):
            known = ", ".join([ENABLE, TEST_MODE, *(CLIENT_PREFIX + each for each in (*_NAMES, "authServer"))])
            raise UsageError(f"{key} is not a setting of TLS for clients; known are {known}")
    if not _flag(ENABLE, properties.get(ENABLE, "true")):
        return None
    # RocketMQ's default for this is true: then the paths have no effect. Here the default is false.
    return TlsClient() if _flag(TEST_MODE, properties.get(TEST_MODE, "false")) else TlsClient(**values)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flag(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"{key}={text}: it must be true or false")
    return text.lower() == "true"


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"rocketmq": name, **more}


@settings_class
class TlsSettings(SettingsValue):
    """TLS of one server: on its ports, and on the connections that it opens."""

    tls_server_mode: str = field(
        default=PERMISSIVE, metadata=_named("tls.server.mode", choices=(DISABLED, PERMISSIVE, ENFORCING))
    )
    """permissive: TLS and plain text on the same ports, the first byte of a connection decides. enforcing: only TLS;
    nothing of a plain request is executed. disabled: only plain text."""
    tls_test_mode_enable: bool | None = field(default=None, metadata=_named(TEST_MODE))
    """true: use a new self-signed certificate, whatever its paths say. Empty: if there is no tls.server.certPath.
    RocketMQ's default is true, so there paths alone have no effect."""
    tls_server_cert_path: str = field(default="", metadata=_named("tls.server.certPath"))
    """PEM file with the certificate, and those of the CAs between it and the root. It is loaded again when it
    changes."""
    tls_server_key_path: str = field(default="", metadata=_named("tls.server.keyPath"))
    tls_server_key_password: str = field(default="", metadata=_named("tls.server.keyPassword", secret=True))
    tls_server_need_client_auth: str = field(
        default=NO_AUTH,
        metadata=_named("tls.server.need.client.auth", choices=(NO_AUTH, OPTIONAL_AUTH, REQUIRED_AUTH)),
    )
    """require: clients that use TLS must have a certificate of a CA in tls.server.trustCertPath. Plain connections are
    a matter of tls.server.mode."""
    tls_server_auth_client: bool = field(default=False, metadata=_named("tls.server.authClient"))
    """true: with need.client.auth=optional, a client's certificate is checked if it has one; false: it isn't requested.
    With require it is always checked against tls.server.trustCertPath; in RocketMQ, false then accepts any."""
    tls_server_trust_cert_path: str = field(default="", metadata=_named("tls.server.trustCertPath"))
    tls_names: str = ""
    """Host names and addresses in the certificate that is made, separated by commas, besides localhost, 127.0.0.1 and
    ::1. Only for clients that check it; most of RocketMQ's don't."""
    tls_enable: bool | None = field(default=None, metadata=_named(ENABLE))
    """Whether the connections that it opens, to nameservers and brokers, use TLS. Empty: if tls.server.mode is
    enforcing."""
    tls_client_auth_server: bool | None = field(default=None, metadata=_named("tls.client.authServer"))
    """Verify the servers that it connects to. Empty: if there is a tls.client.trustCertPath."""
    tls_client_trust_cert_path: str = field(default="", metadata=_named("tls.client.trustCertPath"))
    tls_client_cert_path: str = field(default="", metadata=_named("tls.client.certPath"))
    tls_client_key_path: str = field(default="", metadata=_named("tls.client.keyPath"))
    tls_client_key_password: str = field(default="", metadata=_named("tls.client.keyPassword", secret=True))

    @property
    def makes_certificate(self) -> bool:
        """Whether its certificate is a new one of its own."""
        if self.tls_test_mode_enable is None:
            return not self.tls_server_cert_path
        return self.tls_test_mode_enable

    @property
    def asks_clients(self) -> bool:
        """Whether a certificate is requested from clients."""
        need = self.tls_server_need_client_auth
        return need == REQUIRED_AUTH or (need == OPTIONAL_AUTH and self.tls_server_auth_client)

    @property
    def reads_files(self) -> bool:
        """Whether a server needs files: those of its certificate, or the CA of its clients."""
        return not self.makes_certificate or self.asks_clients

    @property
    def names(self) -> list[str]:
        """The additional names in a certificate that is made."""
        return [name.strip() for name in self.tls_names.split(",") if name.strip()]

    def check_names(self) -> None:
        """Raises: UsageError (no certificate can have such a name), if a certificate is made."""
        if self.makes_certificate:
            check_names(self.names, "tlsNames=")

    def as_client(self) -> TlsClient | None:
        """Return how the connections that it opens speak TLS; None: plain text."""
        is_on = self.tls_server_mode == ENFORCING if self.tls_enable is None else self.tls_enable
        if not is_on:
            return None
        if self.tls_test_mode_enable:
            return TlsClient()
        return TlsClient(
            self.tls_client_trust_cert_path,
            self.tls_client_auth_server,
            self.tls_client_cert_path,
            self.tls_client_key_path,
            self.tls_client_key_password,
        )


def check_names(names: Sequence[str], given_by: str) -> None:
    """Check the names of a certificate. `given_by`: the setting or flag, for the error.

    Raises: UsageError (no certificate can have such a name).
    """
    for name in names:
        if not re.fullmatch(NAME_FORM, name):
            words = "is not a host name or an address; write xn--... for letters beyond ASCII"
            raise UsageError(f"{given_by}{name!r} {words}")


CLIENT_VARIABLES = {
    "TLS_CLIENT_TRUST_CERT_PATH": "trustCertPath",
    "TLS_CLIENT_AUTH_SERVER": "authServer",
    "TLS_CLIENT_CERT_PATH": "certPath",
    "TLS_CLIENT_KEY_PATH": "keyPath",
    "TLS_CLIENT_KEY_PASSWORD": "keyPassword",
}
"""The environment variables of TLS for clients, without the prefix STATICFIRE_."""


def environment_tls(environment: Mapping[str, str] | None = None) -> TlsClient | None:
    """Return how the clients of this process speak TLS by default. RocketMQ: -Dtls.enable=true.

    Raises: UsageError.
    """
    variables = os.environ if environment is None else environment
    for variable in ("STATICFIRE_TLS_ENABLE", "STATICFIRE_TLS_CLIENT_AUTH_SERVER"):
        if text := variables.get(variable):
            _flag(variable, text)  # So that an error names what the user has written.
    if variables.get("STATICFIRE_TLS_ENABLE", "") in ("", "false"):
        return None
    given = {
        f"{CLIENT_PREFIX}{name}": variables[f"STATICFIRE_{variable}"]
        for variable, name in CLIENT_VARIABLES.items()
        if variables.get(f"STATICFIRE_{variable}")
    }
    return tls_client({ENABLE: variables["STATICFIRE_TLS_ENABLE"], **given})
