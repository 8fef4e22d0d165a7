"""What the control endpoint knows of a cluster, whoever runs it."""

from typing import Any, Protocol


class ClusterView(Protocol):
    """A running cluster, from outside."""

    @property
    def namesrv(self) -> str:
        """The nameserver's address."""

    @property
    def addresses(self) -> dict[str, str]:
        """Where each broker is, by its name."""

    def describe(self) -> dict[str, Any]:
        """Return what there is, ready for JSON: processes, ports, folders."""
