"""`--compat rocketmq-5.3.3`: as close to that RocketMQ as staticfire can be, and what stays different.

differences.toml has every difference that a person may meet; those with a setting are turned off. What somebody sets
by himself counts all the same. docs/compatibility.md is written from the same file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from staticfire.protocol.errors import UsageError

ROCKETMQ = "rocketmq-5.3.3"
TARGETS = (ROCKETMQ,)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a person may meet. `setting`, `value`: what turns it off; empty: nothing does."""

    what: str
    rocketmq: str
    ours: str
    setting: str = ""
    value: str = ""


def differences() -> list[Difference]:
    """Return all of them, those that can be turned off first."""
    import tomllib  # here, since few starts ask

    found = tomllib.loads(files("staticfire.launch").joinpath("differences.toml").read_text("utf-8"))
    return [Difference(**one) for one in found["difference"]]


def check_target(compat: str | None) -> None:
    """Raise UsageError when there is no such RocketMQ to be like."""
    if compat is not None and compat not in TARGETS:
        raise UsageError(f"compat={compat!r} is unknown; there is {' and '.join(TARGETS)}: did you mean that?")


def compat_settings(compat: str | None) -> Mapping[str, str]:
    """Return the settings that turn differences off, for nobody in particular none. Raises: UsageError."""
    check_target(compat)
    return {} if compat is None else {one.setting: one.value for one in differences() if one.setting}


def told(compat: str) -> list[str]:
    """Return what a person should know: what is set, and what stays different, a line each."""
    found = differences()
    switched = " ".join(f"{one.setting}={one.value}" for one in found if one.setting)
    rest = [one for one in found if not one.setting]
    return [
        f"as {compat}: {switched}",
        f"{len(rest)} differences stay, of which most programs meet none:",
        *(f"  {one.what}: RocketMQ: {one.rocketmq}; here: {one.ours}" for one in rest),
    ]


def told_shortly(compat: str) -> str:
    """Return the same in one line."""
    rest = sum(not one.setting for one in differences())
    return (
        f"as {compat}; {rest} differences stay: docs/compatibility.md, or `staticfire up --compat {compat}`, lists them"
    )
