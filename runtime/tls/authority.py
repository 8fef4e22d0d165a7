"""A CA of our own, and the certificates that it signs. It needs the extra `tls` (cryptography).

A certificate can be given a flaw (`Flaw`), to test how clients react to it.
"""

import datetime
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID

from staticfire.runtime.tls.certificates import ADDRESSES, CLOCK_DAYS, NAME, general_name

CA_NAME = "staticfire CA"
WRONG_NAME = "another-host.invalid"
CA_DAYS = 3_650
"""How much longer than the certificates that it signs first a new CA is valid."""
Key = ec.EllipticCurvePrivateKey


class Flaw(Enum):
    """A flaw of a server's certificate."""

    NONE = ""
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    WRONG_NAME = "wrong-name"
    OTHER_CA = "other-ca"
    WRONG_KEY = "wrong-key"


class KeyPair(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: Key

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def store(self, name: str, ca: x509.Certificate, password: str) -> bytes:
        """Return both and the CA's certificate as PKCS#12, which Java reads as a key store."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(name.encode(), self.key, self.certificate, [ca], encryption)


def trust_store(ca: x509.Certificate, password: str) -> bytes:
    """Return the CA's certificate as PKCS#12, which Java reads as a trust store."""
    encryption = serialization.BestAvailableEncryption(password.encode())
    return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(ca, b"ca")], encryption)


def read_pair(certificate: bytes, key: bytes) -> KeyPair:
    """Read what was written as PEM. Raises: ValueError."""
    loaded = serialization.load_pem_private_key(key, None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is of another kind than this command makes")
    return KeyPair(x509.load_pem_x509_certificate(certificate), loaded)


def new_authority(days: int) -> KeyPair:
    """Return a new CA, which outlives certificates for so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(CA_NAME)
    start, end = _validity(days + CA_DAYS, Flaw.NONE)
    builder = _certificate(subject, subject, key.public_key(), start, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    return KeyPair(builder.add_extension(_usage(is_ca=True), True).sign(key, hashes.SHA256()), key)


def new_server(ca: KeyPair, names: Sequence[str], days: int, flaw: Flaw = Flaw.NONE) -> KeyPair:
    """Return a server's certificate for these names and addresses, and those of the loopback."""
    known = (WRONG_NAME,) if flaw is Flaw.WRONG_NAME else dict.fromkeys((NAME, *ADDRESSES, *names))
    issuer = new_authority(days) if flaw is Flaw.OTHER_CA else ca
    made = _signed(issuer, NAME, list(known), ExtendedKeyUsageOID.SERVER_AUTH, _validity(days, flaw))
    return KeyPair(made.certificate, ec.generate_private_key(ec.SECP256R1())) if flaw is Flaw.WRONG_KEY else made


def check_authority(ca: KeyPair, days: int) -> None:
    """Raises: ValueError (the CA isn't valid so long: clients would refuse a certificate that it signs)."""
    end = ca.certificate.not_valid_after_utc
    if _validity(days, Flaw.NONE)[1] > end:
        raise ValueError(f"it is valid until {end:%Y-%m-%d} only, shorter than {days} days")


def new_client(ca: KeyPair, days: int) -> KeyPair:
    """Return a client's certificate."""
    return _signed(ca, "client", [], ExtendedKeyUsageOID.CLIENT_AUTH, _validity(days, Flaw.NONE))


Validity = tuple[datetime.datetime, datetime.datetime]


def _validity(days: int, flaw: Flaw) -> Validity:
    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.UTC)
    if flaw is Flaw.EXPIRED:
        return now - (days + 1) * day, now - day
    if flaw is Flaw.NOT_YET_VALID:
        return now + day, now + (days + 1) * day
    return now - CLOCK_DAYS * day, now + days * day


def _signed(ca: KeyPair, subject: str, names: list[str], usage: x509.ObjectIdentifier, validity: Validity) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _certificate(_subject(subject), ca.certificate.subject, key.public_key(), *validity)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([general_name(name) for name in names]), False)
    return KeyPair(builder.add_extension(_usage(is_ca=False), True).sign(ca.key, hashes.SHA256()), key)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _usage(is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


def names_of(certificate: x509.Certificate) -> list[str]:
    """Return the host names and addresses in a certificate."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]
