"""Epochs: which broker was the master when, as positions of the log. Pure. RocketMQ: EpochFileCache.

Each broker that becomes the master begins an epoch at the end of its log. Two logs are the same up to a position if
both have the same epochs up to there: within an epoch, only its one master appended. An asynchronous master that starts
again may have lost the end of its log, which slaves have: it begins another life of its epoch there.

The number of a new epoch is decided by the failover (failover/decisions.py), which knows only of brokers that answer.
So two brokers can begin epochs of one number, one after the other, and even at one position. They differ in the time
at which they began, and the later one wins.
"""

from collections.abc import Sequence

from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.requests.controller import EpochEntry
from staticfire.protocol.requests.replication import Epoch

FIRST = Epoch(1, 0)


def newest(epochs: Sequence[Epoch]) -> int:
    """Return the number of the newest epoch; 0 if there is none."""
    return epochs[-1].epoch if epochs else 0


def rank(epochs: Sequence[Epoch]) -> tuple[int, int]:
    """Return what decides between two masters, of which the higher one remains: number and time of the newest epoch."""
    return (epochs[-1].epoch, epochs[-1].began_ms) if epochs else (0, 0)


def common_end(own: Sequence[Epoch], own_end: int, others: Sequence[Epoch], other_end: int) -> int:
    """Return the position up to which both logs are the same; 0 if they have nothing in common."""
    ends = _ends(own, own_end)
    for epoch, end in reversed(_ends(others, other_end)):
        for known, known_end in ends:
            if known == epoch:
                return min(end, known_end)
    return 0


def entries(epochs: Sequence[Epoch]) -> list[EpochEntry]:
    """Return the epochs as RocketMQ's tools show them: all lives of an epoch are one, and the last one has no end."""
    firsts: dict[int, Epoch] = {}
    for epoch in epochs:
        firsts.setdefault(epoch.epoch, epoch)
    return [EpochEntry(one.epoch, one.start_position, end) for one, end in _ends([*firsts.values()], INT64_MAX)]


def _ends(epochs: Sequence[Epoch], end: int) -> list[tuple[Epoch, int]]:
    starts = [epoch.start_position for epoch in epochs]
    return list(zip(epochs, [*starts[1:], end][: len(epochs)], strict=True))


def begun(epochs: Sequence[Epoch], epoch: int, position: int, now_ms: int) -> list[Epoch]:
    """Return the epochs with a new one that begins at a position. `now_ms`: milliseconds since 1970."""
    return [*cut(epochs, position), Epoch(epoch, position, 0, now_ms)]


def begun_again(epochs: Sequence[Epoch], position: int) -> list[Epoch]:
    """Return the epochs of a master that has started again with a log that ends at a position."""
    last = epochs[-1]
    again = Epoch(last.epoch, position, last.life + 1, last.began_ms)
    return [*(cut(epochs, position) if position <= last.start_position else epochs), again]


def cut(epochs: Sequence[Epoch], position: int) -> list[Epoch]:
    """Return the epochs of a log that ends at a position: those that began before it, or at its start."""
    return [epoch for epoch in epochs if epoch.start_position < position]
