"""Trees of arrays: mapping, paths, and filling a template are inverses of each other."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given

from xpsample.core import tree
from xpsample.core.registry import unpacked
from xpsample.core.tree import structure, template


class Pair(NamedTuple):
    left: Any
    right: Any


KEYS = st.text("abc", min_size=1, max_size=3)
LEAVES = st.integers() | st.floats(allow_nan=False)
TREES = st.recursive(
    LEAVES | st.none(),
    lambda children: (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(KEYS, children, max_size=3)
        | st.builds(Pair, children, children)
    ),
    max_leaves=12,
)


def same(a, b):
    """Equal, and of the same containers all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@given(TREES)
def test_items_fill_a_tree_and_map_visits_every_leaf_once(value):
    items = list(tree.items(value))
    assert same(tree.fill(value, dict(items)), value)
    assert len({path for path, _ in items}) == len(items)
    assert tree.leaves(value) == [leaf for _, leaf in items]
    seen = []
    assert same(tree.map(lambda leaf: seen.append(leaf) or leaf, value), value)
    assert sorted(map(repr, seen)) == sorted(map(repr, tree.leaves(value)))
    assert same(tree.map(lambda a, b: a + b, value, value), tree.map(lambda a: a + a, value))


def test_paths_are_names_and_places_joined_by_slashes():
    """In an order that is not a dictionary's; None is a tree without leaves."""
    value = {"b": Pair(1, [2, (3,)]), "a": None, "c": 4}
    assert list(tree.items(value)) == [("b/left", 1), ("b/right/0", 2), ("b/right/1/0", 3), ("c", 4)]
    assert list(tree.items({"a": 1, "b": 2})) == list(tree.items({"b": 2, "a": 1}))
    assert tree.leaves(None) == [] and tree.map(lambda a: a + 1, (None, 1)) == (None, 2)


def test_trees_that_do_not_fit_are_errors():
    with pytest.raises(ValueError, match=r"longer|shorter"):
        tree.map(lambda a, b: a, (1, 2), (1, 2, 3))
    with pytest.raises(KeyError, match="b/0"):
        tree.fill({"b": [1]}, {})


def test_dtype_names_are_the_standards(library):
    for name in ("float32", "float64", "int32", "bool"):
        assert tree.dtype_name(library.array([1], name)) == name


@pytest.fixture
def of_library():
    """A tree of our containers with one of JAX's own inside: a registered class, whose name is no leaf."""
    jax = pytest.importorskip("jax")

    @partial(jax.tree_util.register_dataclass, data_fields=("inner", "leaf"), meta_fields=("name",))
    @dataclass
    class Layer:
        inner: Any
        leaf: Any
        name: str

    return {"b": Layer({"z": [1.0, None], "a": 2.0}, 3.0, "first"), "a": (4.0,)}


def test_trees_of_a_library_are_taken_apart_by_it(of_library):
    paths = {"a/0": 4.0, "b/inner/a": 2.0, "b/inner/z/0": 1.0, "b/leaf": 3.0}
    assert dict(tree.items(of_library)) == paths
    assert tree.fill(of_library, paths) == of_library
    doubled = tree.map(lambda a, b: a + b, of_library, of_library)
    assert doubled["b"].inner == {"z": [2.0, None], "a": 4.0} and doubled["b"].name == "first"
    assert tree.fill(template(structure(of_library)), paths)["b"] == {"inner/a": 2.0, "inner/z/0": 1.0, "leaf": 3.0}


def test_another_structure_is_an_error(of_library):
    with pytest.raises(TypeError, match="trees of one structure are needed"):
        tree.map(lambda a, b: a, of_library, {"a": (1.0,), "b": 2.0})


@pytest.mark.parametrize("value", [None, {"a": 1.0}, [1.0], (1.0,), Pair(1.0, 2.0), 1.0, "text", len])
def test_our_containers_are_nobody_elses(value, of_library):
    """Though libraries take them as trees, too: what is saved of them must not change once a library is imported."""
    assert unpacked(of_library["b"]) is not None
    assert unpacked(value) is None
