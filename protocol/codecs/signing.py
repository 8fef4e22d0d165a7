"""Codec 0 for a client that signs its requests: RocketMQ's AclClientRPCHook. Responses are never signed."""

from staticfire.protocol.codecs.hot_json import HOT_ANSWERS
from staticfire.protocol.codecs.json import JsonCodec
from staticfire.protocol.signatures import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign, signed_content


class SigningJsonCodec(JsonCodec):
    """Adds access key and signature to each request."""

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        super().__init__(HOT_ANSWERS)
        self._secret_key = secret_key
        self._added = {ACCESS_KEY: access_key}
        if security_token:
            self._added[SECURITY_TOKEN] = security_token

    def finished(self, fields: dict[str, str], body: bytes) -> dict[str, str]:
        """Return the header fields with the key and the signature."""
        fields = fields | self._added
        return fields | {SIGNATURE: sign(self._secret_key, signed_content(fields, body))}
