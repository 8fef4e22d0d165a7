"""The cookie of a login: it shows that a browser has sent the token, and until when that counts. Pure.

The cookie has no secret of its own: it is a time and its signature, whose key is the token. So the server keeps no
list, and a new token ends all logins.
"""

import hashlib
import hmac

PREFIX = "staticfire_dashboard_"
LASTS_MS = 12 * 3_600_000


def cookie_name(host: str) -> str:
    """Return the name of the cookie for a `Host` header.

    It has the port, because browsers send a cookie to all ports of a host: two clusters would end each other's logins.
    """
    port = host.rpartition(":")[2]
    return PREFIX + (port if port.isascii() and port.isdecimal() else "")


def cookie_until(token: str, until_ms: int) -> str:
    """Return the value of the cookie."""
    signature = hmac.new(token.encode(), f"dashboard {until_ms}".encode(), hashlib.sha256).hexdigest()
    return f"{until_ms}.{signature}"


def is_logged_in(token: str, cookie: str | None, now_ms: int) -> bool:
    """Return whether the cookie is one of ours, and still counts."""
    until, _, _ = (cookie or "").partition(".")
    if not (until.isascii() and until.isdecimal() and len(until) < 20 and int(until) > now_ms):
        return False
    return hmac.compare_digest(cookie_until(token, int(until)).encode(), (cookie or "").encode("utf-8", "replace"))
