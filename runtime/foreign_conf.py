"""What a configuration file that was written for RocketMQ means here: a broker.conf, a namesrv.conf.

RocketMQ says nothing of a line that it doesn't understand, and many files have some. So none of these lines stops a
program here, either, but each is told, once and in words: settings of RocketMQ that mean nothing here, names that
nobody knows, with the likely one, and values that can't be read (`29*1000`). Only a slave is refused: it would be
something else than what was asked for.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields

from staticfire.protocol.errors import UsageError
from staticfire.runtime.config import Unparsable, default_of, field_of, key_of, parse_value, text_of
from staticfire.runtime.rocketmq_settings import ROCKETMQ_SETTINGS

Tell = Callable[[str], None]

MASTERS = frozenset({"ASYNC_MASTER", "SYNC_MASTER"})


def understood(given: Mapping[str, str], path: str, classes: tuple[type, ...], tell: Tell) -> dict[str, str]:
    """Return the settings of a file that these programs take; tell of all others. Raises: UsageError (a slave)."""
    role = given.get("brokerRole", "ASYNC_MASTER")
    if role not in MASTERS:
        raise UsageError(f"brokerRole={role} ({path}): there are only masters here; leave this broker out")
    taken: dict[str, str] = {}
    without_meaning = []
    for key, text in given.items():
        if key == "brokerRole":
            continue
        cls = next((cls for cls in classes if field_of(cls, key) is not None), None)
        if cls is not None:
            if _is_readable(cls, key, text, path, tell):
                taken[key] = text
        elif key in ROCKETMQ_SETTINGS:
            without_meaning.append(key)
        else:
            tell(f"{path}: nobody knows the setting {key}{_likely(key, classes)}")
    if without_meaning:
        tell(f"{path}: settings of RocketMQ that mean nothing here: {', '.join(sorted(without_meaning))}")
    return taken


def _is_readable(cls: type, key: str, text: str, path: str, tell: Tell) -> bool:
    name = field_of(cls, key)
    one = next(one for one in fields(cls) if one.name == name)
    try:
        parse_value(text, cls, one)
    except Unparsable as wrong:
        default = text_of(default_of(one))
        tell(f"{path}: {key}={text} can't be read: it takes {wrong}, as a literal; {default}, the default, counts")
        return False
    return True


def _likely(key: str, classes: tuple[type, ...]) -> str:
    known = {name.lower(): name for name in ROCKETMQ_SETTINGS}
    known |= {key_of(one).lower(): key_of(one) for cls in classes for one in fields(cls)}
    alike = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.7)
    return f": did you mean {known[alike[0]]}?" if alike else ""
