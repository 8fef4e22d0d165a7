"""A broken promise, as the checkers report it. Pure."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Broken:
    """One broken promise of the program, with its evidence."""

    promise: str
    """The checker's name, like `exit` or `each`."""
    subject: str
    """What it is about: a group, a topic, a key."""
    words: str
    """What happened, in one sentence."""
    evidence: tuple[str, ...] = ()
    """What the brokers saw, one line each."""
    message_ids: tuple[str, ...] = field(default=())
    """The unique ids of the messages that it is about."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.words}"

    @property
    def kind(self) -> tuple[str, str]:
        """Two runs break the same promise if this is the same."""
        return self.promise, self.subject if self.promise in ("skipped", "subscriptions", "order") else ""
