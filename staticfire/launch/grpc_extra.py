"""Whether this installation can serve RocketMQ 5's clients: the extra `staticfire[grpc]` is there, or isn't.

Asked before a cluster's processes start, so nothing is imported for it.
"""

NEEDED = ("google.protobuf", "hpack", "cryptography")
HOW_TO_GET_IT = "pip install 'staticfire[grpc]'"


def grpc_is_installed() -> bool:
    """Tell whether all that the endpoint needs can be imported."""
    from importlib.util import find_spec

    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # The package around one of them is missing.
        return False
