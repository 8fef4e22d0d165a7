"""What TLS and access control cost: sends with TLS beside plain ones, a handshake, a signature, a decision.

    python -m benchmarks.parts.access [--sends 40000] [--rounds 5]

Sends of 1 KiB on one connection, 64 in flight, to a broker in another process; both forms take turns, and the better
round of each counts. All other figures are CPU time in this process. The goals are printed beside them.
"""

import argparse
import hashlib
import hmac
import json
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.frames import sends
from benchmarks.machine import LOAD_CORE, cpu_ns, pin
from benchmarks.servers import ServerProcess, broker
from staticfire.broker.access.book import AccessBook
from staticfire.broker.access.gate import texts_of
from staticfire.broker.access.judging import AccessJudge, SignedBy
from staticfire.broker.access.needs import Need
from staticfire.broker.access.policies import ALLOW, CUSTOM, Acl, PolicyEntries, PolicyEntry
from staticfire.broker.access.resources import TOPIC, Pattern, Resource
from staticfire.broker.access.users import NORMAL, User
from staticfire.protocol.codecs import JSON
from staticfire.protocol.signatures import ACCESS_KEY, SIGNATURE, sign, signed_content
from staticfire.runtime.tls.contexts import server_context
from staticfire.runtime.tls.session import TlsSession
from staticfire.runtime.tls.settings import TlsSettings

IN_FLIGHT = 64
POLICIES = 10_000
CALLS = 5_000
CODE = 310


class AccessFigure(NamedTuple):
    """One line of the table."""

    name: str
    value: str
    goal: str


# -- sends -------------------------------------------------------------------------------------------------------------


