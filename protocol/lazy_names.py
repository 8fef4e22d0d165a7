"""Names of a package that are imported when they are first used (PEP 562).

__getattr__, __dir__ = lazy_names(__name__, __all__, {"Producer": "staticfire.client.produce.producer"})
"""

# Type checkers treat this as true. Importing `typing` for it would take longer than everything else in this module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def lazy_names(
    package: str,
    names: "Iterable[str]",
    home_of: "Mapping[str, str]",
    otherwise: str = "",
    called_here: "Mapping[str, str] | None" = None,
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of a package.

    `home_of`: the module of each name. `otherwise`: the module of all other names. `called_here`: names that people
    know from elsewhere, and the name of the same thing in this package. Importing one raises an error that says so.
    """
    known = frozenset(names)

    def find(name: str) -> object:
        if called_here is not None and name in called_here:
            # An AttributeError would become "cannot import name", without its text.
            raise ImportError(f"{package} has no {name}: it is called {called_here[name]} here", name=package)
        if name not in known:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import sys
        from importlib import import_module

        with CollectionPaused():
            value: object = getattr(import_module(home_of.get(name, otherwise)), name)
        setattr(sys.modules[package], name, value)
        return value

    def all_names() -> list[str]:
        import sys

        return sorted({*vars(sys.modules[package]), *known})

    return find, all_names


class CollectionPaused:
    """Import in a user's process without garbage collection, because all imported objects are kept anyway.

    Afterwards they are in the oldest generation, where the collector rarely looks; otherwise it would look at all of
    them as soon as it is enabled. A program that has paused it, or has frozen objects, is left alone. Where everything
    was imported before, no object is moved: the program's own, which may be garbage soon, would be moved, too.
    """

    def __enter__(self) -> None:
        import gc
        import sys

        self._pauses = gc.isenabled()
        gc.disable()
        self._modules = len(sys.modules)

    def __exit__(self, *_: object) -> None:
        import gc
        import sys

        if self._pauses:
            # In this order: the collector counts frozen objects one by one.
            if len(sys.modules) > self._modules and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # All objects are in the oldest generation then.
            gc.enable()
