"""Resources: what a policy names. `Topic:orders` is one topic, `Topic:ord*` all that begin so, `Topic:*` all topics,
`*` everything. RocketMQ: Resource, ResourceType, ResourcePattern.
"""

from typing import NamedTuple

CLUSTER, NAMESPACE, TOPIC, GROUP, EVERYTHING = "Cluster", "Namespace", "Topic", "Group", "*"
_TYPES = {name.lower(): name for name in (CLUSTER, NAMESPACE, TOPIC, GROUP)}


class Pattern(NamedTuple):
    """The resources that an entry of a policy is about."""

    kind: str
    """One of the types; EVERYTHING: of any type."""
    name: str
    is_prefix: bool = False
    """Whether names that begin with `name` match, too."""

    @property
    def text(self) -> str:
        """The pattern as it is written."""
        if self.kind == EVERYTHING:
            return EVERYTHING
        return f"{self.kind}:{self.name}{'*' if self.is_prefix else ''}"


class Resource(NamedTuple):
    """One resource that a request needs."""

    kind: str
    name: str

    @property
    def text(self) -> str:
        """The resource as refusals name it."""
        return f"{self.kind}:{self.name}"


def pattern_of(text: str) -> Pattern | None:
    """Return the pattern that a text describes; None if its type is unknown.

    A type without a name is accepted, and matches nothing, as in RocketMQ.
    """
    text = text.strip()
    if text == EVERYTHING:
        return Pattern(EVERYTHING, "", is_prefix=True)
    kind, _, name = text.partition(":")
    known = _TYPES.get(kind.strip().lower())
    if known is None:
        return None
    return Pattern(known, name[:-1], is_prefix=True) if name.endswith("*") else Pattern(known, name)
