"""The certificate with which the endpoint speaks TLS: made by itself, as RocketMQ's proxy does (tlsTestModeEnable).

Most of RocketMQ 5's clients open TLS without checking whom they talk to. One that does check has to be told the name
localhost, or connect to it by that name or by 127.0.0.1; the real proxy's certificate has no alternative names.
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
CLOCK_DAYS = 2
# Before now, for clients whose clock isn't ours.


def server_context(names: Sequence[str] = ()) -> ssl.SSLContext:
    """Return what sessions are made of, with a new certificate. Blocks for a tenth of a second.

    `names`: host names and addresses beside localhost under which clients reach us.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # Each costs us more than the client; HTTP/2 forbids it, too.
    context.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # The library takes nothing but a path.
        file.write(self_signed(names))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def self_signed(names: Sequence[str] = ()) -> bytes:
    """Return a new key and its certificate, as PEM."""
    # Imported here: 70 ms and 13 MiB that an endpoint does without until a client speaks TLS.
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
