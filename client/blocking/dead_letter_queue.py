"""The dead letters of a group, without asyncio: `with DeadLetterQueue("billing", "127.0.0.1:9876") as dlq: ...`."""

from staticfire.client.admin.dead_letter_queue import DeadLetterQueue
from staticfire.client.blocking.face import BlockingFace, blocking, iterating


class BlockingDeadLetterQueue(BlockingFace[DeadLetterQueue]):
    """What a group could not consume. Any number of threads may use it."""

    count = blocking(DeadLetterQueue.count)
    letters = blocking(DeadLetterQueue.letters)
    read = iterating(DeadLetterQueue.read)
    find = blocking(DeadLetterQueue.find)
    follow = iterating(DeadLetterQueue.follow)
    resend = blocking(DeadLetterQueue.resend)
