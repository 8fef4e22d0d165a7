"""A folder of certificates: a CA, a server, a client; as PEM, and as stores for Java.

    ca.pem           the CA, which clients and servers trust    ca.key.pem       its key
    server.pem       for nameservers, brokers, the gRPC endpoint    server.key.pem
    client.pem       for clients, where servers require one     client.key.pem
    trust.p12, server.p12, client.p12                           the same as PKCS#12, for Java
    tls.properties   RocketMQ's settings that name these files

The CA stays when the folder is filled again, so clients that trust the old certificate trust a renewed one.
Keys can be read by their owner only.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from staticfire.protocol.errors import UsageError
from staticfire.runtime.tls.contexts import HOW_TO_GET_IT

if TYPE_CHECKING:
    from staticfire.runtime.tls.authority import KeyPair

CA, CA_KEY = "ca.pem", "ca.key.pem"
PROPERTIES = "tls.properties"
PASSWORD_CHARS_MIN = 6  # keytool refuses shorter ones.
PRIVATE, PUBLIC = 0o600, 0o644


class CertificateWish(NamedTuple):
    """What to make."""

    names: Sequence[str]
    """Host names and addresses in the server's certificate, besides those of the loopback."""
    days: int
    password: str
    """Of the stores."""
    flaw: str = ""


class Filled(NamedTuple):
    """What was made."""

    files: list[str]
    names: list[str]
    is_ca_new: bool


def fill(folder: str, wish: CertificateWish) -> Filled:
    """Make the certificates and write them. Raises: UsageError."""
    try:
        from staticfire.runtime.tls import authority  # Imported here, because its library is optional, and takes 70 ms.
    except ImportError:
        raise UsageError(f"making certificates needs an optional package: {HOW_TO_GET_IT}") from None
    if len(wish.password) < PASSWORD_CHARS_MIN:
        raise UsageError(f"the password of the stores is too short: Java needs {PASSWORD_CHARS_MIN} characters or more")
    try:
        os.makedirs(folder, exist_ok=True)
        old = _old_authority(folder, wish.days)
        ca = old or authority.new_authority(wish.days)
        server = authority.new_server(ca, wish.names, wish.days, authority.Flaw(wish.flaw))
        client = authority.new_client(ca, wish.days)
        files = (
            [] if old is not None else [_write(folder, CA, ca.certificate_pem()), _write(folder, CA_KEY, ca.key_pem())]
        )
        for name, pair in (("server", server), ("client", client)):
            # The key first: a server that looks in between finds a pair that doesn't fit, and keeps its old one.
            files.append(_write(folder, f"{name}.key.pem", pair.key_pem()))
            files.append(_write(folder, f"{name}.pem", pair.certificate_pem()))
            if wish.flaw != authority.Flaw.WRONG_KEY.value or name == "client":
                files.append(_write(folder, f"{name}.p12", pair.store(name, ca.certificate, wish.password)))
        files.append(_write(folder, "trust.p12", authority.trust_store(ca.certificate, wish.password)))
        files.append(_write(folder, PROPERTIES, properties(folder).encode()))
    except OSError as error:
        raise UsageError(f"{error.filename or folder} can't be written: {error.strerror}") from None
    return Filled(files, authority.names_of(server.certificate), old is None)


def _old_authority(folder: str, days: int) -> "KeyPair | None":
    """Return the CA of the folder, which must sign certificates for so many days; None if there is none."""
    from staticfire.runtime.tls.authority import check_authority, read_pair

    try:
        with open(os.path.join(folder, CA), "rb") as certificate, open(os.path.join(folder, CA_KEY), "rb") as key:
            found = read_pair(certificate.read(), key.read())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UsageError(f"{folder}: {CA} and {CA_KEY} can't be read: {error}; use another folder") from None
    try:
        check_authority(found, days)
    except ValueError as error:
        raise UsageError(f"{folder}: the CA can't sign: {error}; use fewer --days or another folder") from None
    return found


def properties(folder: str) -> str:
    """Return RocketMQ's settings for these files: for its own servers and clients, and for ours."""
    place = os.path.abspath(folder)
    return f"""\
# Servers: staticfire up -c {place}/{PROPERTIES}; RocketMQ: -Dtls.config.file={place}/{PROPERTIES}
tls.test.mode.enable=false
tls.server.certPath={place}/server.pem
tls.server.keyPath={place}/server.key.pem
tls.server.trustCertPath={place}/ca.pem
tls.server.authClient=true
# Clients in Java: -Dtls.enable=true -Dtls.config.file={place}/{PROPERTIES}
tls.client.authServer=true
tls.client.trustCertPath={place}/ca.pem
tls.client.certPath={place}/client.pem
tls.client.keyPath={place}/client.key.pem
"""


def _write(folder: str, name: str, data: bytes) -> str:
    """Write a file atomically; only its owner can read a key."""
    path = os.path.join(folder, name)
    mode = PUBLIC if name in (CA, PROPERTIES, "server.pem", "client.pem", "trust.p12") else PRIVATE
    descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
    os.replace(f"{path}.new", path)
    return name
