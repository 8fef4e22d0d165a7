"""The queue of a message group. Pure. Guava: Hashing.consistentHash, by Lamping and Veach."""

_MULTIPLIER = 2_862_933_555_777_941_757
_MASK = (1 << 64) - 1


def bucket_of(number: int, buckets: int) -> int:
    """Return the bucket of a number. When the count of buckets changes, few numbers move to another."""
    state = number & _MASK
    candidate = 0
    while True:
        state = (_MULTIPLIER * state + 1) & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / 2**31))
        if following >= buckets:
            return candidate
        candidate = following
