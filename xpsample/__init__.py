"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

from functools import cache
from importlib import import_module

from xpsample.core.version import __version__ as __version__


@cache
def _homes():
    """The names that a user types and the modules that they come from; ``xpsample`` itself for a room.

    They stand in ``__init__.pyi`` and nowhere else, where type checkers find them, too.
    """
    from ast import parse
    from importlib.resources import files

    stub = parse(files(__name__).joinpath("__init__.pyi").read_text(encoding="utf-8"))
    return {alias.name: node.module for node in stub.body for alias in node.names if alias.name != "__version__"}


def __getattr__(name):
    """A name or a room, imported when it is first asked for: the root itself imports nothing (PEP 562)."""
    home = _homes().get(name)
    if name == "__all__":
        value = sorted(name for name, home in _homes().items() if home != __name__)
    elif home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__():
    """What a user types, and nothing else."""
    return [*__getattr__("__all__"), "__version__"]
