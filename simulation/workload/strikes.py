"""The faults of a simulated cluster by name. `simulation/runs/striking.py` carries them out."""

from enum import Enum

import msgspec


class At(Enum):
    """The target of a fault."""

    BROKER = "a broker"
    MEMBER = "a member of a group"
    PRODUCER = "a producer"
    CLIENT = "a member or a producer"
    NAMESERVER = "the nameserver"
    NETWORK = "all links"
    SPARE_BROKER = "a broker but the first"
    SPARE_MEMBER = "a member of a group but its first"
    TOPIC = "a topic"
    GROUP = "a group"
    PULLING_GROUP = "a group that doesn't pop"
    SET = "a broker with slaves"
    REPLICA = "a machine of a broker with slaves"


class StrikeKind(msgspec.Struct, frozen=True):
    """One kind of fault."""

    at: At
    words: str
    is_usual: bool = True
    """Whether it is used if a workload doesn't choose. The other kinds destroy what no broker could keep, never heal,
    or are actions of an administrator."""


STRIKES = {
    "kill broker": StrikeKind(At.BROKER, "its process is killed, and started again later"),
    "lose power": StrikeKind(At.BROKER, "its machine loses power; unsynced data is lost, or a part of it"),
    "kill broker at a step": StrikeKind(At.BROKER, "it is killed before a step of its disk: a write, sync, rename"),
    "lose power at a step": StrikeKind(At.BROKER, "its machine loses power before a step of its disk"),
    "restart broker": StrikeKind(At.BROKER, "it stops properly, and starts later"),
    "freeze broker": StrikeKind(At.BROKER, "its process is frozen, its connections stay"),
    "isolate broker": StrikeKind(At.BROKER, "no data gets to it or from it; connections are silent"),
    "slow disk": StrikeKind(At.BROKER, "its syncs take up to two seconds"),
    "full disk": StrikeKind(At.BROKER, "no write finds space"),
    "failing writes": StrikeKind(At.BROKER, "some of its writes fail"),
    "failing syncs": StrikeKind(At.BROKER, "some of its syncs fail; their data may be lost when the power fails"),
    "failing reads": StrikeKind(At.BROKER, "some of its reads fail; the process ends if a map fails", is_usual=False),
    "misdirected reads": StrikeKind(At.BROKER, "some of its reads return data from another place", is_usual=False),
    "bit rot": StrikeKind(At.BROKER, "bits of its queues' files flip; the log still has all their data"),
    "reset connections": StrikeKind(At.BROKER, "all its connections are reset at once"),
    "no descriptors": StrikeKind(At.BROKER, "it can neither open nor accept a further connection"),
    "kill member": StrikeKind(At.MEMBER, "its process is killed, and started again later"),
    "restart member": StrikeKind(At.MEMBER, "it leaves properly, and joins later"),
    "freeze member": StrikeKind(At.MEMBER, "its process is frozen"),
    "isolate member": StrikeKind(At.MEMBER, "no data gets to it or from it"),
    "kill producer": StrikeKind(At.PRODUCER, "its process is killed, and started again later"),
    "freeze producer": StrikeKind(At.PRODUCER, "its process is frozen"),
    "cut": StrikeKind(At.CLIENT, "it and one broker can't reach each other"),
    "cut one way": StrikeKind(At.CLIENT, "it receives data from one broker, but that broker receives nothing from it"),
    "kill nameserver": StrikeKind(At.NAMESERVER, "its process is killed, and started again later"),
    "freeze nameserver": StrikeKind(At.NAMESERVER, "its process is frozen"),
    "slow network": StrikeKind(At.NETWORK, "a tenth of a second per way on average, with a long tail"),
    "losing network": StrikeKind(At.NETWORK, "one packet in twenty is resent after a while, and delays the rest"),
    "resetting network": StrikeKind(At.NETWORK, "one packet in two hundred resets its connection"),
    "reordering network": StrikeKind(At.NETWORK, "connections overtake each other"),
    "narrow network": StrikeKind(At.NETWORK, "20 KB per second and link"),
    "kill broker for good": StrikeKind(At.SPARE_BROKER, "its machine is lost, with its disk", is_usual=False),
    "kill member for good": StrikeKind(At.SPARE_MEMBER, "its machine is lost", is_usual=False),
    "isolate member for good": StrikeKind(
        At.SPARE_MEMBER,
        "no data gets to it or from it; its machine is switched off once all others have noticed",
        is_usual=False,
    ),
    "kill producer for good": StrikeKind(At.PRODUCER, "its machine is lost", is_usual=False),
    "add queues": StrikeKind(At.TOPIC, "an administrator adds queues permanently", is_usual=False),
    "fewer write queues": StrikeKind(At.TOPIC, "half of its queues can't be written", is_usual=False),
    "fewer read queues": StrikeKind(At.TOPIC, "half of its queues can't be read", is_usual=False),
    "forbid writing": StrikeKind(At.TOPIC, "its permission is read only", is_usual=False),
    "forbid reading": StrikeKind(At.TOPIC, "its permission is write only", is_usual=False),
    "switch off group": StrikeKind(At.GROUP, "it may not consume", is_usual=False),
    "reset offsets": StrikeKind(At.PULLING_GROUP, "its offsets are reset to some time before", is_usual=False),
    "lose disk": StrikeKind(At.REPLICA, "its machine is lost; it is back later, with an empty disk", is_usual=False),
    "fail over": StrikeKind(At.SET, "an administrator lets a slave take over", is_usual=False),
    "kill master": StrikeKind(At.SET, "the process of the master is killed, and started again later", is_usual=False),
    "freeze master": StrikeKind(At.SET, "the process of the master is frozen", is_usual=False),
    "hold copy": StrikeKind(At.SET, "a slave copies nothing", is_usual=False),
    "elect lagging": StrikeKind(
        At.SET, "a slave copies nothing, and an administrator lets it take over, with the loss", is_usual=False
    ),
    "cut replicas": StrikeKind(At.SET, "the master and a slave can't reach each other", is_usual=False),
    "change topics": StrikeKind(
        At.SET, "topics are created, changed and deleted around a failover, a kill or a cut link", is_usual=False
    ),
    "save snapshot": StrikeKind(At.SET, "a snapshot is saved beside a failover", is_usual=False),
    "hold and lose disk": StrikeKind(
        At.SET, "a slave copies nothing, and a machine is lost with its disk", is_usual=False
    ),
    "freeze slave and kill master": StrikeKind(At.SET, "both at once; they are back later", is_usual=False),
    "change settings": StrikeKind(At.BROKER, "a setting is changed while it runs, and changed back", is_usual=False),
}


