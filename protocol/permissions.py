"""The permission bits, filter types and flags of topics. RocketMQ: PermName, TopicFilterType, TopicSysFlag."""

INHERIT = 1
WRITE = 2
READ = 4
READ_WRITE = READ | WRITE

SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"

UNIT = 1
UNIT_SUB = 2


def readable(perm: int) -> bool:
    """Return whether messages may be pulled."""
    return perm & READ != 0


def writable(perm: int) -> bool:
    """Return whether messages may be sent."""
    return perm & WRITE != 0


def inherited(perm: int) -> bool:
    """Return whether topics may be created with this one as the template."""
    return perm & INHERIT != 0


def perm_text(perm: int) -> str:
    """Return the bits in readable form: `RW-`."""
    return f"{'R' if perm & READ else '-'}{'W' if perm & WRITE else '-'}{'X' if perm & INHERIT else '-'}"


def topic_sys_flag(unit: bool, unit_sub: bool) -> int:
    """Return a topic's flag."""
    return (UNIT if unit else 0) | (UNIT_SUB if unit_sub else 0)
