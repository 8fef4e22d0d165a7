"""`--compat rocketmq-5.3.3`: behave as that RocketMQ as far as staticfire can, and list what remains different.

`--compat rocketmq-4.9` is the same, and refuses as RocketMQ 4's access control does.

differences.toml has every difference that a user may notice. Those with a setting are turned off. A value that the user
sets explicitly has priority. docs/compatibility.md is generated from the same file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from staticfire.protocol.documentation import page
from staticfire.protocol.errors import UsageError

ROCKETMQ, ROCKETMQ_4 = "rocketmq-5.3.3", "rocketmq-4.9"
TARGETS = (ROCKETMQ, ROCKETMQ_4)
ONLY_IN_4 = {"oldAclAnswers": "true"}
"""Settings that turn differences from RocketMQ 4 off, in addition."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference that a user may notice. `setting`, `value`: they turn it off; empty if nothing does."""

    what: str
    rocketmq: str
    ours: str
    setting: str = ""
    value: str = ""


def differences() -> list[Difference]:
    """Return all differences. Those that can be turned off come first."""
    import tomllib  # here, since few starts need it

    found = tomllib.loads(files("staticfire.launch").joinpath("differences.toml").read_text("utf-8"))
    return [Difference(**one) for one in found["difference"]]


def check_target(compat: str | None) -> None:
    """Check that `compat` names a supported RocketMQ version. Raises: UsageError."""
    if compat is not None and compat not in TARGETS:
        raise UsageError(f"compat={compat!r} is unknown; known: {' and '.join(TARGETS)}")


def compat_settings(compat: str | None) -> Mapping[str, str]:
    """Return the settings that turn differences off; none if `compat` is None. Raises: UsageError."""
    check_target(compat)
    if compat is None:
        return {}
    switched = {one.setting: one.value for one in differences() if one.setting}
    return {**switched, **ONLY_IN_4} if compat == ROCKETMQ_4 else switched


def lines_of(compat: str) -> list[str]:
    """Return lines for the user: the changed settings, then one line for each remaining difference."""
    found = differences()
    switched = " ".join(f"{setting}={value}" for setting, value in compat_settings(compat).items())
    rest = [one for one in found if not one.setting]
    return [
        f"as {compat}: {switched}",
        f"{len(rest)} differences remain; most programs don't notice any:",
        *(f"  {one.what}: RocketMQ: {one.rocketmq}; here: {one.ours}" for one in rest),
    ]


def in_one_line(compat: str) -> str:
    """Return a one-line summary of `lines_of`."""
    rest = sum(not one.setting for one in differences())
    lists = f"{page('compatibility')}, or `staticfire up --compat {compat}`, lists them"
    return f"as {compat}; {rest} differences remain: {lists}"
