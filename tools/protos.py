"""Write proxy/proto/rocketmq_v2_pb2.py and .pyi from rocketmq_v2.proto: `make protos`.

protoc's own Python code isn't used: it puts the messages into the global pool of the process, where RocketMQ's Python
client has messages with the same names, and it requires a protobuf at least as new as protoc. The file written here
contains the same descriptor, and `proxy/proto/messages.py` makes classes of it.
"""

import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "proxy" / "proto"
NAME = "rocketmq_v2"
BYTES_PER_LINE = 24

HEAD = f'''\
"""The messages of package apache.rocketmq.v2. Written by `make protos` from {NAME}.proto: change that one."""

# ruff: noqa
# fmt: off

from staticfire.proxy.proto.messages import add_messages

add_messages(globals(), bytes.fromhex(
'''


def generate() -> dict[Path, str]:
    """Return the text of each generated file. Raises: RuntimeError (protoc prints the reason on stderr)."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        run_protoc(f"-I{FOLDER}", f"--pyi_out={made}", f"--descriptor_set_out={made / 'set'}", f"{NAME}.proto")
        files = FileDescriptorSet.FromString((made / "set").read_bytes())
        stub = (made / f"{NAME}_pb2.pyi").read_text()
    data = files.file[0]
    for message in data.message_type:
        for field in message.field:
            field.ClearField("json_name")  # It is a third of the size, and nothing here uses JSON.
    return {
        FOLDER / f"{NAME}_pb2.py": HEAD + hex_lines(data.SerializeToString(deterministic=True)) + "))\n",
        FOLDER / f"{NAME}_pb2.pyi": typed(stub),
    }


def run_protoc(*arguments: str) -> None:
    """Run the protoc of grpcio-tools. Raises: RuntimeError."""
    from grpc_tools import _protoc_compiler, protoc  # here, since importing it is slow

    include = Path(protoc.__file__).parent / "_proto"
    command = ["protoc", f"-I{include}", *arguments]
    if _protoc_compiler.run_main([each.encode() for each in command]):
        raise RuntimeError(" ".join(command))


def hex_lines(data: bytes) -> str:
    """Return the bytes as lines of string literals in hexadecimal."""
    parts = [data[start : start + BYTES_PER_LINE * 2] for start in range(0, len(data), BYTES_PER_LINE * 2)]
    return "".join(f"    '{part.hex()}'\n" for part in parts)


def typed(stub: str) -> str:
    """Return protoc's type stub, corrected for strict type checkers, with the additional classes of the module."""
    return (
        stub.replace("_Mapping]", "_Mapping[str, object]]")
        + "\nfrom google.protobuf.duration_pb2 import Duration as Duration\n"
        "from google.protobuf.timestamp_pb2 import Timestamp as Timestamp\n"
    )


def main() -> None:
    """Write the files."""
    for path, text in generate().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