USUAL_STRIKES = tuple(name for name, kind in STRIKES.items() if kind.is_usual)
ADMINISTRATION = (
    "add queues", "fewer write queues", "fewer read queues", "forbid writing", "forbid reading", "switch off group",
    "reset offsets", "change settings",
)  # fmt: skip
"""Not faults but intended changes: `simulation/runs/administering.py` carries them out."""


REPLICA_STRIKES = (
    "lose disk", "fail over", "kill master", "freeze master", "hold copy", "elect lagging", "cut replicas",
)  # fmt: skip
"""Faults of masters and slaves: `simulation/runs/striking_replicas.py` carries them out."""
SET_STRIKES = ("change topics", "save snapshot", "hold and lose disk", "freeze slave and kill master")
"""Several things at once that happen to a master and its slaves: `simulation/runs/striking_sets.py`."""

FOR_GOOD = " for good"
LASTING = tuple(name for name in STRIKES if name.endswith(FOR_GOOD))
"""Faults that never heal: other machines must take over."""
FOREVER_MS = 1 << 40


class Strike(msgspec.Struct, frozen=True):
    """A fault at some time, for a while."""

    at_ms: int
    kind: str
    target: str = ""
    """A machine; empty: all links."""
    lasts_ms: int = 1_000
    detail: int = 0
    """A seed for the random details of the fault."""
    other: str = ""
    """The broker at the other end of a cut."""

    def __str__(self) -> str:
        towards = f" and {self.other}" if self.other else ""
        words = f"{self.kind}: {self.target}{towards}" if self.target else self.kind
        lasts = "" if self.kind in LASTING else f", for {self.lasts_ms / 1000:.3f} s"
        return f"{self.at_ms / 1000:.3f} s {words}{lasts}"
