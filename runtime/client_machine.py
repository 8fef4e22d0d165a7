"""The machine of a process that is a client: as the real one, but connections speak TLS if that is wanted."""

from staticfire.runtime.live import live_machine
from staticfire.runtime.machine import Machine
from staticfire.runtime.tls.settings import TlsClient, environment_tls, with_client


def client_machine(tls: TlsClient | None = None) -> Machine:
    """Return the machine. `tls`: None means as the environment says (STATICFIRE_TLS_ENABLE). Raises: UsageError."""
    return with_client(live_machine(), tls or environment_tls())
