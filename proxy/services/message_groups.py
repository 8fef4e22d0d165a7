"""Which queue a message group has. Pure. Guava: Hashing.consistentHash, by Lamping and Veach."""

_MULTIPLIER = 2_862_933_555_777_941_757
_MASK = (1 << 64) - 1


def bucket_of(number: int, buckets: int) -> int:
    """Return which of `buckets` a number belongs to; few move when their count changes."""
    state = number & _MASK
    candidate = 0
    while True:
        state = (_MULTIPLIER * state + 1) & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / 2**31))
        if following >= buckets:
            return candidate
        candidate = following
