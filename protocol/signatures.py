"""Signatures of requests: RocketMQ's access keys.

A client adds its access key to the header fields of each request and signs the values of all fields, in the order of
their names, followed by the body: HMAC-SHA1, as Base64. There is no time and no random number in it, so a signed frame
stays valid. gRPC clients sign a text in their metadata, as hexadecimal digits. RocketMQ: AclUtils, AclClientRPCHook,
AclSigner.

staticfire's own programs sign once for each connection, in SIGN_IN: `sign_in_content`.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping

ACCESS_KEY, SECURITY_TOKEN, SIGNATURE = "AccessKey", "SecurityToken", "Signature"
UNSIGNED_BEFORE_V5 = "_UNIQUE_KEY_QUERY"
"""Clients up to V4_9_3 add this field after they have signed."""
VERSION_V4_9_3 = 399


def signed_content(fields: Mapping[str, str], body: bytes = b"", version: int = VERSION_V4_9_3 + 1) -> bytes:
    """Return what a client of that version signs: the values in the order of their names, then the body."""
    names = sorted(fields)
    if SIGNATURE in fields:
        names.remove(SIGNATURE)
    if version <= VERSION_V4_9_3 and UNSIGNED_BEFORE_V5 in fields:
        names.remove(UNSIGNED_BEFORE_V5)
    values = [fields[name] for name in names]
    return "".join(values).encode("utf-8", "surrogatepass") + body


def sign_in_content(access_key: str, random: str) -> bytes:
    """Return what SIGN_IN signs. No signed request begins like this, so its signature can't be used to sign in."""
    return f"\0SIGN_IN\0{access_key}\0{random}".encode("utf-8", "surrogatepass")


def sign(secret: str, content: bytes) -> str:
    """Return the signature of a content, as remoting clients write it."""
    return b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()


def sign_text(secret: str, text: str) -> str:
    """Return the signature of a text, as gRPC clients write it."""
    return hmac.digest(secret.encode(), text.encode("utf-8", "surrogatepass"), "sha1").hex()


def is_same(signature: str, expected: str) -> bool:
    """Compare two signatures; the time that it takes doesn't depend on where they differ."""
    return hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), expected.encode())
