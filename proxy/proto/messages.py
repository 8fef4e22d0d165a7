"""Makes classes for the messages of a proto file, in a descriptor pool of their own.

RocketMQ's Python client registers messages of the same names in protobuf's default pool, and a process may use both.
Unknown fields and unknown values of enumerations in received messages are accepted.
"""

from typing import Any

from google.protobuf import duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message_factory import GetMessageClass

WELL_KNOWN = (duration_pb2, timestamp_pb2)


def add_messages(namespace: dict[str, Any], serialized_file: bytes) -> None:
    """Add the messages, enumerations and top-level values of a serialized proto file to a module's namespace.

    `Timestamp` and `Duration` are added, too: those of `google.protobuf` belong to the default pool and are other
    classes.
    """
    pool = DescriptorPool()
    for module in WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    file = pool.AddSerializedFile(serialized_file)
    namespace["DESCRIPTOR"] = file
    for name in ("Duration", "Timestamp"):
        namespace[name] = GetMessageClass(pool.FindMessageTypeByName(f"google.protobuf.{name}"))
    for name, descriptor in file.message_types_by_name.items():
        namespace[name] = GetMessageClass(descriptor)
    for name, enumeration in file.enum_types_by_name.items():
        namespace[name] = EnumTypeWrapper(enumeration)
        for value in enumeration.values:
            namespace[value.name] = value.number
