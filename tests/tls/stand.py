"""A nameserver with TLS on the real network, and certificates that trustme made."""

import datetime
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trustme

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.command import Request
from staticfire.protocol.requests.routes import GetKVConfig, PutKVConfig
from staticfire.runtime.client_machine import with_client
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.tls.settings import TlsClient

HOST = "127.0.0.1"
PUT, GET = PutKVConfig("a", "b", "c"), GetKVConfig("a", "b")


class Files(NamedTuple):
    """The files of one certificate."""

    cert: str
    key: str


class Authority:
    """A CA of trustme's, with its file."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._made = trustme.CA()
        self.path = str(folder / f"{name}.pem")
        self._made.cert_pem.write_to_path(self.path)

    def issue(self, name: str, *hosts: str, days: int = 30, from_day: int = -1) -> Files:
        """Write a certificate that begins and ends so many days from now."""
        now = datetime.datetime.now(datetime.UTC)
        made = self._made.issue_cert(
            *(hosts or (HOST, "localhost")),
            not_before=now + datetime.timedelta(days=from_day),
            not_after=now + datetime.timedelta(days=days),
        )
        files = Files(str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key.pem"))
        made.private_key_pem.write_to_path(files.key)
        Path(files.cert).write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        return files


def serving(files: Files, **more: Any) -> dict[str, Any]:
    """Return the settings of a server with this certificate."""
    return {"tls_server_cert_path": files.cert, "tls_server_key_path": files.key, **more}


@asynccontextmanager
async def nameserver(**settings: Any) -> AsyncIterator[Nameserver]:
    machine = live_machine()
    try:
        async with Nameserver(machine, NameserverSettings(listen_host=HOST, listen_port=0, **settings)) as server:
            yield server
    finally:
        await machine.workers.close()


@asynccontextmanager
async def connected(tls: TlsClient | None) -> AsyncIterator[ConnectionPool]:
    machine = live_machine()
    pool = ConnectionPool(with_client(machine, tls))
    try:
        yield pool
    finally:
        await pool.close()
        await machine.workers.close()


async def ask(port: int, tls: TlsClient | None, request: Request = PUT, host: str = HOST) -> Any:
    """Ask on a connection of its own. Raises: NetworkError."""
    async with connected(tls) as pool:
        return await pool.ask(f"{host}:{port}", request)


def trusting(version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """Return a context of Python's ssl that takes any server."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version
        context.set_ciphers("DEFAULT@SECLEVEL=0")
    return context
