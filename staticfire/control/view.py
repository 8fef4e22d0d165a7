"""What the control endpoint needs of a cluster, however the cluster runs."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from staticfire.launch.process_faults import ProcessFaults


class ClusterView(Protocol):
    """A running cluster as the control endpoint sees it."""

    @property
    def namesrv(self) -> str:
        """The nameserver's address. With several: all, separated by semicolons."""

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each broker by its name."""

    @property
    def replica_addresses(self) -> dict[str, str]:
        """The address of each slave by the name of its process."""

    def describe(self) -> dict[str, Any]:
        """Return processes, ports and folders, ready for JSON."""

    @property
    def process_faults(self) -> "ProcessFaults | None":
        """The fault rules about its processes, or None if it has no processes of its own."""
