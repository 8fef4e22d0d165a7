"""A RocketMQ cluster on the test stand.

`from staticfire import Cluster` starts one; clients are in `staticfire.client`. Importing this loads nothing else.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    if name == "Cluster":
        from staticfire.cluster import Cluster

        return Cluster
    raise AttributeError(f"module 'staticfire' has no attribute {name!r}")
