"""The certificate of a server that was given none. It is self-signed, as RocketMQ's is (tls.test.mode.enable).

Most of RocketMQ's clients open TLS without checking the certificate. A client that does check it must be configured
with the name localhost, or connect to localhost or 127.0.0.1. The certificate of RocketMQ has no alternative names.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Any

NAME = "localhost"
ADDRESSES = ("127.0.0.1", "::1")
DAYS = 3_650
# The certificate is valid from this long before now, for clients whose clock is behind ours.
CLOCK_DAYS = 2


def self_signed(names: Sequence[str] = ()) -> bytes:
    """Return a new key and its certificate as PEM."""
    # Imported here, because it costs 70 ms and 13 MiB, which a server doesn't need before a client uses TLS.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=CLOCK_DAYS))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([general_name(each) for each in (NAME, *ADDRESSES, *names)]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)


def general_name(name: str) -> Any:
    """Return a host name, or an address, as a certificate holds it."""
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
