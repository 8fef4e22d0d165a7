"""The machine of a client: its connections speak TLS, if that is wanted. A broker is a client of its nameservers."""

from typing import Literal

from staticfire.runtime.machine import Machine
from staticfire.runtime.tls.settings import TlsClient, TlsSettings, environment_tls


def client_machine(tls: TlsClient | Literal[False] | None = None) -> Machine:
    """Return the real machine. `tls`: False for plain text; None: as the environment says, STATICFIRE_TLS_ENABLE.

    Raises: UsageError.
    """
    from staticfire.runtime.live import live_machine  # Imported here, because a simulation has its own.

    return with_client(live_machine(), environment_tls() if tls is None else tls or None)


def connecting(machine: Machine, settings: TlsSettings) -> Machine:
    """Return the machine for the connections that a server opens: with TLS, if its settings say so."""
    return with_client(machine, settings.as_client())


def with_client(machine: Machine, tls: TlsClient | None) -> Machine:
    """Return the machine, with connections through TLS if `tls` isn't None."""
    if tls is None:
        return machine
    from staticfire.runtime.tls.network import TlsNetwork  # Imported here, because plain text doesn't need OpenSSL.

    network = machine.network
    return machine._replace(network=TlsNetwork(network.plain if isinstance(network, TlsNetwork) else network, tls))
