"""The numbers that clients send as their RocketMQ version. RocketMQ: MQVersion, by its ordinals."""

SNAPSHOT = "_SNAPSHOT"
# V3_1_0_SNAPSHOT, V4_0_0_SNAPSHOT, and the last one. Versions before the first are no longer in use.
FIRST_REGULAR, FIRST_OF_4, LAST = 46, 212, 611


def version_text(number: int) -> str:
    """Return a version as RocketMQ writes it: 479 is V5_3_3."""
    if number < FIRST_REGULAR:
        return "V3_0_0" if number < 16 else f"V3_0_{(number - 14) // 2}{'' if number % 2 else SNAPSHOT}"
    if number > LAST:
        return "HIGHER_VERSION"
    if number < 86:
        line, rest = divmod(number - FIRST_REGULAR, 20)
        return _text(3, line + 1, rest)
    if number < FIRST_OF_4:  # 3.3 to 3.9 have no patch 0.
        line, rest = divmod(number - 86, 18)
        return _text(3, line + 3, rest + 2)
    line, rest = divmod(number - FIRST_OF_4, 20)
    return _text(4 + line // 10, line % 10, rest)


def _text(major: int, minor: int, rest: int) -> str:
    return f"V{major}_{minor}_{rest // 2}{'' if rest % 2 else SNAPSHOT}"
