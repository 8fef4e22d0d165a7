"""OpenSSL's contexts from settings and files. Errors name the file and the problem. Everything here may block."""

import os
import ssl
import tempfile
from collections.abc import Callable, Sequence

from staticfire.protocol.errors import UsageError
from staticfire.runtime.log import logger
from staticfire.runtime.tls.settings import REQUIRED_AUTH, TlsClient, TlsSettings

log = logger("tls")

HOW_TO_GET_IT = "pip install 'staticfire[tls]'"


def server_context(settings: TlsSettings, alpn: Sequence[str] = ()) -> ssl.SSLContext:
    """Return the context of a server's ports: with its certificate, or a new one. Raises: UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # A renegotiation costs us more than the client, and HTTP/2 forbids it.
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if settings.makes_certificate:
        _load_own(context, settings.names)
    else:
        _load_chain(
            context,
            ("tls.server.certPath", settings.tls_server_cert_path),
            ("tls.server.keyPath", settings.tls_server_key_path),
            settings.tls_server_key_password,
        )
    if settings.asks_clients:
        _load_trusted(context, "tls.server.trustCertPath", settings.tls_server_trust_cert_path)
        is_required = settings.tls_server_need_client_auth == REQUIRED_AUTH
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def _load_own(context: ssl.SSLContext, names: Sequence[str]) -> None:
    try:
        from staticfire.runtime.tls.certificates import self_signed  # Its library takes 70 ms.

        pem = self_signed(names)
    except ImportError:
        words = f"making a certificate needs an optional package: {HOW_TO_GET_IT}; or give one with tls.server.certPath"
        raise UsageError(words) from None
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # OpenSSL takes only a path.
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)


def client_context(tls: TlsClient) -> ssl.SSLContext:
    """Return the context of a client's connections. Raises: UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.verifies and tls.check_name
    if not tls.verifies:
        context.verify_mode = ssl.CERT_NONE
    elif tls.trust_cert_path:
        _load_trusted(context, "tls.client.trustCertPath", tls.trust_cert_path)
    else:
        context.load_default_certs()
    if tls.cert_path or tls.key_path:
        key = ("tls.client.keyPath", tls.key_path)
        _load_chain(context, ("tls.client.certPath", tls.cert_path), key, tls.key_password)
    return context


def _load_chain(context: ssl.SSLContext, cert: tuple[str, str], key: tuple[str, str], password: str) -> None:
    for name, path in (cert, key):
        _check_file(name, path)
    was_prompted = False

    def tell() -> str:
        nonlocal was_prompted
        was_prompted = True
        return password

    try:
        context.load_cert_chain(cert[1], key[1], tell)  # Without `tell`, OpenSSL would prompt for it on the terminal.
    except ssl.SSLError as error:
        if "key_values_mismatch" in (error.reason or "").lower():
            words = f"the key in {key[1]} ({key[0]}) doesn't fit the certificate in {cert[1]} ({cert[0]})"
        elif was_prompted:  # OpenSSL names no reason for a wrong password.
            words = f"the password of the key in {key[1]} ({key[0]}) is wrong, or missing"
        else:
            words = f"{cert[1]} ({cert[0]}) and {key[1]} ({key[0]}) can't be read: they must be PEM files"
        raise UsageError(f"TLS: {words}") from None


def _load_trusted(context: ssl.SSLContext, name: str, path: str) -> None:
    _check_file(name, path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise UsageError(f"TLS: {path} ({name}) can't be read: it must be a PEM file with certificates") from None


def _check_file(name: str, path: str) -> None:
    if not path:
        raise UsageError(f"TLS: {name} is missing: give the path of a PEM file")
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise UsageError(f"TLS: {path} ({name}) can't be read: {error.strerror}") from None


class FileContext:
    """A context that is made again when its files have changed: renewed ones count from the next connection on.

    If the new files can't be used, those from before stay in use, and a line in the log has the reason: while an
    administrator renews them, the key may not fit the certificate for a moment. Each use tries again, because what was
    wrong may be no part of `signature`: a permission, or too many open files.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], paths: Sequence[str], meanwhile: str) -> None:
        """`meanwhile`: what is in use until the new files can be used, for the log."""
        self._make = make
        self.paths = [path for path in paths if path]
        self._meanwhile = meanwhile
        self._context: ssl.SSLContext | None = None
        # The signature of the files that are in use.
        self._seen: tuple[object, ...] = ()
        # Why newer ones can't be used, as it was last logged.
        self._reason = ""

    def current(self) -> ssl.SSLContext:
        """Return the context; load the files if they have changed.

        Raises: UsageError (a file can't be used, and none could be before).
        """
        seen = signature(self.paths)
        if self._context is None:
            self._context, self._seen = self._make(), seen
        elif seen == self._seen:
            self._reason = ""
        else:
            try:
                self._context, self._seen, self._reason = self._make(), seen, ""
            except (UsageError, OSError) as error:
                reason = f"{error}; {self._meanwhile}"
                if reason != self._reason:
                    self._reason = reason
                    log.error("tls_not_reloaded", reason=reason)
        return self._context


def signature(paths: Sequence[str]) -> tuple[object, ...]:
    """Return a value that differs when one of these files has changed."""
    found: list[object] = []
    for path in paths:
        try:
            stat = os.stat(path)
            found.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            found.append((path, None))
    return tuple(found)
