"""Who may ask the control endpoint: from which pages, under which host names, with which token. Pure.

It listens on this machine's loopback unless told otherwise, and does there what any process of this machine may do
anyhow. Everywhere else whoever reaches the port could reset the cluster, so there it takes a token, and without one it
doesn't start.
"""

import hmac
import ipaddress

from staticfire.control.hosts import LOOPBACK_NAMES, KnownHosts, is_cross_site
from staticfire.protocol.errors import UsageError

TOKEN_CHARS_MIN = 8
BEARER = "bearer "
OPEN_PATHS = frozenset({"/health"})
"""What needs no token: health checks of containers and service meshes, which say nothing but yes or no."""


def check_access(host: str, token: str, said: str = "--control-token, or STATICFIRE_CONTROL_TOKEN") -> None:
    """Refuse an endpoint that everybody could use. `said`: how a token is given. Raises: UsageError."""
    if token and len(token) < TOKEN_CHARS_MIN:
        raise UsageError(
            f"the token of the control endpoint is too short: {TOKEN_CHARS_MIN} characters or more ({said})"
        )
    if token and (not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError(
            f"the token of the control endpoint goes into a header: letters, digits and signs only ({said})"
        )
    if not token and not is_loopback(host):
        raise UsageError(
            f"the control endpoint at {host} could be used by everybody who reaches it, to reset the cluster, too: "
            f"give it a token ({said}), or leave it on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Decides about each request."""

    def __init__(self, hosts: KnownHosts, token: str = "") -> None:
        """`token`: empty: none is needed."""
        self._hosts = hosts
        self._token = token.encode()

    @property
    def needs_token(self) -> bool:
        """Whether a token is needed."""
        return bool(self._token)

    def why_foreign(self, hosts: list[str], origin: str | None, own_address: str) -> str:
        """Say why a request isn't answered, empty when it is: any page in a browser could reset a cluster otherwise."""
        if len(hosts) != 1:
            return "one Host header is needed"
        # A page that was pointed here by DNS rebinding has no token, so that who has one may use any name.
        if not self._token and not self._hosts.knows(hosts[0], own_address):
            return (
                f"the host name {hosts[0]!r} isn't known here; if it is yours, name it: --control-hosts of up and run, "
                "STATICFIRE_CONTROL_HOSTS, or Cluster(control_hosts=[...])"
            )
        if is_cross_site(origin, hosts[0]):
            return "this comes from a page of another site"
        return ""

    def why_locked(self, path: str, authorization: str | None) -> str:
        """Say why a request without the token isn't answered, empty when it has it."""
        if not self._token or path in OPEN_PATHS:
            return ""
        given = authorization or ""
        if not given.lower().startswith(BEARER):
            return "a token is needed: Authorization: Bearer TOKEN (our own commands take STATICFIRE_CONTROL_TOKEN)"
        if not hmac.compare_digest(given[len(BEARER) :].strip().encode("utf-8", "replace"), self._token):
            return "the token is wrong"
        return ""
