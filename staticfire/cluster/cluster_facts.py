"""Properties of a running cluster that need no request: the same for `Cluster` and `AsyncCluster`."""

from typing import Generic, TypeVar

from staticfire.cluster.cluster_calls import Face
from staticfire.cluster.running_cluster import RunningCluster
from staticfire.protocol.errors import ClientError


class ClusterFacts(Face[RunningCluster]):
    """Addresses, folder and process ids of a cluster."""

    @property
    def namesrv(self) -> str:
        """The nameserver's address, as in NAMESRV_ADDR. With several nameservers: all, separated by semicolons."""
        return self._thread_and_object()[1].cluster.namesrv

    @property
    def nameserver_addresses(self) -> dict[str, str]:
        """The address of each nameserver by its name: nameserver, nameserver-2, ..."""
        return self._thread_and_object()[1].cluster.plan.nameserver_addresses

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each broker by its name."""
        return self._thread_and_object()[1].cluster.addresses

    @property
    def replica_addresses(self) -> dict[str, str]:
        """The address of each slave by its name: broker-a-1, broker-a-2, broker-b-1 ..."""
        return self._thread_and_object()[1].cluster.plan.replica_addresses

    @property
    def grpc_endpoint(self) -> str:
        """The address for RocketMQ 5 clients. Raises: ClientError (the cluster has no gRPC endpoint)."""
        endpoint = self._thread_and_object()[1].cluster.plan.grpc_endpoint
        if endpoint is None:
            raise ClientError("this cluster has no gRPC endpoint; use Cluster(grpc=True)")
        return endpoint

    @property
    def directory(self) -> str:
        """The folder with the data."""
        return self._thread_and_object()[1].cluster.folder.path

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of everything that runs, by name. In a thread: the id of this process."""
        return self._thread_and_object()[1].cluster.pids


C = TypeVar("C", bound=ClusterFacts)


class ProcessFacts(Generic[C]):
    """The nameserver or one broker of a cluster."""

    def __init__(self, cluster: C, name: str) -> None:
        self._cluster = cluster
        self.name = name

    @property
    def address(self) -> str:
        """The address where it listens."""
        cluster = self._cluster
        return {**cluster.nameserver_addresses, **cluster.addresses, **cluster.replica_addresses}[self.name]

    @property
    def pid(self) -> int | None:
        """The process id, or None while it doesn't run."""
        return self._cluster.pids.get(self.name)
