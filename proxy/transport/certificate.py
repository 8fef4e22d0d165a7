"""The TLS certificate of the endpoint. It is self-signed, as that of RocketMQ's proxy is (tlsTestModeEnable).

Most of RocketMQ 5's clients open TLS without checking the certificate. A client that does check it must be configured
with the name localhost, or connect to localhost or 127.0.0.1. The certificate of RocketMQ's proxy has no alternative
names.
"""

import datetime
import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from typing import Any

NAME = "localhost"
ADDRESSES = ("127.0.0.1", "::1")
DAYS = 3_650
# The certificate is valid from this long before now, for clients whose clock is behind ours.
CLOCK_DAYS = 2


def server_context(names: Sequence[str] = ()) -> ssl.SSLContext:
    """Return a TLS context with a new certificate. Blocks for a tenth of a second.

    `names`: further host names and addresses (besides localhost) by which clients reach the endpoint.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # A renegotiation costs us more than the client, and HTTP/2 forbids it.
    context.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # The library takes only a path.
        file.write(self_signed(names))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def self_signed(names: Sequence[str] = ()) -> bytes:
    """Return a new key and its certificate as PEM."""
    # Imported here, because it costs 70 ms and 13 MiB, which an endpoint doesn't need before a client uses TLS.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)  # noqa: TID251 - a certificate's days are the wall's
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=CLOCK_DAYS))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in (NAME, *ADDRESSES, *names)]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
