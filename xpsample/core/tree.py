"""Trees of arrays: NamedTuples, tuples, lists and dicts, nested; ``None`` is an empty tree.

The same containers are trees in JAX and in torch, so a state needs no registration anywhere. Any other container that a
library treats as a tree, such as an Equinox module, is taken apart by that library.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from xpsample.core.arrays import Tree
from xpsample.core.registry import unpacked


def map(f: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:  # noqa: A001 (used as `tree.map`)
    """Apply `f` to corresponding leaves of trees of one structure."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: map(f, value, *(other[key] for other in rest)) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        children = [map(f, *parts) for parts in zip(tree, *rest, strict=True)]
        return rebuild(tree, children)
    if (own := unpacked(tree)) is not None:
        return own.rebuild([map(f, *parts) for parts in zip(*(_own_leaves(t) for t in (tree, *rest)), strict=True)])
    return f(tree, *rest)


def rebuild(like: Tree, children: list[Tree]) -> Tree:
    """Put `children` into a container of the same type as `like`."""
    if hasattr(like, "_fields"):
        return type(like)(*children)
    return type(like)(children)


def items(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves with their slash-separated paths, in a fixed order."""
    if tree is None:
        return
    if isinstance(tree, dict):
        pairs: Any = sorted(tree.items())
    elif hasattr(tree, "_fields"):
        pairs = zip(tree._fields, tree, strict=True)
    elif isinstance(tree, (tuple, list)):
        pairs = enumerate(tree)
    elif (own := unpacked(tree)) is not None:
        pairs = own.leaves.items()
    else:
        yield prefix, tree
        return
    for key, value in pairs:
        yield from items(value, f"{prefix}/{key}" if prefix else str(key))


def leaves(tree: Tree) -> list[Any]:
    """Leaves of a tree, in the order of `items`."""
    return [leaf for _, leaf in items(tree)]


def fill(template: Tree, values: dict[str, Any], prefix: str = "") -> Tree:
    """A tree of `template`'s structure with the leaves `values[path]`; the inverse of `dict(items(tree))`."""
    if template is None:
        return None

    def child(key: Any, value: Tree) -> Tree:
        return fill(value, values, f"{prefix}/{key}" if prefix else str(key))

    if isinstance(template, dict):
        return {key: child(key, value) for key, value in template.items()}
    if hasattr(template, "_fields"):
        return type(template)(*(child(k, v) for k, v in zip(template._fields, template, strict=True)))
    if isinstance(template, (tuple, list)):
        return type(template)([child(k, v) for k, v in enumerate(template)])
    if (own := unpacked(template)) is not None:
        return own.rebuild([child(path, leaf) for path, leaf in own.leaves.items()])
    return values[prefix]


def _own_leaves(tree: Tree) -> list[Any]:
    """The leaves of a library's own tree, in its order."""
    own = unpacked(tree)
    if own is None:
        raise TypeError(f"trees of one structure are needed; a {type(tree).__name__} stands for a tree of a library")
    return list(own.leaves.values())


def dtype_name(array: Any) -> str:
    """The standard's name of an array's dtype, such as ``float32``, whatever the library."""
    return _name_of(array.dtype)


@lru_cache(maxsize=64, typed=True)  # dtypes of two libraries may have one hash, and some refuse to be compared
def _name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def structure(node: Any) -> Any:
    """The containers of a tree as JSON values, with ``"array"`` at its leaves; TypeError if a key is no text.

    A tree of a library's own is described as a dict of its leaves by their paths.
    """
    if node is None:
        return None
    if isinstance(node, dict):
        if not all(isinstance(key, str) for key in node):
            raise TypeError(f"only text keys can be saved; got {list(node)}")
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
            return namedtuple(name, children)(*[template(child) for child in children.values()])
        case {"tuple": children}:
            return tuple([template(child) for child in children])
        case {"list": children}:
            return [template(child) for child in children]
    return described
