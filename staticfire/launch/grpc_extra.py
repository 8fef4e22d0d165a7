"""Check whether this installation can serve RocketMQ 5 clients, that is, whether `staticfire[grpc]` is installed.

The check runs before the processes of a cluster start, so it doesn't import the packages.
"""

NEEDED = ("google.protobuf", "hpack", "cryptography")
HOW_TO_GET_IT = "pip install 'staticfire[grpc]'"


def grpc_is_installed() -> bool:
    """Return whether all packages that the endpoint needs are installed."""
    from importlib.util import find_spec

    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # The package around one of them is missing.
        return False
