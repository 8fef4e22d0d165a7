"""Which requests the control endpoint accepts: from which pages, under which host names, with which token. Pure.

By default it listens on this machine's loopback, where other processes of this machine could do the same without it.
On any other address, anyone who reaches the port could reset the cluster. So there it needs a token and doesn't start
without one.
"""

import hmac
import ipaddress

from staticfire.control.hosts import LOOPBACK_NAMES, KnownHosts, is_cross_site
from staticfire.control.login_cookie import cookie_until, is_logged_in
from staticfire.protocol.errors import UsageError

TOKEN_CHARS_MIN = 8
BEARER = "bearer "
OPEN_PATHS = frozenset({"/health"})
"""Paths that need no token: health checks of containers and service meshes, which read only the status."""


def check_access(host: str, token: str, how: str = "--control-token, or STATICFIRE_CONTROL_TOKEN") -> None:
    """Refuse an endpoint that anyone could use. `how`: the ways to give a token. Raises: UsageError."""
    if token and len(token) < TOKEN_CHARS_MIN:
        raise UsageError(
            f"the token of the control endpoint is too short: {TOKEN_CHARS_MIN} characters or more ({how})"
        )
    check_token(token, how)
    if not token and not is_loopback(host):
        raise UsageError(
            f"the control endpoint at {host} could be used by anyone who reaches it, also to reset the cluster: "
            f"set a token ({how}), or let it listen on 127.0.0.1"
        )


def check_token(token: str, how: str = "STATICFIRE_CONTROL_TOKEN") -> None:
    """Refuse a token that no header can contain; `how`: the ways to give it. Raises: UsageError, without the token."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"the token of the control endpoint is sent in a header: use letters, digits and signs only ({how})"
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Decides whether a request is accepted."""

    def __init__(self, hosts: KnownHosts, token: str = "") -> None:
        """`token`: empty means that none is needed."""
        self._hosts = hosts
        self._token = token.encode()

    @property
    def needs_token(self) -> bool:
        """Whether requests need a token."""
        return bool(self._token)

    def why_foreign(self, hosts: list[str], origin: str | None, own_address: str) -> str:
        """Return why a request is refused, or "". Without this check any page in a browser could reset a cluster."""
        if len(hosts) != 1:
            return "one Host header is needed"
        # A page that reaches this endpoint by DNS rebinding has no token. So with a token any host name is accepted.
        if not self._token and not self._hosts.knows(hosts[0], own_address):
            return (
                f"the host name {hosts[0]!r} isn't known here; if it is yours, name it: --control-hosts of up and run, "
                "STATICFIRE_CONTROL_HOSTS, or Cluster(control_hosts=[...])"
            )
        if is_cross_site(origin, hosts[0]):
            return "the request comes from a page of another site"
        return ""

    def why_locked(self, path: str, authorization: str | None) -> str:
        """Return why a request without the token is refused, or "" if it is accepted."""
        if not self._token or path in OPEN_PATHS:
            return ""
        given = authorization or ""
        if not given.lower().startswith(BEARER):
            return "a token is needed: Authorization: Bearer TOKEN (our own commands take STATICFIRE_CONTROL_TOKEN)"
        if not hmac.compare_digest(given[len(BEARER) :].strip().encode("utf-8", "replace"), self._token):
            return "the token is wrong"
        return ""

    def why_page_locked(self, authorization: str | None, cookie: str | None, now_ms: int) -> str:
        """Return why a page is refused, or "": pages also accept the cookie of a login. `now_ms`: the wall clock."""
        if not self._token or is_logged_in(self._token.decode(), cookie, now_ms):
            return ""
        return self.why_locked("", authorization)

    def cookie_for(self, token: str, until_ms: int) -> str | None:
        """Return the cookie for a login with this token; None if it is the wrong one, or none is needed."""
        if not self._token or self.why_locked("", f"{BEARER}{token}"):
            return None
        return cookie_until(self._token.decode(), until_ms)
