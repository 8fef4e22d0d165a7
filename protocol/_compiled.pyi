from collections.abc import Callable, Sequence

from staticfire.protocol.compiled import Buffer

def rocketmq_records(
    slices: Sequence[Buffer], store_host: bytes, otherwise: Callable[[Buffer, bytes, int], bytes], /
) -> list[bytes]: ...
def pack_batch(
    batch: Buffer,
    added: bytes,
    log_position: int,
    queue_id: int,
    queue_offset: int,
    stored_ms: int,
    born_ms: int,
    born_host: bytes,
    packed_topic: bytes,
    record_bytes_max: int,
    crc32: Callable[[Buffer], int],
    /,
) -> tuple[bytes, bytes, list[int]] | None: ...
def are_proven(
    slices: Sequence[bytes],
    positions: Sequence[int],
    sizes: Sequence[int],
    queue_id: int,
    packed_topic: bytes,
    first_offset: int,
    end_offset: int,
    crc32: Callable[[Buffer], int],
    /,
) -> bool: ...
