"""Files of TLS for the connections that servers open are checked when they start."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.proxy.server import Proxy
from staticfire.proxy.settings import ProxySettings
from staticfire.runtime.live import live_machine
from tests.tls.stand import HOST, Authority, nameserver

pytestmark = pytest.mark.row("G6")


@asynccontextmanager
async def proxy(**settings: Any) -> AsyncIterator[None]:
    machine = live_machine()
    try:
        async with Proxy(machine, ProxySettings(listen_host=HOST, grpc_server_port=0, **settings)):
            yield
    finally:
        await machine.workers.close()


@pytest.mark.parametrize("server", [nameserver, proxy])
async def test_a_file_of_its_own_connections_that_cant_be_used_prevents_the_start(
    server: Callable[..., AbstractAsyncContextManager[object]], tmp_path: Path
) -> None:
    good = Authority(tmp_path).issue("a")
    (tmp_path / "no.pem").write_text("not a certificate")
    for settings, words in (
        ({"tls_client_trust_cert_path": str(tmp_path / "gone")}, r"gone \(tls.client.trustCertPath\) can't be read"),
        ({"tls_client_cert_path": good.cert}, "tls.client.keyPath is missing"),
        ({"tls_client_cert_path": str(tmp_path / "no.pem"), "tls_client_key_path": good.key}, "must be PEM files"),
    ):
        with pytest.raises(UsageError, match=words):
            async with server(tls_enable=True, **settings):
                pass
        async with server(tls_enable=False, **settings):
            pass  # It opens no connections through TLS.
