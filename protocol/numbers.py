"""The two kinds of numbers that commands have: Java's int and long.

They are written into every field that is decoded, so a number beyond its range is refused where it comes in, whatever
the codec: JSON has no limits, and msgpack's and the record's fields have. What got in would otherwise be kept, over a
restart, too, and break whoever has to be told it.
"""

from typing import Annotated

import msgspec

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
LogPosition = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
"""In files of ours."""
