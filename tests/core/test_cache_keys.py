"""Kernels as keys of compiled programs: equal where they are made of the same, and nowhere else."""

from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpsample as xps
from xpsample.core.cache_keys import by_value
from xpsample.kernels import DMALA, GWG, HMC, MALA, RWM, Kernel, ParallelTempering
from xpsample.spaces import Binary
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Capability, Untilted

ARRAY = np.asarray([1.0, 2.0, 3.0])


def square(t):
    return t * t


MAKERS = {
    "RWM": lambda: RWM(0.5),
    "MALA": lambda: MALA(0.1, preconditioner=ARRAY),
    "HMC": lambda: HMC(0.1, 10, mass=ARRAY),
    "SR-HMC": lambda: SRMC(HMC(0.1, 10), alpha=0.5, schedule=PowerLaw(0.8), tilt=Untilted()),
    "PT": lambda: ParallelTempering(MALA(0.1), (1.0, 0.5)),
    "recorders": lambda: (xps.Draws(), xps.Record("square", square)),
}


class Own(float):
    """Shown as its value, like NumPy's numbers before version 2."""


class Pair(NamedTuple):
    first: object
    second: object


@dataclass(frozen=True)
class Frozen:
    value: object
    derived: object = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "derived", object())


class More(Frozen):
    """Not a dataclass of its own: what it holds beside the fields does not show."""


@dataclass
class Changeable:
    value: object


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_made_of_the_same_is_equal(make):
    assert by_value(make()) == by_value(make())
    assert hash(by_value(make())) == hash(by_value(make()))


DIFFERENT = {
    "step sizes": (MALA(0.1), MALA(0.2)),
    "the last bit": (MALA(0.1), MALA(np.nextafter(0.1, 1.0).item())),
    "types": (MALA(1), MALA(1.0)),
    "NumPy's types": (Frozen(np.float32(0.5)), Frozen(np.float64(0.5))),
    "types of one's own": (Frozen(Own(0.5)), Frozen(0.5)),
    "truth and number": ((True,), (1,)),
    "signs of zero": ((0.0,), (-0.0,)),
    "classes": (GWG(), DMALA(0.5)),
    "arrays of equal values": (MALA(0.1, preconditioner=ARRAY), MALA(0.1, preconditioner=ARRAY.copy())),
    "functions of equal text": (Frozen(lambda t: t), Frozen(lambda t: t)),
    "inside": (SRMC(HMC(0.1, 10), alpha=0.5), SRMC(HMC(0.1, 11), alpha=0.5)),
    "outside": (SRMC(HMC(0.1, 10), alpha=0.5), SRMC(HMC(0.1, 10), alpha=0.4)),
    "settings of settings": (PowerLaw(0.8), PowerLaw(0.9)),
    "what can change": (Frozen(Changeable(1)), Frozen(Changeable(1))),
    "what holds more than fields": (More(1), More(1)),
    "lists, which can change": (Frozen([1]), Frozen([1])),
    "kinds of tuple": (Pair(1, 2), (1, 2)),
    "lengths": ((1, 2), (1,)),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_what_is_not_is_different(pair):
    a, b = pair
    assert by_value(a) != by_value(b)
    assert by_value(a) == by_value(a)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.tuples(inner, inner) | st.builds(Frozen, inner) | st.builds(Pair, inner, inner),
        max_leaves=8,
    )
)
def test_equal_keys_are_equal_representations(value):
    """Of such values, whose representation tells all about them, NaN included."""
    assert by_value(value) == by_value(value)
    assert by_value(value) != by_value((value,))
    assert (by_value(value) == by_value(Frozen(value))) is False


SCALE = 1.0


def scaled(t):
    return SCALE * t


def scaled_twice(t):
    return [scaled(s) for s in t]


def countdown(n):
    return countdown(n - 1) if n else 0


class Model:
    def __init__(self):
        self.scale = 1.0

    def scaled(self, t):
        return self.scale * t


