"""Packages whose names are imported when they are first asked for (PEP 562): a run loads what it needs."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def lazily(package: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package, given its globals.

    Its names and their modules stand in its ``__init__.pyi`` and nowhere else, where type checkers find them, too. A
    name that comes from the package itself is a room of it.
    """
    own = package["__name__"]

    @cache
    def homes() -> dict[str, str]:
        from ast import parse

        stub: Any = parse(package["__loader__"].get_data(package["__file__"] + "i").decode())
        names = {alias.name: node.module for node in stub.body for alias in node.names}
        return {name: home for name, home in names.items() if not name.startswith("_")}

    def name_of(name: str) -> Any:
        home = homes().get(name)
        value: Any
        if name == "__all__":
            value = sorted(name for name, home in homes().items() if home != own)
        elif home is None:
            raise AttributeError(f"module {own!r} has no attribute {name!r}")
        else:
            value = import_module(f"{home}.{name}") if home == own else getattr(import_module(home), name)
        package[name] = value
        return value

    return name_of, lambda: [*name_of("__all__"), *(["__version__"] if "__version__" in package else [])]
