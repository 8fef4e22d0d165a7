"""Apply fastjson's lenient conversions into classes to plain values, before msgspec converts them.

A null for a field that can't be null counts as absent. An object key becomes the Struct of the key's type. A number or
a boolean becomes text if text is expected. Enums are given by name. Unknown fields are dropped. A `Shaper` passes on
what doesn't fit, and msgspec refuses it with the path. Only object keys are converted here, and so may be refused here.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

from staticfire.protocol.fastjson_reader import ObjectKey

Shaper = Callable[[Any], Any]

_ARRAYS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType, inspect.CollectionType)


class ShaperBuilder:
    """Makes the shapers of a type and of its parts. `open_ended`: whether one of them accepts any value."""

    def __init__(self) -> None:
        self._structs: dict[Any, Shaper] = {}
        self.open_ended = False

    def shaper(self, kind: inspect.Type) -> Shaper:
        """Return the function that makes a plain value acceptable for `kind`."""
        if isinstance(kind, inspect.Metadata):
            return self.shaper(kind.type)
        if isinstance(kind, inspect.StructType):
            return self._struct(kind)
        if isinstance(kind, inspect.DictType):
            return self._dict(kind)
        if isinstance(kind, _ARRAYS):
            return _shape_array(self.shaper(kind.item_type))
        if isinstance(kind, inspect.UnionType):
            shapers = [self.shaper(member) for member in kind.types if not isinstance(member, inspect.NoneType)]
            return _unless_none(shapers[0]) if len(shapers) == 1 else _unchanged
        if isinstance(kind, inspect.EnumType):
            return _shape_enum(kind.cls)
        self.open_ended |= isinstance(kind, inspect.AnyType | inspect.RawType)
        return _shape_text if isinstance(kind, inspect.StrType) else _unchanged

    def _struct(self, kind: inspect.StructType) -> Shaper:
        if kind.cls in self._structs:
            return self._structs[kind.cls]
        fields: list[tuple[str, bool, Shaper]] = []

        def shape(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            found = ((name, nullable, inner, value[name]) for name, nullable, inner in fields if name in value)
            return {name: inner(item) for name, nullable, inner, item in found if nullable or item is not None}

        # It is set before the fields, because a type may contain itself.
        self._structs[kind.cls] = shape
        fields += [(field.encode_name, _takes_none(field.type), self.shaper(field.type)) for field in kind.fields]
        return shape

    def _dict(self, kind: inspect.DictType) -> Shaper:
        shape_key = _shape_key(kind.key_type, self.shaper(kind.key_type))
        shape_item, nullable = self.shaper(kind.value_type), _takes_none(kind.value_type)

        def shape(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            return {shape_key(key): shape_item(item) for key, item in value.items() if nullable or item is not None}

        return shape


def _unchanged(value: Any) -> Any:
    return value


def _takes_none(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _takes_none(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(map(_takes_none, kind.types))
    return isinstance(kind, inspect.NoneType | inspect.AnyType | inspect.RawType)


def _unless_none(shape: Shaper) -> Shaper:
    return lambda value: None if value is None else shape(value)


def _shape_array(shape_item: Shaper) -> Shaper:
    return lambda value: [shape_item(item) for item in value] if isinstance(value, list) else value


def _shape_enum(members: Any) -> Shaper:
    values = {name: member.value for name, member in members.__members__.items()}
    return lambda value: values.get(value, value) if isinstance(value, str) else value


def _shape_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _shape_key(kind: inspect.Type, shape: Shaper) -> Shaper:
    if not isinstance(kind, inspect.StructType):
        return shape

    def shape_object(key: Any) -> Any:
        return msgspec.convert(shape(key.as_dict()), kind.cls, strict=False) if isinstance(key, ObjectKey) else key

    return shape_object
