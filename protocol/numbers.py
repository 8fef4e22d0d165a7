"""The two kinds of integers in commands: Java's int and long.

Every decoded field has one of these types, so a number out of range is refused when it arrives, with any codec: JSON
has no limits, but msgpack and the fields of a record have. Otherwise the number would be stored, survive a restart, and
break each response that must contain it.
"""

from typing import Annotated

import msgspec

from staticfire.protocol.limits import INT32_MAX, INT64_MAX as INT64_MAX

INT32_MIN, INT64_MIN = -(2**31), -(2**63)

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
LogPosition = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
"""Used in our own files."""
