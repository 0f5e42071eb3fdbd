"""What identifies a run: the same in every process, other where the draws may be."""

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial, wraps

import numpy as np
import pytest

from xpsample.run.identity import describe, differences, environment

LINES = (
    "lambda x: x in {'a', 'b', 'c', 'd'}",
    "partial(max, 1, key=abs)",
    "[len, object(), print, {'a': (1.0, None), 'b': [np.arange(3)]}, np.float32(2), float('nan')]",
    "(lambda xs: lambda x: x + xs)([1, 2, 3])",
)


def test_the_same_in_another_process():
    """Whatever the order of sets, and the addresses of objects, are there."""
    code = "import json, sys, numpy as np; from functools import partial; from xpsample.run.identity import describe\n"
    code += "print(json.dumps([describe(eval(line)) for line in sys.argv[1:]]))"
    done = subprocess.run([sys.executable, "-c", code, *LINES], capture_output=True, text=True, check=True)
    here = [describe(eval(line)) for line in LINES]
    assert json.dumps(here) == done.stdout.strip()


def test_a_number_of_numpys_is_that_of_an_array_without_axes():
    """A state that was saved comes back in arrays; what is made of it is the same."""
    for number in (0.1, np.float32(0.1), 3, np.int64(3), True):
        assert describe(np.asarray(number)) == describe(np.asarray(number)[()]) == np.asarray(number).item()


def test_a_function_that_changes_what_it_encloses_stays_itself():
    calls = []

    def count(x):
        """One."""
        calls.append(x)
        return count(x) if x > 9 else x

    before = describe(count)
    count(1)
    assert describe(count) == before


def test_a_function_in_a_dataclass_that_it_encloses():
    @dataclass
    class Holder:
        function: object

    holder = Holder(None)
    holder.function = lambda x: holder
    assert describe(holder)["function"].startswith("test_a_function_in")
    assert describe(holder.function) == describe(holder.function)


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def times(self, x):
        return self.factor * x


@dataclass(frozen=True)
class Frozen:
    factor: float

    def times(self, x):
        return self.factor * x


def compiled(function):
    class Compiled:
        __wrapped__ = staticmethod(function)

        def __call__(self, x):
            return function(x)

    return Compiled()


def scaled(factor):
    @wraps(abs)
    def inner(x):
        return factor * x

    return inner


@pytest.mark.parametrize(
    "make",
    [scaled, lambda factor: Frozen(factor).times, lambda factor: compiled(scaled(factor)), lambda f: partial(pow, f)],
)
def test_functions_differ_by_what_they_hold(make):
    assert describe(make(1.0)) == describe(make(1.0)) != describe(make(2.0))


def test_what_cannot_be_told_apart():
    """The page on runs says so."""
    assert describe(Scale(1.0).times) == describe(Scale(2.0).times)


def test_differences_name_the_place():
    one = {"type": "A", "x": {"type": "B", "y": 1}, "z": float("nan")}
    assert differences(one, json.loads(json.dumps(one))) == []
    assert differences(one, {**one, "x": {"type": "B", "y": 2}}) == ["x y: 1 there, 2 here"]
    assert differences(one, {**one, "x": {"type": "C", "y": 1}}) == ["x: B there, C here"]
    assert differences(one, {"type": "A", "x": one["x"]}) == ["z: nan there, None here"]


def test_the_environment(library):
    found = environment(library.array(np.zeros((2, 1))))
    assert found[library.backend.name] != "unknown" and len(found["devices"]) == 1
    assert ":" not in found["devices"][0]
