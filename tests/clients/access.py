"""Runs each client with right and wrong keys, without permissions, and with TLS.

A client's program for it is `ACCESS ADDRESS TOPIC GROUP SECONDS`, with ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY and
DRIVER_TLS in its environment. It sends a message to the topic, consumes it in the group, waiting so many seconds, and
writes a JSON line about each:

    {"step": "sent", "ok": true, "detail": "SEND_OK"}
    {"step": "received", "ok": false, "detail": "it starts, and gets nothing"}

Besides what the client reports, the brokers must have noted the refusal with its cause.
"""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.java_properties import read_properties
from staticfire.protocol.requests.access import GetAccess, RefusedAccess
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.tls.folder import CertificateWish, fill
from tests.clients.driving import Outcome
from tests.clients.toolchains import RealClient

PROGRAM_TIMEOUT_S = 120
RECEIVE_S, NOTHING_S = 60, 8
ADMIN = Credentials("admin", "s3cret-of-admin")
SECRETS = {
    "app": "s3cret-of-app",
    "reader": "s3cret-of-reader",
    "writer": "s3cret-of-writer",
    "tenant": "s3cret-of-tenant",
}

ACCESS_CASES = {
    "key": "with the right key it sends and consumes",
    "wrong-secret": "with a wrong secret it does neither",
    "unknown-user": "with an unknown key it does neither",
    "no-key": "without a key it does neither",
    "no-pub": "without Pub on the topic it can't send",
    "no-sub": "without Sub on the group it sends, and consumes nothing",
    "namespace": "with names in a namespace it sends and consumes",
    "no-namespace": "without the namespace it does neither",
    "tls": "on a port that takes only TLS it sends and consumes with TLS",
    "no-tls": "and does neither without TLS",
}


class AccessCase(NamedTuple):
    """One of the cases."""

    key: str
    secret: str
    sends: bool
    receives: bool
    reason: str = ""
    """What the brokers must have noted."""
    resource: str = ""
    action: str = ""
    space: str = ""
    """The namespace before its names."""
    similar: str = ""
    """What the brokers must have named as permitted instead."""
    tls: bool = False
    on_tls_port: bool = False


NAMESPACE = "MQ_INST_1_a%"
NOBODY = "nobody-knows-me"
_CASES = {
    "key": AccessCase("app", SECRETS["app"], True, True),
    "wrong-secret": AccessCase("app", "wrong", False, False, "wrong signature"),
    "unknown-user": AccessCase(NOBODY, "wrong", False, False, "unknown user"),
    "no-key": AccessCase("", "", False, False, "no access key"),
    "no-pub": AccessCase("reader", SECRETS["reader"], False, False, "not permitted", "Topic:no-pub", "Pub"),
    "no-sub": AccessCase("writer", SECRETS["writer"], True, False, "not permitted", "Group:g-no-sub", "Sub"),
    "namespace": AccessCase("tenant", SECRETS["tenant"], True, True, space=NAMESPACE),
    "no-namespace": AccessCase(
        "tenant",
        SECRETS["tenant"],
        False,
        False,
        "not permitted",
        "Topic:no-namespace",
        "Pub",
        similar=f"Topic:{NAMESPACE}no-namespace",
    ),
    "tls": AccessCase("app", SECRETS["app"], True, True, tls=True, on_tls_port=True),
    "no-tls": AccessCase("app", SECRETS["app"], False, False, on_tls_port=True),
}


SLOWEST = "no-tls"
"""Some clients connect again and again for more than a minute; the other cases run beside that."""


def access_outcomes(client: RealClient) -> dict[str, Outcome]:
    """Run all cases of a client. Raises: ClientUnavailable."""
    command = client.access_command()
    with tempfile.TemporaryDirectory(prefix="staticfire-access-") as home:
        certs = Path(home, "certs")
        fill(str(certs), CertificateWish([], 30, "changeit"))
        only_tls = {
            **read_properties((certs / "tls.properties").read_text()), "tls.server.mode": "enforcing",
        }  # fmt: skip
        trust = {
            "NODE_EXTRA_CA_CERTS": str(certs / "ca.pem"),
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certs / "ca.pem"),
        }
        with stand(client, {}) as plain, stand(client, only_tls) as covered, ThreadPoolExecutor(2) as pool:

            def run(name: str) -> Outcome:
                case = _CASES[name]
                if case.tls and client.why_no_tls:
                    return Outcome("cannot", client.why_no_tls)
                cluster = covered if case.on_tls_port else plain
                folder = Path(home, name)
                folder.mkdir()
                return _judged(case, cluster, _played(command, client, case, name, cluster, folder, trust))

            slowest_first = sorted(_CASES, key=lambda name: name != SLOWEST)
            outcomes = dict(zip(slowest_first, pool.map(run, slowest_first), strict=True))
    return {name: outcomes[name] for name in _CASES}


