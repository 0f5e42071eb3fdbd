"""Trees of arrays without their arrays, as JSON values."""

from collections import namedtuple
from typing import Any

from xpsample.core.registry import unpacked


def structure(node: Any) -> Any:
    """The containers of a tree as JSON values, with ``"array"`` at its leaves; TypeError if a key is no text.

    A tree of a library's own is described as a dict of its leaves by their paths.
    """
    if node is None:
        return None
    if isinstance(node, dict):
        if not all(isinstance(key, str) for key in node):
            raise TypeError(f"only text keys can be saved, not those of {list(node)}")
        return {"dict": {key: structure(child) for key, child in node.items()}}
    if hasattr(node, "_fields"):
        return {
            "namedtuple": type(node).__name__,
            "fields": {f: structure(getattr(node, f)) for f in node._fields},
        }
    if isinstance(node, (tuple, list)):
        return {"tuple" if isinstance(node, tuple) else "list": [structure(child) for child in node]}
    if (own := unpacked(node)) is not None:
        return {"dict": dict.fromkeys(own.leaves, "array")}
    return "array"


def template(described: Any) -> Any:
    """The tree that `structure` described, with placeholders at its leaves."""
    match described:
        case {"dict": children}:
            return {key: template(child) for key, child in children.items()}
        case {"namedtuple": name, "fields": children}:
            return namedtuple(name, children)(*map(template, children.values()))
        case {"tuple": children}:
            return tuple(map(template, children))
        case {"list": children}:
            return list(map(template, children))
    return described
