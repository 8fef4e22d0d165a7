"""As which user the clients of a command sign, and whether they speak TLS: the environment says it.

All clients of a command read it there, and its child processes, such as Spark's, inherit it. It is restored at the end
of the command, because tests and programs call commands as functions.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

_key_file: ContextVar[str] = ContextVar("_key_file", default="")
"""The file with the key that this command signs with; "" if it is from somewhere else."""
_from_file: ContextVar[frozenset[str]] = ContextVar("_from_file", default=frozenset())
"""The variables that this command has set because of that file."""
_NO_KEY = ("username cannot be null", "No accessKey is configured")
"""What brokers say if a request has no key: RocketMQ 5, RocketMQ 4."""
_REFUSALS = ("check signature failed", "acl.common.AclException")
"""What brokers say about a key, besides the name of its user: RocketMQ 5, RocketMQ 4."""


@contextmanager
def environment_of_one_command() -> Iterator[None]:
    """Restore the environment at the end."""
    before, tokens = dict(os.environ), (_key_file.set(""), _from_file.set(frozenset()))
    try:
        yield
    finally:
        _key_file.reset(tokens[0])
        _from_file.reset(tokens[1])
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def environment_for_another_cluster(namesrv: str, key: "Credentials | None", tls: str = "") -> Iterator[None]:
    """Clients that are made here are those of another cluster than the one that this command is for.

    `key`: None means the key in the environment; without one, that of the cluster's owner on this machine. The key of
    the owner of this command's cluster isn't used. `tls`: "true" or "false"; "" as the environment and the flags say.
    """
    own = _from_file.get()
    with environment_of_one_command():
        for name in own:
            del os.environ[name]
        if tls:
            os.environ["STATICFIRE_TLS_ENABLE"] = tls
        if key is not None:
            os.environ.pop("ROCKETMQ_SECURITY_TOKEN", None)
            sign_with(key)
        sign_as_owner(namesrv)
        yield


def names_key() -> bool:
    """Return whether the environment has a key, or a part of one. An empty variable is none."""
    from staticfire.runtime.machine import KEY_VARIABLES  # here: it imports asyncio, and few commands connect

    return any(map(os.environ.get, KEY_VARIABLES))


def sign_with(key: "Credentials") -> None:
    """Have the clients of this command sign with a key."""
    os.environ["ROCKETMQ_ACCESS_KEY"], os.environ["ROCKETMQ_SECRET_KEY"] = key.access_key, key.secret_key


def sign_as_owner(namesrv: str) -> None:
    """Have this command sign as the cluster's own user, if this user has started that cluster and names no other key.

    If the cluster takes only TLS, it speaks TLS, too, unless a flag says how.
    """
    if names_key():
        return
    from staticfire.runtime.local_keys import read_key  # here, since few commands connect to a cluster

    own = read_key(namesrv)
    if own is not None:
        sign_with(own.credentials)
        changed = {"ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"}
        if own.needs_tls and "STATICFIRE_TLS_ENABLE" not in os.environ:
            os.environ["STATICFIRE_TLS_ENABLE"] = "true"
            changed.add("STATICFIRE_TLS_ENABLE")
        _key_file.set(own.path)
        _from_file.set(frozenset(changed))


def words_of(error: Exception) -> str:
    """Return the text of an error. If brokers refused the command's key, or that it has none, it names the fix."""
    words, path, user = str(error), _key_file.get(), os.environ.get("ROCKETMQ_ACCESS_KEY")
    fix = "set ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY"
    if not user and any(refusal in words for refusal in _NO_KEY):
        is_empty = "ROCKETMQ_ACCESS_KEY" in os.environ
        return f"{words}; {'ROCKETMQ_ACCESS_KEY is empty' if is_empty else 'this command has no access key'}: {fix}"
    if path and any(refusal in words for refusal in (f"User:{user} ", *_REFUSALS)):
        return (
            f"{words}; this command signed as {user}, with the key in {path}, which the cluster's `staticfire up` or "
            f"`run` wrote; to sign as another user, {fix}"
        )
    return words