@contextmanager
def stand(client: RealClient, settings: dict[str, str]) -> Iterator[Cluster]:
    """Start a cluster with users, policies, and a topic for each case."""
    users = {ADMIN.access_key: ADMIN.secret_key, **SECRETS}
    with Cluster(isolation="process", grpc=client.by_grpc, users=users, settings=settings) as cluster:
        cluster.users.allow("app", "*", "Pub,Sub")
        cluster.users.allow("reader", "*", "Sub")
        cluster.users.allow("writer", "*", "Pub")
        cluster.users.allow("tenant", f"Topic:{NAMESPACE}*", "Pub,Sub")
        cluster.users.allow("tenant", f"Group:{NAMESPACE}*", "Sub")
        for name, case in _CASES.items():
            cluster.create_topic(case.space + name)
        yield cluster


class PlayedAccess(NamedTuple):
    """What a program reported."""

    sent: bool
    received: bool
    detail: str
    ms: int


def _played(
    command: list[str],
    client: RealClient,
    case: AccessCase,
    name: str,
    cluster: Cluster,
    home: Path,
    trust: dict[str, str],
) -> PlayedAccess | str:
    """Run a client's program; return what it reported, or its last words if that is no report."""
    address = cluster.grpc_endpoint if client.by_grpc else cluster.namesrv
    patience = RECEIVE_S if case.receives else NOTHING_S
    keys = {"ROCKETMQ_ACCESS_KEY": case.key, "ROCKETMQ_SECRET_KEY": case.secret} if case.key else {}
    tls = {"DRIVER_TLS": "true", **trust} if case.tls else {}
    if command[0] == "java":
        command = [command[0], f"-Duser.home={home}", *command[1:]]
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*command, address, case.space + name, f"{case.space}g-{name}", str(patience)],
            cwd=home, env={**os.environ, "HOME": str(home), **keys, **tls},
            capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it hasn't ended within {PROGRAM_TIMEOUT_S} s"
    reported = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    by_step = {each["step"]: each for each in reported}
    if by_step.keys() != {"sent", "received"}:
        return "\n".join([f"it ended with {done.returncode}", *(done.stdout + done.stderr).splitlines()[-12:]])
    details = "; ".join(f"{step}: {each['detail']}" for step, each in by_step.items() if each["detail"])
    ms = round((time.monotonic() - began) * 1000)
    return PlayedAccess(by_step["sent"]["ok"], by_step["received"]["ok"], details, ms)


def _judged(case: AccessCase, cluster: Cluster, played: PlayedAccess | str) -> Outcome:
    if isinstance(played, str):
        return Outcome("failed", played)
    problems = []
    if played.sent != case.sends:
        problems.append(f"sent is {played.sent}")
    if played.received != case.receives:
        problems.append(f"received is {played.received}")
    if case.reason and not _is_noted(case, asyncio.run(_refusals(cluster))):
        problems.append(f"no broker noted {case.reason!r} of {case.key or 'a client without a key'}")
    word = "failed" if problems else "ok"
    return Outcome(word, "\n".join([*problems, played.detail]) if problems else played.detail, played.ms)


def _is_noted(case: AccessCase, refusals: list[RefusedAccess]) -> bool:
    return any(
        (one.reason, one.user, one.resource) == (case.reason, case.key, case.resource)
        and (not case.action or case.action in one.actions)
        and one.similar == case.similar
        for one in refusals
    )


async def _refusals(cluster: Cluster) -> list[RefusedAccess]:
    pool = ConnectionPool(live_machine(), credentials=ADMIN)
    try:
        found = []
        for address in cluster.addresses.values():
            answer = await pool.ask(address, GetAccess(""))
            assert answer.code == 0, answer.remark
            found += answer.body.refused
        return found
    finally:
        await pool.close()
