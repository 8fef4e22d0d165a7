"""`Cluster.users`: users, whose access keys clients sign with, and what they may do. docs/access.md describes them.

    with Cluster(users={"admin": "secret", "shop": "s3cret"}) as cluster:
        cluster.users.allow("shop", "Topic:orders", "Pub,Sub")

With `async with Cluster()` calls are awaited.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from staticfire.cluster.cluster_calls import Face, awaiting, waiting
from staticfire.cluster.running_cluster import RunningCluster
from staticfire.launch.places import WantedUser
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import user_fault
from staticfire.runtime.loop_thread import LoopThread

if TYPE_CHECKING:
    from staticfire.client.admin.access import UserLine


class RunningUsers:
    """The users of a cluster. Runs inside the cluster's event loop."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster

    async def all(self) -> "list[UserLine]":
        """Return all users with their policies, without their secrets. Raises: BrokerAnswer, NetworkError."""
        async with self._cluster.access() as access:
            return await access.users()

    async def add(self, name: str, secret: str, is_super: bool = False) -> None:
        """Add a user. From the first user on, brokers check signatures. Raises: UsageError, BrokerAnswer."""
        async with self._cluster.access() as access:
            await access.add_user(name, secret, is_super)

    async def change(
        self, name: str, secret: str | None = None, is_super: bool | None = None, is_enabled: bool | None = None
    ) -> None:
        """Change a user; None: as before. It counts from the next request on. Raises: UsageError, BrokerAnswer."""
        async with self._cluster.access() as access:
            await access.change_user(name, secret, is_super, is_enabled)

    async def remove(self, name: str) -> None:
        """Remove a user and its policies. Raises: UsageError, BrokerAnswer (the last super user)."""
        async with self._cluster.access() as access:
            await access.remove_user(name)

    async def allow(self, name: str, resource: str, actions: str, *sources: str) -> None:
        """Allow a user something more, like `"Topic:orders", "Pub,Sub"`, from these addresses or from all.

        From the first policy on, brokers check what users may do. Raises: UsageError, BrokerAnswer.
        """
        await self._set(name, "Allow", resource, actions, sources)

    async def deny(self, name: str, resource: str, actions: str, *sources: str) -> None:
        """Deny a user something that another policy allows. Raises: UsageError, BrokerAnswer."""
        await self._set(name, "Deny", resource, actions, sources)

    async def remove_policy(self, name: str, resource: str) -> None:
        """Remove the entries about a resource from the policies of a user. Raises: UsageError, BrokerAnswer."""
        from staticfire.client.admin.access import resource_of

        async with self._cluster.access() as access:
            await access.remove_policy(name, resource_of(resource))

    async def _set(self, name: str, decision: str, resource: str, actions: str, sources: tuple[str, ...]) -> None:
        from staticfire.client.admin.access import PolicyLine, actions_of, resource_of

        wanted = PolicyLine(name, decision, resource_of(resource), actions_of(actions), list(sources))
        async with self._cluster.access() as access:
            await access.add_policy(wanted)


class ClusterUsersFace(Face[RunningUsers]):
    """What the blocking and the awaited class share."""

    def __init__(self, cluster: Face[RunningCluster]) -> None:
        self._cluster = cluster

    def _thread_and_object(self) -> tuple[LoopThread, RunningUsers]:
        thread, running = self._cluster._thread_and_object()
        return thread, RunningUsers(running)


class BlockingUsers(ClusterUsersFace):
    """The users of one cluster. All methods block."""

    all = waiting(RunningUsers.all)
    add = waiting(RunningUsers.add)
    change = waiting(RunningUsers.change)
    remove = waiting(RunningUsers.remove)
    allow = waiting(RunningUsers.allow)
    deny = waiting(RunningUsers.deny)
    remove_policy = waiting(RunningUsers.remove_policy)


class AwaitedUsers(ClusterUsersFace):
    """The same, awaited."""

    all = awaiting(RunningUsers.all)
    add = awaiting(RunningUsers.add)
    change = awaiting(RunningUsers.change)
    remove = awaiting(RunningUsers.remove)
    allow = awaiting(RunningUsers.allow)
    deny = awaiting(RunningUsers.deny)
    remove_policy = awaiting(RunningUsers.remove_policy)


def wanted_users(users: object) -> tuple[WantedUser, ...]:
    """Return the users of a parameter, of whatever type. Raises: UsageError, without a secret."""
    if not isinstance(users, Mapping):
        raise UsageError('users must be a dictionary of names and secrets, like {"admin": "secret"}')
    for name, secret in users.items():
        if not isinstance(name, str) or not isinstance(secret, str) or not name.strip() or not secret.strip():
            raise UsageError(f"users: the name {name!r} and its secret must be texts that aren't empty")
        if fault := user_fault(name):
            raise UsageError(fault)
    return tuple(WantedUser(name, secret) for name, secret in users.items())
