"""A cluster's fault rules for the command line: through its control endpoint, or directly from its servers.

Only the endpoint knows which brokers the cluster has: nameservers forget those that have ended.
"""

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from staticfire.cluster.fault_rules import ClusterFaults
from staticfire.control.access import check_token
from staticfire.faults.actions import ACTIONS
from staticfire.faults.parsing import parse_fault
from staticfire.launch.plan import CONTROL_PORT
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.runtime.addresses import comparable
from staticfire.runtime.client_machine import client_machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.tls.settings import TlsClient, environment_tls

if TYPE_CHECKING:
    from ssl import SSLContext

T = TypeVar("T")

CONTROL_URL = f"http://127.0.0.1:{CONTROL_PORT}"
TIMEOUT_S = 30
TOKEN_VARIABLE = "STATICFIRE_CONTROL_TOKEN"
LOOK_S = 2.0
"""How long `known_brokers` waits for the endpoint. It continues without it."""
CONTROL_VARIABLE = "STATICFIRE_CONTROL"
HTTP_NOT_FOUND = 404
# From here on, the request was right, but the cluster couldn't do it.
HTTP_FAILED = 500


class ControlClient:
    """The fault rules of one cluster."""

    def __init__(
        self, namesrv: str, control: str | None, is_certain: bool = True, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`control`: None means the endpoint at its usual port. It is used if it responds and serves this nameserver.

        `is_certain`: another endpoint is that of this cluster, so it must respond. Otherwise it is treated in the same
        way: STATICFIRE_CONTROL of a shell inside `staticfire run` may be another cluster's.

        Raises: UsageError (it isn't an address, or the environment has a token that can't be sent).
        """
        self._namesrv = namesrv
        self._url = _checked(CONTROL_URL if control is None else control).rstrip("/")
        self._is_certain = is_certain and control is not None
        self._timeout_s = timeout_s
        self._token = os.environ.get(TOKEN_VARIABLE, "")
        check_token(self._token)

    async def add(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Add a rule; return it as GET /faults does. Raises: UsageError, and what `ClusterFaults.add` raises."""
        wanted = parse_fault(words)
        if self._is_there():
            return self._ask("POST", "/faults", dict(words))
        if ACTIONS[wanted.rule.action].is_of_process:
            raise ClientError(
                f"{wanted.rule.action} needs the control endpoint of the program that started the processes, and "
                f"{self._url} isn't that of {self._namesrv}, or doesn't respond: give --control URL, as "
                "`staticfire up` prints it"
            )
        return await self._straight(lambda faults: _as_json(faults, words))

    async def all(self) -> dict[str, Any]:
        """Return all rules as GET /faults does."""
        if self._is_there():
            return self._ask("GET", "/faults")
        views = await self._straight(lambda faults: faults.all())
        return {"faults": [view.as_json() for view in views], "silent": views.silent}

    async def remove(self, number: int) -> None:
        """Remove a rule. Raises: ClientError (there is no such rule)."""
        if self._is_there():
            self._ask("DELETE", f"/faults/{number}")
        else:
            await self._straight(lambda faults: faults.remove(number))

    async def clear(self) -> int:
        """Remove all rules; return how many."""
        if self._is_there():
            return int(self._ask("DELETE", "/faults")["removed"])
        return await self._straight(lambda faults: faults.clear())

    async def _straight(self, ask: Callable[[ClusterFaults], Awaitable[T]]) -> T:
        machine = client_machine()
        pool = ConnectionPool(machine)
        try:
            return await ask(ClusterFaults(pool, self._namesrv))
        finally:
            await pool.close()
            await machine.workers.close()

    def brokers(self) -> list[str]:
        """Return the names of the cluster's brokers, with those that have ended; none if the endpoint isn't there.

        Raises: as `_there`.
        """
        there = self._there()
        return [] if there is None else list(map(str, there.get("brokers", [])))

    # -- HTTP --------------------------------------------------------------------------------------------------------

    def _is_there(self) -> bool:
        """Return whether the endpoint responds and serves this nameserver. Raises: as `_there`."""
        return self._there() is not None

    def _there(self) -> dict[str, Any] | None:
        """Return what the endpoint reports about itself; None if it doesn't respond, or serves another nameserver.

        Raises: ClientError, UsageError (the user named an endpoint, and it doesn't respond, or refuses).
        """
        try:
            there = self._ask("GET", "/")
        except (ClientError, UsageError):
            # It may be another cluster's endpoint, which wants TLS or a token.
            if self._is_certain:
                raise
            return None
        if self._is_certain:
            return there
        wanted = comparable(self._namesrv)
        try:
            # One of several nameservers is enough.
            return there if wanted <= comparable(str(there["namesrv"])) else None
        except (UsageError, KeyError, TypeError):
            return None  # Another program listens at that port.

    def _ask(self, method: str, path: str, words: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the endpoint's response. Raises: UsageError (it refuses), ClientError (it doesn't respond)."""
        body = None if words is None else json.dumps(words).encode()
        try:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            request = urllib.request.Request(self._url + path, body, headers, method=method)
            with urllib.request.urlopen(request, timeout=self._timeout_s, context=self._tls()) as answer:
                parsed: dict[str, Any] = json.load(answer)
                return parsed
        except urllib.error.HTTPError as error:
            is_wrong_use = error.code < HTTP_FAILED and error.code != HTTP_NOT_FOUND
            kind = UsageError if is_wrong_use else ClientError
            raise kind(_words(error)) from None
        except (OSError, ValueError, HTTPException) as error:  # HTTPException: another program listens there.
            reason = _tls_words(error) or str(error) or type(error).__name__
            raise ClientError(f"the control endpoint {self._url} doesn't respond: {reason}") from None

    def _tls(self) -> "SSLContext | None":
        """Return how to verify an https endpoint: as --tls and --tls-trust say, otherwise by the system's CAs."""
        if not self._url.startswith("https:"):
            return None
        from staticfire.runtime.tls.contexts import client_context  # imported here, because few commands need OpenSSL

        return client_context(environment_tls() or TlsClient(auth_server=True))


def known_brokers(namesrv: str) -> list[str]:
    """Return the brokers of a cluster as its control endpoint knows them; none if it isn't at one of its usual places.

    These are the address in STATICFIRE_CONTROL, and otherwise the usual port. A thread queries it, because the time-out
    of a connection starts again with each byte, and another program may listen there.
    """
    try:
        endpoint = ControlClient(namesrv, os.environ.get(CONTROL_VARIABLE) or None, False, LOOK_S)
    except UsageError:  # The address or the token is unusable.
        return []
    found: list[str] = []
    query = threading.Thread(target=lambda: found.extend(endpoint.brokers()), daemon=True)
    query.start()
    query.join(LOOK_S)
    return list(found)


def _checked(url: str) -> str:
    """Return an address without white space around it. Raises: UsageError."""
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # A port or a host in brackets that can't be one.
        is_address = False
    if not is_address:
        raise UsageError(f"{url!r} isn't the address of a control endpoint; write it as `up` prints it: {CONTROL_URL}")
    return url.strip()


async def _as_json(faults: ClusterFaults, words: Mapping[str, Any]) -> dict[str, Any]:
    return (await faults.add(words)).as_json()


def _tls_words(error: Exception) -> str:
    """Describe a failure of TLS; empty if it is another failure."""
    reason = getattr(error, "reason", None)
    if not type(reason).__name__.startswith("SSL"):
        return ""
    import ssl  # imported here, because few commands need OpenSSL

    from staticfire.runtime.tls.failures import failure_words

    return f"TLS: {failure_words(reason, is_server=False)}" if isinstance(reason, ssl.SSLError) else ""


def _words(error: urllib.error.HTTPError) -> str:
    """Return the endpoint's error message."""
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        return f"{error.code} {error.reason}"
