"""What can be set on a gRPC endpoint. Names and defaults are RocketMQ's where RocketMQ has them. RocketMQ: ProxyConfig.

On the command line and in a configuration file the same names are in camel case (`grpcServerPort=8081`).
"""

from dataclasses import field

from staticfire.runtime.ranges import INT32_MAX, INT64_MAX, PERIOD, PORT, settings_class, within
from staticfire.runtime.tls.settings import TlsSettings

# How long a received message may be invisible. RocketMQ: maxInvisibleTimeMills, 12 hours.
INVISIBLE_MS_MAX = 43_200_000
# The size of a message. A lower limit for requests would be useless, because a request must hold one message.
BODY_BYTES_MAX = 4 * 1024 * 1024


@settings_class
class ProxySettings(TlsSettings):
    """One endpoint. Read once, passed down as a value."""

    namesrv_addr: str = "127.0.0.1:9876"
    """Addresses of the nameservers, separated by semicolons."""

    # Where it listens
    listen_host: str = "0.0.0.0"
    """0.0.0.0: every address of this machine, including IPv6 if there is any."""
    grpc_server_port: int = field(default=8081, metadata=PORT)
    """The port for TLS and plain text; the first byte of a connection decides. 0: any free port."""

    # Access
    inner_client_authentication_credentials: str = field(default="", metadata={"secret": True})
    """The endpoint's own access key for brokers that check signatures, like {"accessKey":"...","secretKey":"..."}.
    Brokers need the same setting."""

    # What clients may ask for
    min_invisible_time_mills_for_recv: int = field(default=10_000, metadata=within(0, INVISIBLE_MS_MAX))
    """The shortest invisible time that a receive may have, in milliseconds. Lower it for tests that wait for a
    redelivery."""

    # What clients may take
    grpc_max_inbound_message_size: int = field(default=130 * 1024 * 1024, metadata=within(BODY_BYTES_MAX, INT32_MAX))
    """Maximum size of a request, in bytes."""
    grpc_client_idle_time_mills: int = field(default=120_000, metadata=PERIOD)
    """A connection without calls is closed after this time in ms."""
    unfinished_request_bytes_max: int = field(default=256 * 1024 * 1024, metadata=within(BODY_BYTES_MAX, INT64_MAX))
    """Bytes of incomplete or waiting requests, of all connections together. Above it, requests are rejected."""
    connections_max: int = field(default=10_000, metadata=within(1, INT32_MAX))
    """Maximum number of connections; further ones are closed at once."""