class FrameSender:
    """Sends a ring of frames on one connection, and counts the responses."""

    def __init__(self, server: ServerProcess, tls: bool, topic: str) -> None:
        self._server = server
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._socket = context.wrap_socket(self._socket)
        self._burst = b"".join(sends(JSON, topic, IN_FLIGHT))

    def rates(self, count: int) -> tuple[float, float]:
        """Send so many; return sends per second, and the server's CPU microseconds per send."""
        began, cpu_before = time.perf_counter(), sum(map(cpu_ns, self._server.pids))
        for _ in range(count // IN_FLIGHT):
            self._socket.sendall(self._burst)
            self._read(IN_FLIGHT)
        took_s = time.perf_counter() - began
        cpu = sum(map(cpu_ns, self._server.pids)) - cpu_before
        done = count // IN_FLIGHT * IN_FLIGHT
        return done / took_s, cpu / 1_000 / done

    def _read(self, answers: int) -> None:
        data = b""
        while answers:
            part = self._socket.recv(256 * 1024)
            assert part, "the broker has closed the connection"
            data += part
            while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
                assert b'"code":0' in data[: 4 + size], data[: 4 + size]
                data = data[4 + size :]
                answers -= 1

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def send_figures(count: int, rounds: int) -> list[AccessFigure]:
    """Return the rates of sends, with TLS and without."""
    best = {False: (0.0, 0.0), True: (0.0, 0.0)}
    with broker() as server:
        pin(0, LOAD_CORE)
        senders = {tls: FrameSender(server, tls, "orders") for tls in best}
        for sender in senders.values():
            sender.rates(IN_FLIGHT * 20)
        for _ in range(rounds):
            for tls, sender in senders.items():
                best[tls] = max(best[tls], sender.rates(count))
        for sender in senders.values():
            sender.close()
    (plain, plain_us), (covered, covered_us) = best[False], best[True]
    return [
        AccessFigure("plain sends of 1 KiB, per s (CPU of the broker)", f"{plain:,.0f} ({plain_us:.1f} us)", ""),
        AccessFigure("sends with TLS, per s (CPU of the broker)", f"{covered:,.0f} ({covered_us:.1f} us)", ""),
        AccessFigure("TLS / plain, by rate", f"{covered / plain:.2f}", ">= 0.5"),
        AccessFigure("TLS / plain, by CPU of the broker", f"{plain_us / covered_us:.2f}", ""),
    ]


# -- parts -------------------------------------------------------------------------------------------------------------


def cpu_us(act: Callable[[], object], calls: int, rounds: int) -> float:
    """Return the CPU microseconds of a call, the better of all rounds."""
    found = []
    for _ in range(rounds):
        began = time.process_time_ns()
        for _ in range(calls):
            act()
        found.append((time.process_time_ns() - began) / 1_000 / calls)
    return min(found)


def handshake_ms(rounds: int) -> float:
    """Return the server's CPU milliseconds of a whole handshake of TLS 1.3."""
    context, client_context = server_context(TlsSettings()), ssl.create_default_context()
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    spent = []
    for _ in range(rounds * 20):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context.wrap_bio(incoming, outgoing)
        server, used, is_open = None, 0, False
        while not is_open or server is None or not server.is_open:
            try:
                client.do_handshake()
                is_open = True
            except ssl.SSLWantReadError:
                pass
            data = outgoing.read()
            began = time.process_time_ns()
            server = server or TlsSession(context)
            server.receive(data)
            reply = server.to_send()
            used += time.process_time_ns() - began
            incoming.write(reply)
        spent.append(used / 1e6)
    return sorted(spent)[len(spent) // 2]


def signature_us(rounds: int) -> tuple[float, float]:
    """Return the CPU microseconds to check a send of 1 KiB, and those of its HMAC alone."""
    body = b"x" * 1024
    names = dict(zip("abcdefghijklmn", ("shop", "orders", "TBW102", "4", "1", "0", "1", "0", "", "0", "false", "0"), strict=False))  # fmt: skip  # noqa: E501
    fields = {**names, ACCESS_KEY: "shop"}
    fields[SIGNATURE] = sign("s3cret", signed_content(fields, body))
    encoded = json.dumps(fields).encode()
    book = AccessBook()
    book.put_user(User("shop", "s3cret", NORMAL))
    judge = AccessJudge(book, "DefaultCluster", None)

    def expected(found: dict[str, str], secret: str) -> str:
        return sign(secret, signed_content(found, body))

    def check() -> None:
        found = texts_of(encoded)
        by = SignedBy(found[ACCESS_KEY], found[SIGNATURE], partial(expected, found))
        assert judge.judge(CODE, None, by, "10.0.0.1") is None

    content = signed_content(fields, body)
    bare = cpu_us(lambda: b64encode(hmac.new(b"s3cret", content, hashlib.sha1).digest()), CALLS, rounds)
    return cpu_us(check, CALLS, rounds), bare


def decision_us(rounds: int) -> tuple[float, float]:
    """Return the CPU microseconds of a decision among 10,000 entries of a user: of a new topic, and of a known one."""
    book = AccessBook()
    book.put_user(User("shop", "s3cret", NORMAL))
    entries = [
        PolicyEntry(Pattern(TOPIC, f"orders-{number}", is_prefix=number % 2 == 0), ("Pub",), (), ALLOW)
        for number in range(POLICIES)
    ]
    acl = book.acls["shop"] = Acl()
    acl.policies[CUSTOM] = PolicyEntries(entries)
    topics = iter([f"orders-{number}-{number % 7}" for number in range(CALLS * rounds + 1)])
    actions = frozenset(("Pub",))

    def new() -> None:
        need = Need(Resource(TOPIC, next(topics)), actions)
        book.decide("shop", need.resource, need.actions, "10.0.0.1")

    new()
    known = partial(book.decide, "shop", Resource(TOPIC, "orders-1"), actions, "10.0.0.1")
    return cpu_us(new, CALLS, rounds), cpu_us(known, CALLS, rounds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sends", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    signature, bare = signature_us(arguments.rounds)
    new, known = decision_us(arguments.rounds)
    figures = [
        *send_figures(arguments.sends, arguments.rounds),
        AccessFigure("a handshake of TLS 1.3, CPU of the server", f"{handshake_ms(arguments.rounds):.2f} ms", "< 5 ms"),
        AccessFigure("a signature of a send of 1 KiB", f"{signature:.1f} us", "< 15 us"),
        AccessFigure("signature / its HMAC alone", f"{signature / bare:.1f}", ""),
        AccessFigure(f"a decision of {POLICIES:,} policies, new topic", f"{new:.1f} us", "< 20 us"),
        AccessFigure("the same, topic checked before", f"{known:.1f} us", "< 20 us"),
    ]
    table = Table("", "this machine", "goal")
    for figure in figures:
        table.add_row(*figure)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
