"""Runs a client's driver against a cluster of its own, and gathers what it reports.

A driver is a program `DRIVER NAMESRV STRICT_NAMESRV`; at STRICT_NAMESRV is a cluster that creates no topics unasked.
That of a client by gRPC is `DRIVER ENDPOINT`. It writes one JSON line per behaviour, in any order, and whatever else it
likes in between:

    {"behaviour": "delay", "ok": true, "ms": 5123, "detail": "level 2 after 5030 ms"}
    {"behaviour": "lite-pull", "cannot": "the client has no lite pull consumer"}
    {"restart": "broker"}                  the broker is restarted; then the driver reads a line
    {"create": ["orders", "sync"]}         the topics are created, with 4 queues; then the driver reads a line
    {"create": ["o"], "kind": "FIFO"}      so are topics of a type
    {"groups": {"billing": {...}}}         groups are created, with these fields; then the driver reads a line
    {"life": "7F000001..."}                the driver reads a line with what is known of a message: `stored/store ...`
    {"request": "rpc"}                     our client asks in that topic; the driver reads a line with the reply
    {"answer": "rpc-ours"}                 our client answers there from now on; then the driver reads a line

A behaviour of which it says nothing has failed.
"""

import json
import os
import subprocess
import tempfile
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from staticfire.cluster.cluster import Cluster
from staticfire.runtime.credentials import Credentials
from tests.clients.administering import administer
from tests.clients.behaviours import BEHAVIOURS, BEHAVIOURS_5
from tests.clients.foreign_proxy import rocketmq_proxy
from tests.clients.our_side import WORDS, OurSide

DRIVER_TIMEOUT_S = 240
KEY, SECRET = "app", "s3cret-of-app"
"""The user of the clients by gRPC: brokers and endpoint check each request of theirs."""
USERS = {"admin": "s3cret-of-admin", KEY: SECRET}
TAIL_LINES = 12
REQUESTED = {"restart", "create", "groups"}


@dataclass(frozen=True)
class Outcome:
    """What became of one behaviour."""

    word: str
    """ok, failed or cannot."""
    detail: str
    ms: int = 0


def drive(command: list[str], strict_namesrv: str, by_grpc: bool, foreign_proxy: bool = False) -> dict[str, Outcome]:
    """Run a driver; return an outcome for every behaviour. `foreign_proxy`: by gRPC, with RocketMQ's in between.

    Raises: ClientUnavailable (RocketMQ's proxy can't be had).
    """
    has_users = by_grpc and not foreign_proxy
    with (
        tempfile.TemporaryDirectory(prefix="staticfire-client-") as home,
        Cluster(isolation="process", grpc=has_users, users=USERS if has_users else None) as cluster,
        rocketmq_proxy(cluster.namesrv, Path(home, "proxy")) if foreign_proxy else nullcontext() as foreign,
        (Path(home) / "stderr").open("w+") as stderr,
    ):
        if has_users:
            cluster.users.allow(KEY, "*", "Pub,Sub")
        keys = {"ROCKETMQ_ACCESS_KEY": KEY, "ROCKETMQ_SECRET_KEY": SECRET} if has_users else {}
        addresses = [foreign or cluster.grpc_endpoint] if by_grpc else [cluster.namesrv, strict_namesrv]
        driver = subprocess.Popen(
            [*_at_home(command, home), *addresses],
            cwd=home,
            env={**os.environ, "HOME": home, **keys},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        deadline = Timer(DRIVER_TIMEOUT_S, driver.kill)
        deadline.start()
        try:
            with ExitStack() as running:
                outcomes, other = _listen(driver, cluster, OurSide(cluster.namesrv, running))
            code = driver.wait()
        finally:
            deadline.cancel()
            driver.kill()
            driver.wait()
        stderr.seek(0)
        said = [*other, *stderr.read().splitlines(), *cluster.deaths][-TAIL_LINES:]
    silent = Outcome("failed", "\n".join([f"the driver ended with {code} and said nothing of it", *said]))
    return {name: outcomes.get(name, silent) for name in (BEHAVIOURS_5 if by_grpc else BEHAVIOURS)}


def _at_home(command: list[str], home: str) -> list[str]:
    """Return the command with Java's own notion of a home, where the client keeps logs and offsets."""
    return [command[0], f"-Duser.home={home}", *command[1:]] if command[0] == "java" else command


def _listen(driver: "subprocess.Popen[str]", cluster: Cluster, ours: OurSide) -> tuple[dict[str, Outcome], list[str]]:
    """Read what the driver writes until its end; return the outcomes and all lines that are none."""
    outcomes: dict[str, Outcome] = {}
    other: list[str] = []
    assert driver.stdout is not None
    assert driver.stdin is not None
    for line in driver.stdout:
        reported = _parse(line)
        if reported is None:
            other.append(line.rstrip())
        elif reported.keys() & REQUESTED or any(word in reported for word in WORDS):
            said = ours.do(reported) if any(word in reported for word in WORDS) else _do(reported, cluster)
            driver.stdin.write(f"{said}\n")
            driver.stdin.flush()
        elif "cannot" in reported:
            outcomes[reported["behaviour"]] = Outcome("cannot", reported["cannot"])
        else:
            word = "ok" if reported["ok"] else "failed"
            outcomes[reported["behaviour"]] = Outcome(word, reported["detail"], reported["ms"])
    return outcomes, other


def _do(requested: dict[str, Any], cluster: Cluster) -> str:
    """Do what a driver wants of the cluster; return the answer."""
    if "kind" in requested or "groups" in requested:
        administer(requested, list(cluster.addresses.values()), Credentials("admin", USERS["admin"]))
        return "done"
    for topic in requested.get("create", ()):
        cluster.create_topic(topic)
    if "restart" in requested:
        for name in cluster.addresses:
            cluster.broker(name).restart()
    return "done"


def _parse(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        reported: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return reported
