"""The longest that reading one frame of each request kind takes: no other client is served meanwhile.

    python -m benchmarks.parts.request_decoding [--kind HEART_BEAT]

Bodies as long as the request's limit, in the forms that cost most per byte. What is printed is CPU milliseconds of the
worst of them, in the codec that takes longest; a body that is refused costs what was done until then.
"""

import argparse
import time
from collections.abc import Iterator

import msgspec

from staticfire.protocol import requests as _declarations  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import JSON, NATIVE, Envelope, codec_for
from staticfire.protocol.command import REQUESTS, Declaration, Records
from staticfire.protocol.errors import ProtocolError

TRIES = 2


def bodies(declaration: Declaration) -> Iterator[tuple[int, str, bytes]]:
    """Yield codec, name and body."""
    limit = declaration.request.body_bytes_max - 16
    for name, head, item, tail in (
        ("lenient names", b"{", b"a:1,", b"}"),
        ("lenient commas", b"{a:1", b",", b"}"),
        ("lenient escapes", b"{a:'", b"\\n", b"'}"),
        ("lenient nulls", b"{a:[", b"{},", b"]}"),
        ("unknown numbers", b'{"a":[0', b",1", b"]}"),
    ):
        yield JSON, name, head + item * ((limit - len(head)) // len(item)) + tail
    for field in msgspec.json.schema(declaration.request.body_type).get("$defs", {}).values():
        for name, kind in field.get("properties", {}).items():
            if kind.get("type") == "array":
                key = name.encode()
                for item in (b"{},", b'"",', b'{"groupName":""},', b"0,"):
                    yield JSON, f"{name} of {item.decode()}", b'{"%b":[' % key + item * (limit // len(item) - 8) + b"]}"
    yield NATIVE, "empty arrays", b"\xdd" + (limit - 8).to_bytes(4, "big") + b"\x90" * (limit - 8)
    tiny = b"\x94\xa0\x00\xc4\x00\xc4\x00"
    yield NATIVE, "tiny messages", b"\xdd" + (limit // len(tiny)).to_bytes(4, "big") + tiny * (limit // len(tiny))


def worst(declaration: Declaration) -> tuple[float, str]:
    """Return the CPU milliseconds of the most expensive body, and its name."""
    found = (0.0, "")
    for codec, name, body in bodies(declaration):
        spent: list[int] = []
        for _ in range(TRIES):
            begin = time.process_time_ns()
            try:
                codec_for(codec).decode_request(declaration, Envelope(declaration.code, 1, 0, 0, 0, None, None), body)
            except ProtocolError:
                pass
            spent.append(time.process_time_ns() - begin)
        found = max(found, (min(spent) / 1e6, name))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", help="only this one")
    wanted = parser.parse_args().kind
    for declaration in REQUESTS.values():
        if declaration.request.body_type not in (bytes, Records) and wanted in (None, declaration.name):
            took_ms, name = worst(declaration)
            print(f"{declaration.name:<40} {took_ms:8.1f} ms  {name}")


if __name__ == "__main__":
    main()
