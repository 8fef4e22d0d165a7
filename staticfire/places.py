"""What a cluster takes of the machine before it runs: a folder and listening ports."""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.plan import HOST, NAMESERVER, ClusterPlan
from staticfire.protocol.errors import UsageError
from staticfire.runtime.addresses import format_address
from staticfire.runtime.ports import listen_on, port_of

PORTS_WAY_OUT = "stop it, or choose another port with --namesrv-port, --broker-port or --control-port (0: any free one)"


class Folder:
    """Where a cluster keeps its data: the user's folder, or a temporary one that is removed in the end."""

    def __init__(self, path: str | None) -> None:
        """Make the folder. Raises: UsageError."""
        self.temporary = path is None
        if path is None:
            import tempfile  # here, since its own imports cost as much as the rest of this module

            self.path = tempfile.mkdtemp(prefix="staticfire-")
            return
        self.path = os.path.abspath(path)
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path} can't be made: {error.strerror}; choose another with --dir") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise UsageError(f"{self.path} is not writable; choose another with --dir")

    def remove(self) -> None:
        """Remove it if it is temporary."""
        if self.temporary:
            import shutil

            shutil.rmtree(self.path, ignore_errors=True)

    def __str__(self) -> str:
        return f"{self.path} (temporary, removed at the end)" if self.temporary else self.path


class Ports:
    """Bound listening sockets, by who will serve them."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}

    def bind(self, name: str, port: int) -> int:
        """Listen on a port for somebody; return the port. Raises: UsageError."""
        self._sockets[name] = sock = listen_on(HOST, port, PORTS_WAY_OUT)
        return port_of(sock)

    def bind_all(self, names: Sequence[str], ports: Sequence[int]) -> list[int]:
        """The same for several. Raises: UsageError."""
        return [self.bind(name, port) for name, port in zip(names, ports, strict=True)]

    def hand_over(self, name: str) -> socket.socket:
        """Give a socket away."""
        return self._sockets.pop(name)

    def close(self) -> None:
        """Close what nobody took."""
        while self._sockets:
            self._sockets.popitem()[1].close()


def url_of(port: int) -> str:
    """Return the address of the control endpoint."""
    return f"http://{format_address(HOST, port)}"


def describe_cluster(plan: ClusterPlan, folder: Folder, pids: Mapping[str, int | None]) -> dict[str, Any]:
    """Return what there is, ready for JSON: addresses, process ids, folders."""

    def process(name: str, address: str) -> dict[str, Any]:
        return {"name": name, "address": address, "pid": pids.get(name), "directory": f"{folder.path}/{name}"}

    return {
        "namesrv": plan.namesrv,
        "cluster": plan.brokers[0].broker_cluster_name,
        "directory": folder.path,
        "temporary": folder.temporary,
        "processes": [process(name, address) for name, address in {NAMESERVER: plan.namesrv, **plan.addresses}.items()],
    }
