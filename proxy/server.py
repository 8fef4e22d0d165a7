"""The gRPC endpoint: a client of the cluster that serves gRPC clients. RocketMQ: ProxyStartup, in cluster mode.

async with Proxy(live_machine(), ProxySettings(grpc_server_port=0, namesrv_addr=...)) as proxy:
    ... RocketMQ 5's clients, endpoint 127.0.0.1:{proxy.port}
"""

import socket
from contextlib import AsyncExitStack

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.settings import ClientSettings
from staticfire.protocol.errors import UsageError, os_words
from staticfire.proxy.services.service import MessagingService
from staticfire.proxy.settings import ProxySettings
from staticfire.proxy.transport.endpoint import LOOK_MS, GrpcEndpoint
from staticfire.proxy.transport.limits import TransportLimits
from staticfire.runtime.client_machine import check_client_files
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Service

log = logger("proxy")


def _client_settings(settings: ProxySettings) -> ClientSettings:
    """Return the settings of the client that the endpoint is. Raises: UsageError."""
    text, tls = settings.inner_client_authentication_credentials, settings.as_client()
    if not text:
        return ClientSettings.signing(None, tls)
    from staticfire.runtime.credentials import Credentials  # imported here: most endpoints have no key

    return ClientSettings.signing(Credentials.parse_setting(text), tls)


class Proxy(Service):
    """One endpoint: it serves from entering the context until leaving it."""

    def __init__(
        self, machine: Machine, settings: ProxySettings | None = None, sock: socket.socket | None = None
    ) -> None:
        """`sock`: a listening socket that is used instead of the host and port of the settings."""
        super().__init__()
        self._settings = settings or ProxySettings()
        self._sock = sock
        self._client = ClusterClient(self._settings.namesrv_addr, _client_settings(self._settings), machine)
        self._messaging = MessagingService(self._client, self._settings.min_invisible_time_mills_for_recv)
        limits = TransportLimits(
            request_bytes_max=self._settings.grpc_max_inbound_message_size,
            idle_ms_max=self._settings.grpc_client_idle_time_mills,
            unfinished_bytes_max=self._settings.unfinished_request_bytes_max,
            connections_max=self._settings.connections_max,
        )
        self._endpoint = GrpcEndpoint(machine, self._messaging.methods(), limits, self._settings)
        self._parts = AsyncExitStack()

    @property
    def port(self) -> int:
        """The port in use, also if the configured port is 0."""
        return self._endpoint.port

    async def _start(self) -> None:
        check_client_files(self._settings)
        await self._parts.enter_async_context(self._client)
        await self._parts.enter_async_context(self._messaging)
        await self._listen()
        self.spawn(self._look_loop(), "proxy_connections")
        log.info("proxy_started", port=self.port)

    async def _stop(self) -> None:
        await self._endpoint.close()
        await self._parts.aclose()

    async def _listen(self) -> None:
        try:
            await self._endpoint.listen(self._settings.listen_host, self._settings.grpc_server_port, self._sock)
        except OSError as error:
            words = (
                f"the gRPC endpoint can't listen: {os_words(error)}; choose another grpcServerPort, or 0 for any free "
                "port"
            )
            raise UsageError(words) from None

    async def _look_loop(self) -> None:
        while True:
            await self.pause_for(LOOK_MS)
            self._endpoint.look()
