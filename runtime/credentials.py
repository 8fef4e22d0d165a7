"""An access key with its secret, and how a client's requests are signed with it.

A text of it, `{"accessKey":"...","secretKey":"..."}`, is RocketMQ's form in settings. The environment has it in
ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY and ROCKETMQ_SECURITY_TOKEN.
"""

from collections.abc import Mapping

import msgspec

from staticfire.protocol.codecs import Codec
from staticfire.protocol.errors import ProtocolError, UsageError
from staticfire.protocol.requests.access import SignIn
from staticfire.runtime.machine import KEY_VARIABLES


def credentials_in_file(path: str) -> "Credentials | None":
    """Return the key in RocketMQ's conf/tools.yml, if it has one. Raises: UsageError, without the secret."""
    try:
        import yaml
    except ImportError:
        raise UsageError(f"reading {path} needs an optional package: pip install 'staticfire[acl]'") from None
    try:
        with open(path, encoding="utf-8") as file:
            # As texts: a secret of digits stays what was written.
            found = yaml.load(file, Loader=yaml.BaseLoader)
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"{path} can't be read: it must have the lines accessKey: ... and secretKey: ...") from None
    if not isinstance(found, dict):
        return None
    return Credentials.of(str(found.get("accessKey") or ""), str(found.get("secretKey") or ""))


class Credentials(msgspec.Struct, rename="camel", frozen=True):
    """An access key with its secret. RocketMQ: SessionCredentials."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        """Return a text without the secret, because logs and errors contain it."""
        return f"Credentials({self.access_key!r})"

    @classmethod
    def parse(cls, text: str) -> "Credentials":
        """Read RocketMQ's form. Raises: ProtocolError, without the secret."""
        try:
            found = msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            raise ProtocolError('it must be like {"accessKey":"...","secretKey":"..."}') from None
        if not found.access_key.strip() or not found.secret_key.strip():
            raise ProtocolError("accessKey and secretKey must not be blank")
        return found

    @classmethod
    def parse_setting(cls, text: str) -> "Credentials":
        """Read the setting innerClientAuthenticationCredentials. Raises: UsageError, without the secret."""
        try:
            return cls.parse(text)
        except ProtocolError as error:
            raise UsageError(f"innerClientAuthenticationCredentials: {error}") from None

    def codec(self) -> Codec:
        """Return codec 0 with signed requests."""
        from staticfire.protocol.codecs.signing import SigningJsonCodec  # imported here: most clients have no key

        return SigningJsonCodec(self.access_key, self.secret_key, self.security_token)

    def sign_in(self, random: str) -> SignIn:
        """Return the first request on a connection with codec 2. `random`: so that two are never the same."""
        from staticfire.protocol.signatures import sign, sign_in_content

        content = sign_in_content(self.access_key, random)
        return SignIn(self.access_key, random, sign(self.secret_key, content), self.security_token)

    @property
    def text(self) -> str:
        """RocketMQ's form in settings."""
        return msgspec.json.encode({"accessKey": self.access_key, "secretKey": self.secret_key}).decode()

    @classmethod
    def of(cls, access_key: str, secret_key: str, security_token: str = "") -> "Credentials | None":
        """Return the credentials that a user gave; None if there are none. Raises: UsageError (one part is missing)."""
        if not access_key and not secret_key:
            return None
        if not access_key or not secret_key:
            given, missing = ("access key", "secret key") if access_key else ("secret key", "access key")
            raise UsageError(f"there is an {given} without a {missing}".replace("an secret", "a secret"))
        return cls(access_key, secret_key, security_token or None)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "Credentials | None":
        """Return the credentials in the environment; None if there are none. An empty variable is none.

        Raises: UsageError, without the secret.
        """
        given = {name: environment[name] for name in KEY_VARIABLES if environment.get(name)}
        for name, text in given.items():
            if text != text.strip():
                raise UsageError(f"{name} begins or ends with white space, which is no part of a key: remove it")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UsageError(f"{name} isn't UTF-8") from None
        missing = [name for name in KEY_VARIABLES[:2] if name not in given]
        if given and missing:
            how = "is empty" if missing[0] in environment else "isn't set"
            raise UsageError(f"{next(iter(given))} is set, but {missing[0]} {how}: set both, or none")
        access_key, secret_key, security_token = (given.get(name, "") for name in KEY_VARIABLES)
        return cls.of(access_key, secret_key, security_token)
