"""What the control endpoint knows of a cluster, whoever runs it."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from staticfire.launch.process_faults import ProcessFaults


class ClusterView(Protocol):
    """A running cluster, from outside."""

    @property
    def namesrv(self) -> str:
        """The nameserver's address; of several all, separated by semicolons."""

    @property
    def addresses(self) -> dict[str, str]:
        """Where each broker is, by its name."""

    def describe(self) -> dict[str, Any]:
        """Return what there is, ready for JSON: processes, ports, folders."""

    @property
    def process_faults(self) -> "ProcessFaults | None":
        """What goes wrong on purpose with its processes; None where they aren't its own."""
