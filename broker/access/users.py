"""Users: names, secrets, types. Pure. RocketMQ: User, UserType, UserStatus."""

import msgspec

SUPER, NORMAL = "Super", "Normal"
ENABLED, DISABLED = "enable", "disable"


class User(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """One user. A super user may do everything."""

    username: str
    password: str
    user_type: str = NORMAL
    user_status: str = ENABLED

    @property
    def is_super(self) -> bool:
        return self.user_type == SUPER

    @property
    def is_enabled(self) -> bool:
        return self.user_status == ENABLED

    def __repr__(self) -> str:
        """Return a text without the secret, because logs and errors contain it."""
        return f"User({self.username!r}, {self.user_type}, {self.user_status})"


def type_of(text: str | None, default: str = NORMAL) -> str:
    """Return the type that a text names; RocketMQ takes any other text as Normal."""
    return default if not text else SUPER if text.lower() == SUPER.lower() else NORMAL


def status_of(text: str | None, default: str = ENABLED) -> str:
    """Return the status that a text names; RocketMQ takes any other text as enable."""
    return default if not text else DISABLED if text.lower() == DISABLED else ENABLED
