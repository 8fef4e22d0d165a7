"""The addresses of the documentation's pages, for messages to users: an installed package has no folder docs/. Pure."""

SITE = "https://staticfire.github.io/staticfire/"


def page(name: str) -> str:
    """Return the address of docs/NAME.md."""
    return f"{SITE}{name}/"
