"""What the control endpoint needs of a cluster, however the cluster runs."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from staticfire.launch.process_faults import ProcessFaults
    from staticfire.runtime.credentials import Credentials
    from staticfire.runtime.tls.settings import TlsClient, TlsSettings


class ClusterView(Protocol):
    """A running cluster as the control endpoint sees it."""

    @property
    def namesrv(self) -> str:
        """The nameserver's address. With several: all, separated by semicolons."""

    @property
    def client_tls(self) -> "TlsClient | None":
        """How clients must speak TLS; None: they may speak plain text."""

    @property
    def tls(self) -> "TlsSettings":
        """The settings of TLS at its ports, which the control endpoint uses, too."""

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each broker by its name."""

    @property
    def credentials(self) -> "Credentials | None":
        """The access key of the cluster's own programs."""

    @property
    def replica_addresses(self) -> dict[str, str]:
        """The address of each slave by the name of its process."""

    def describe(self) -> dict[str, Any]:
        """Return processes, ports and folders, ready for JSON."""

    @property
    def process_faults(self) -> "ProcessFaults | None":
        """The fault rules about its processes, or None if it has no processes of its own."""
