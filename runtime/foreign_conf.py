"""Interpret a configuration file that was written for RocketMQ: a broker.conf or a namesrv.conf.

RocketMQ ignores lines that it doesn't understand, and many files contain some. So such a line doesn't stop a program
here, either, but each one is reported once: a setting of RocketMQ that has no meaning here, an unknown name, with the
most similar known one, and a value that can't be parsed (`29*1000`). A value that can be parsed but that no program can
work with (`-1` hours) is refused.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields

from staticfire.runtime.config import OutOfRange, Unparsable, default_of, field_of, key_of, parse_value, text_of
from staticfire.runtime.ranges import shown
from staticfire.runtime.rocketmq_settings import ROCKETMQ_SETTINGS

Tell = Callable[[str], None]

# Finding a similar name takes 1 ms for each unknown name, and a wrong file may contain thousands.
UNKNOWN_TOLD_MAX = 20


def understood(given: Mapping[str, str], path: str, classes: tuple[type, ...], tell: Tell) -> dict[str, str]:
    """Return the settings of a file that the given programs accept; report all others with `tell`.

    The code that parses a value next raises UsageError if it is out of its range.
    """
    taken: dict[str, str] = {}
    without_meaning: list[str] = []
    unknown: list[str] = []
    for key, text in given.items():
        cls = next((cls for cls in classes if field_of(cls, key) is not None), None)
        if cls is not None:
            if _is_readable(cls, key, text, path, tell):
                taken[key] = text
        elif key in ROCKETMQ_SETTINGS:
            without_meaning.append(key)
        else:
            unknown.append(key)
    for key in unknown[:UNKNOWN_TOLD_MAX]:
        tell(f"{path}: unknown setting {shown(key)}{_likely(shown(key), classes)}")
    if len(unknown) > UNKNOWN_TOLD_MAX:
        tell(f"{path}: {len(unknown) - UNKNOWN_TOLD_MAX} more unknown settings")
    if without_meaning:
        tell(f"{path}: settings of RocketMQ that have no effect here: {', '.join(sorted(without_meaning))}")
    return taken


def _is_readable(cls: type, key: str, text: str, path: str, tell: Tell) -> bool:
    name = field_of(cls, key)
    one = next(one for one in fields(cls) if one.name == name)
    try:
        parse_value(text, cls, one)
    except OutOfRange:
        # The code that parses it next refuses it.
        return True
    except Unparsable as wrong:
        default = text_of(default_of(one))
        words = f"it must be {wrong}, as a literal; the default {default} is used"
        tell(f"{path}: {key}={shown(text)} can't be read: {words}")
        return False
    return True


def _likely(key: str, classes: tuple[type, ...]) -> str:
    known = {name.lower(): name for name in ROCKETMQ_SETTINGS}
    known |= {key_of(one).lower(): key_of(one) for cls in classes for one in fields(cls)}
    alike = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.7)
    return f": did you mean {known[alike[0]]}?" if alike else ""
