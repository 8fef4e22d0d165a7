"""What OpenSSL reports when TLS fails, in words: what happened, and how to fix it."""

import ssl

# Parts of OpenSSL's reasons, in the order in which they are looked for; for a server, then for a client.
_AT_SERVER = (
    (
        ("unknown ca", "alert certificate unknown", "alert bad certificate", "alert certificate expired"),
        "the client checks certificates and rejected this one: give its CA to the client, use a certificate of a CA "
        "that the client trusts (tls.server.certPath), or turn the check off in the client "
        "(tls.client.authServer=false)",
    ),
    (
        ("peer did not return a certificate",),
        "the client has no certificate, and tls.server.need.client.auth=require: give it one (tls.client.certPath)",
    ),
    (("http request", "wrong version", "version too low", "unsupported protocol"), "TLS 1.2 or later is required"),
    (("no shared cipher",), "the client offers no cipher suite that is known here"),
)
_AT_CLIENT = (
    (
        ("wrong version number", "record layer failure", "packet length too long"),
        "the server answered in plain text: its port doesn't speak TLS. Turn TLS off, or use another port",
    ),
    (
        ("certificate required", "handshake failure"),
        "the server requires a certificate of the client: set tls.client.certPath and tls.client.keyPath",
    ),
    (
        ("unknown ca", "alert bad certificate", "alert certificate unknown", "alert internal error", "decrypt error"),
        "the server rejected this client's certificate: use one that is signed by a CA in the server's "
        "tls.server.trustCertPath",
    ),
    (("alert certificate expired",), "the server rejected this client's certificate, because it has expired: renew it"),
    (("protocol version", "unsupported protocol", "version too low"), "TLS 1.2 or later is required"),
    (
        ("unexpected eof", "eof occurred"),
        "the server closed the connection in the middle of TLS: it may not speak TLS on this port",
    ),
)
_CERTIFICATE = (
    (
        ("has expired",),
        "renew it (`staticfire certificates` makes one), or correct this machine's clock",
    ),
    (("not yet valid",), "it begins in the future: correct this machine's clock, or use another certificate"),
    (
        ("mismatch", "not valid for"),
        "it has other names: connect to a name that is in it, or make a certificate with this name (tlsNames, "
        "`staticfire certificates --name`)",
    ),
    (
        ("self-signed", "self signed", "unable to get local issuer", "unable to verify", "issuer"),
        "it isn't signed by a CA that is trusted: give the CA's file (tls.client.trustCertPath, --tls-trust), or turn "
        "the check off (tls.client.authServer=false)",
    ),
)


def failure_words(error: ssl.SSLError, is_server: bool) -> str:
    """Describe a failure, as the server or the client sees it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = str(error.verify_message).rstrip(".")
        whose = "the client's certificate" if is_server else "the server's certificate"
        if is_server:
            return f"{whose} was rejected: {message}; tls.server.trustCertPath names the CAs that are trusted"
        return f"{whose} was rejected: {message}{_fix(message.lower(), _CERTIFICATE)}"
    reason = (error.reason or (error.args[-1] if error.args else "")).lower().replace("_", " ")
    return f"{reason}{_fix(reason, _AT_SERVER if is_server else _AT_CLIENT)}"


def _fix(reason: str, known: tuple[tuple[tuple[str, ...], str], ...]) -> str:
    for parts, fix in known:
        if any(part in reason for part in parts):
            return f"; {fix}"
    return ""
