"""Messages with larger bodies or more properties."""

from benchmarks import frames
from benchmarks.curves.curve import Curve
from benchmarks.curves.filling import new_folder, run_ring
from benchmarks.figures import Stand, Values
from benchmarks.servers import broker_in
from staticfire.protocol.codecs import NATIVE

TOPIC = "curve"
WINDOW_BYTES = 256 * 1024
WINDOW_MESSAGES_MAX = 64
RING_BYTES_MAX = 16 * 1024 * 1024


def _sends(ring: list[bytes], in_flight: int, body_bytes: int, stand: Stand) -> Values:
    with new_folder(stand) as folder, broker_in(folder) as server:
        window = run_ring(server, [ring], in_flight, stand.seconds)
    return {
        "send_cpu_us": window.cpu_us_per_answer,
        "send_per_s": window.per_s,
        "send_mb_per_s": window.per_s * body_bytes / 1e6,
    }


def _bodies(body_bytes: int, stand: Stand) -> Values:
    count = max(4, min(frames.RING_FRAMES, RING_BYTES_MAX // body_bytes))
    ring = frames.sends(NATIVE, TOPIC, count, body=bytes(body_bytes))
    return _sends(ring, max(2, min(WINDOW_MESSAGES_MAX, WINDOW_BYTES // body_bytes)), body_bytes, stand)


def _properties(count: int, stand: Stand) -> Values:
    more = "".join(f"name-{index}\x01value-{index}\x02" for index in range(count))
    return _sends(frames.sends(NATIVE, TOPIC, more=more), WINDOW_MESSAGES_MAX, frames.BODY_BYTES, stand)


_COLUMNS = {"send_cpu_us": "broker's CPU, us per send", "send_per_s": "sends/s", "send_mb_per_s": "MB/s of bodies"}
SIZES = [
    Curve("body_bytes", "bytes of a body", (100, 1024, 64 * 1024, 1024 * 1024), _COLUMNS, _bodies),
    Curve(
        "properties", "properties of a message, beside its four own", (0, 5, 50),
        {key: _COLUMNS[key] for key in ("send_cpu_us", "send_per_s")}, _properties,
    ),
]  # fmt: skip
