"""Check that the servers of this container are ready: they respond, and the brokers are registered at the nameservers.

    python -I -S container_health.py      exit code 0; or 1 and a line that names the server that isn't ready

A health check runs every few seconds. So this file runs on its own and imports only the standard library, which takes
30 ms instead of 200. It finds the servers and their settings in the command lines of the container's processes. It
sends requests in the JSON codec. For a whole cluster (`staticfire up`) it queries the control endpoint, which checks
all servers.
"""

import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

# Less than the 5 s that Docker allows for a whole check.
TIMEOUT_S = 4.0
NAMESERVER, BROKER, PROXY = "staticfire.nameserver", "staticfire.broker", "staticfire.proxy"
CLUSTER, CONTROL_FLAG = "staticfire up", "--control-port"
# Request codes: the status of a broker, and the brokers that a nameserver has.
RUNTIME_INFO, CLUSTER_INFO = 28, 106
DEFAULT_PORTS = {NAMESERVER: 9876, BROKER: 10911, PROXY: 8081, CLUSTER: 8082}
HTTP_2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
# The type of the frame that an HTTP/2 server sends first.
SETTINGS = 4
VIP_PORT_BELOW = 2
ENFORCING = "enforcing"
# A part of the control endpoint's response to plain text where only TLS is accepted.
ONLY_TLS = b"takes only TLS"
DEFAULT_BROKER = "broker-a"
OWN_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class NotReady(Exception):
    """A server isn't ready. The message names it."""


def main() -> int:
    """Check every server; return the exit code."""
    servers = list(running_servers(Path("/proc")))
    try:
        if not servers:
            raise NotReady("no server is running here")
        for module, settings in servers:
            check(module, settings)
    except NotReady as words:
        print(words)
        return 1
    return 0


def running_servers(proc: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the module and settings of each server, from command lines like `-m staticfire.broker --settings {...}`."""
    for file in sorted(proc.glob("[0-9]*/cmdline")):
        with suppress(OSError, ValueError):
            words = file.read_bytes().decode().split("\0")
            if "up" in words and words[words.index("up") - 1].endswith("/staticfire"):
                yield CLUSTER, _control_port(words)
                continue
            module = words[words.index("-m") + 1]
            if module in DEFAULT_PORTS and "--settings" in words:
                yield module, json.loads(words[words.index("--settings") + 1])


def _control_port(words: list[str]) -> dict[str, str]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == CONTROL_FLAG or word.startswith(f"{CONTROL_FLAG}="):
            return {"listen_port": following if word == CONTROL_FLAG else word.partition("=")[2]}
    return {}


def check(module: str, settings: dict[str, str]) -> None:
    """Query a server; for a broker, also query its nameservers. Raises: NotReady."""
    host = settings.get("listen_host", "")
    port_name = "grpc_server_port" if module == PROXY else "listen_port"
    host, port = OWN_ADDRESS.get(host, host), int(settings.get(port_name, DEFAULT_PORTS[module]))
    is_tls = settings.get("tls_server_mode") == ENFORCING
    if module == PROXY:
        greet(host, port, is_tls)
        return
    if module == CLUSTER:
        ask_control(port)
        return
    ask(host, port, CLUSTER_INFO if module == NAMESERVER else RUNTIME_INFO, is_tls)
    if module == NAMESERVER:
        return
    if settings.get("vip_port_enable", "true") == "true":
        connect(host, port - VIP_PORT_BELOW, is_tls).close()
    name = settings.get("broker_name", DEFAULT_BROKER)
    for address in settings.get("namesrv_addr", "").replace(",", ";").split(";"):
        if not address.strip():
            continue
        names_host, _, names_port = address.strip().rpartition(":")
        known = ask(names_host.strip("[]"), int(names_port), CLUSTER_INFO, is_tls)
        if f'"brokerName":{json.dumps(name)}'.encode() not in known:
            raise NotReady(f"{name} isn't registered at {address}")


def ask(host: str, port: int, code: int, is_tls: bool = False) -> bytes:
    """Send a request without fields; return the body of the response. Raises: NotReady."""
    header = json.dumps({"code": code, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0}).encode()
    with connect(host, port, is_tls) as connection:
        try:
            connection.sendall(struct.pack(">II", 4 + len(header), len(header)) + header)
            with connection.makefile("rb") as answer:
                length, header_bytes = struct.unpack(">II", answer.read(8))
                frame = answer.read(length - 4)
            answered: dict[str, Any] = json.loads(frame[: header_bytes & 0xFFFFFF])
        except (OSError, ValueError, struct.error) as error:
            raise NotReady(f"{host}:{port} doesn't respond: {error}") from None
    if answered["code"] != 0:
        raise NotReady(f"{host}:{port} responds with {answered['code']}: {answered.get('remark')}")
    return frame[header_bytes & 0xFFFFFF :]


def ask_control(port: int, is_tls: bool = False) -> None:
    """Query the health of a whole cluster. Raises: NotReady."""
    with connect("127.0.0.1", port, is_tls) as connection:
        token = os.environ.get("STATICFIRE_CONTROL_TOKEN", "")
        allowed = f"Authorization: Bearer {token}\r\n" if token else ""
        try:
            connection.sendall(f"GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n{allowed}\r\n".encode())
            with connection.makefile("rb") as answer:
                head, _, body = answer.read().partition(b"\r\n\r\n")
        except OSError as error:
            raise NotReady(f"127.0.0.1:{port} doesn't respond: {error}") from None
    if ONLY_TLS in body and not is_tls:
        ask_control(port, is_tls=True)
    elif head.split()[1:2] != [b"200"]:
        raise NotReady(f"the cluster isn't ready: {body.decode(errors='replace')}")


def greet(host: str, port: int, is_tls: bool = False) -> None:
    """Start an HTTP/2 connection to a gRPC endpoint. Raises: NotReady."""
    with connect(host, port, is_tls) as connection:
        try:
            connection.sendall(HTTP_2_HELLO)
            answer = connection.recv(9)
        except OSError as error:
            raise NotReady(f"{host}:{port} doesn't respond: {error}") from None
    if answer[3:4] != bytes((SETTINGS,)):
        raise NotReady(f"{host}:{port} doesn't speak HTTP/2")


def connect(host: str, port: int, is_tls: bool = False) -> socket.socket:
    """Open a connection. `is_tls`: with TLS; the server isn't verified. Raises: NotReady."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(TIMEOUT_S)
    try:
        connection.connect((host, port))
        if is_tls:
            connection = with_tls(connection)
    except OSError as error:
        connection.close()
        raise NotReady(f"can't connect to {host}:{port}: {error}") from None
    return connection


def with_tls(connection: socket.socket) -> socket.socket:
    """Return the connection with TLS, and the certificate of the environment if there is one. Raises: OSError."""
    import ssl  # here, since few containers need it

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if certificate := os.environ.get("STATICFIRE_TLS_CLIENT_CERT_PATH"):
        context.load_cert_chain(certificate, os.environ.get("STATICFIRE_TLS_CLIENT_KEY_PATH"))
    return context.wrap_socket(connection)


if __name__ == "__main__":
    sys.exit(main())
