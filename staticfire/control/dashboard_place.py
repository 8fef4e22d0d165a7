"""Where the pages for people are, and whether they can be shown. Loads nothing of them. Pure."""

from importlib.util import find_spec

DASHBOARD = "/ui"
HOW_TO_GET_IT = "pip install 'staticfire[dashboard]'"


def dashboard_is_installed() -> bool:
    """Whether the package of the extra [dashboard] is installed."""
    return find_spec("jinja2") is not None


def wants_page(method: str, path: str, accept: str) -> bool:
    """Return whether a browser opens the address of the endpoint: programs don't accept HTML by name."""
    return method == "GET" and path == "/" and "text/html" in accept
