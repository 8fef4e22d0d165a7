"""The machine of a client: its connections speak TLS, if that is wanted. A broker is a client of its nameservers."""

from typing import TYPE_CHECKING, Literal

from staticfire.runtime.machine import Machine
from staticfire.runtime.tls.settings import TlsClient, TlsSettings, environment_tls

if TYPE_CHECKING:
    from staticfire.runtime.tls.network import TlsNetwork


def client_machine(tls: TlsClient | Literal[False] | None = None) -> Machine:
    """Return the real machine. `tls`: False for plain text; None: as the environment says, STATICFIRE_TLS_ENABLE.

    Raises: UsageError.
    """
    from staticfire.runtime.live import live_machine  # Imported here, because a simulation has its own.

    return with_client(live_machine(), environment_tls() if tls is None else tls or None)


def connecting(machine: Machine, settings: TlsSettings) -> Machine:
    """Return the machine for the connections that a server opens: with TLS, if its settings say so.

    Raises: UsageError (a file of its TLS can't be used).
    """
    tls = settings.as_client()
    if tls is None:
        return machine
    network = _tls_network(machine, tls)
    network.check()
    return machine._replace(network=network)


def check_client_files(settings: TlsSettings) -> None:
    """Load the files for the connections that a server will open, because a wrong one must prevent its start.

    Raises: UsageError (a file can't be used).
    """
    tls = settings.as_client()
    if tls is not None and tls.reads_files:
        from staticfire.runtime.tls.contexts import client_context  # Imported here, as below.

        client_context(tls)


def with_client(machine: Machine, tls: TlsClient | None) -> Machine:
    """Return the machine, with connections through TLS if `tls` isn't None."""
    return machine if tls is None else machine._replace(network=_tls_network(machine, tls))


def _tls_network(machine: Machine, tls: TlsClient) -> "TlsNetwork":
    from staticfire.runtime.tls.network import TlsNetwork  # Imported here, because plain text doesn't need OpenSSL.

    network = machine.network
    return TlsNetwork(network.plain if isinstance(network, TlsNetwork) else network, tls)