def assert_changes(function, change):
    before = by_value(function)
    assert by_value(function) == before
    change()
    assert by_value(function) != before


def test_variables_around_a_function_are_a_part_of_its_key():
    scale, numbers, settings = 1.0, np.ones(3), {"scale": 1.0}

    def rescale():
        nonlocal scale
        scale += 1.0

    def inner(t):
        return scale * t

    assert_changes(inner, rescale)
    assert_changes(lambda t: inner(t), rescale)
    assert_changes(partial(inner, 3.0), rescale)
    assert_changes(Frozen(inner), rescale)
    assert_changes(lambda t: numbers * t, lambda: numbers.fill(2.0))
    assert_changes(lambda t: settings["scale"] * t, lambda: settings.update(scale=2.0))


@pytest.mark.parametrize("function", [scaled, scaled_twice], ids=["named", "named by a function that is named"])
def test_globals_that_a_function_names_are_a_part_of_its_key(function, monkeypatch):
    assert_changes(function, lambda: monkeypatch.setitem(globals(), "SCALE", 2.0))


def test_attributes_of_an_object_are_a_part_of_the_key_of_its_methods():
    model, other = Model(), Model()
    assert by_value(model.scaled) == by_value(model.scaled) != by_value(other.scaled)
    assert_changes(model.scaled, lambda: setattr(model, "scale", 2.0))


def test_functions_that_name_themselves_have_a_key():
    assert by_value(countdown) == by_value(countdown) != by_value(square)


def test_functions_of_other_modules_are_not_looked_into(monkeypatch):
    elsewhere = FunctionType(scaled.__code__, {"SCALE": 1.0})
    monkeypatch.setitem(globals(), "scaled", elsewhere)
    before = by_value(scaled_twice)
    elsewhere.__globals__["SCALE"] = 2.0
    assert by_value(scaled_twice) == before


def test_large_arrays_are_compared_by_identity(monkeypatch):
    numbers = np.ones(3)
    monkeypatch.setattr("xpsample.core.cache_keys.LARGEST", 16)
    before = by_value(numbers)
    numbers[0] = 2.0
    assert by_value(numbers) == before != by_value(numbers.copy())


def test_a_key_holds_what_it_compares_by_identity():
    """Else an array could take the place of one that is gone, and a program of other numbers be run."""
    key = by_value(MALA(0.1, preconditioner=ARRAY.copy()))
    for _ in range(100):
        assert key != by_value(MALA(0.1, preconditioner=ARRAY.copy()))


@pytest.mark.parametrize("discrete", [False, True])
def test_chains_of_equal_kernels_are_the_same(library, discrete):
    """Of runs long enough for a driver to prepare a program."""
    if discrete:
        x, space = library.array(np.zeros((4, 3))), Binary()
        kernels = [DMALA(0.5), DMALA(0.5), DMALA(0.3)]
    else:
        x, space = library.array(np.ones((4, 3))), xps.spaces.Real()
        kernels = [SRMC(MALA(0.1), alpha=0.5), SRMC(MALA(0.1), alpha=0.5), SRMC(MALA(0.2), alpha=0.5)]

    def target():
        return xps.Target(
            lambda x: -0.5 * library.xp.sum(x * x, axis=-1), score=lambda x: -x, hvp=lambda x, v: -v, space=space
        )

    def draws(target, kernel):
        run = xps.sample(target, kernel, x, 300, seed=xps.Portable(1), progress=False)
        return library.host(run.draws)

    one = target()
    for kernel in kernels:
        np.testing.assert_array_equal(draws(one, kernel), draws(target(), kernel))


def test_a_kernel_of_ones_own_that_is_no_dataclass_is_compared_by_identity():
    class Bare(Kernel):
        requires = Capability.NONE

        def init(self, target, x): ...

        def noise(self, x): ...

        def step(self, target, state, noise): ...

    one = Bare()
    assert by_value(one) == by_value(one) != by_value(Bare())
