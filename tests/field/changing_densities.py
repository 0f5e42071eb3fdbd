"""Ways in which what a density reads can change between two runs (numpyro#441)."""

import contextvars
import functools
import sys
import types

import numpy as np

import xpsample as xps
from xpsample.core.registry import backend_of

BEFORE, AFTER = 1.0, 5.0

centre = BEFORE
"""What densities below read as a global."""

elsewhere = types.ModuleType("elsewhere_of_field")
sys.modules[elsewhere.__name__] = elsewhere

context = contextvars.ContextVar("context", default=BEFORE)


def bowl(x, mode):
    return -2.0 * ((x - mode) ** 2).sum(-1)


def fixed(x):
    """The density that each way becomes."""
    return bowl(x, AFTER)


def set_centre(value=AFTER):
    global centre
    centre = value


def read():
    return centre


def by_global(x):
    return bowl(x, centre)


class Holder:
    def __init__(self, value):
        self.own = value

    def method(self, x):
        return bowl(x, self.own)

    __call__ = method


def array_of(x, values):
    return backend_of(x).xp.asarray(values, dtype=x.dtype)


# ---- ways of changing: each returns a density with its mode at BEFORE, and what moves the mode to AFTER --------------


def variable_around():
    mode = BEFORE

    def change():
        nonlocal mode
        mode = AFTER

    return lambda x: bowl(x, mode), change


def default():
    def density(x, mode=BEFORE):
        return bowl(x, mode)

    return density, lambda: setattr(density, "__defaults__", (AFTER,))


def keyword_default():
    def density(x, *, mode=BEFORE):
        return bowl(x, mode)

    return density, lambda: density.__kwdefaults__.update(mode=AFTER)


def attribute_of_the_function():
    def density(x):
        return bowl(x, density.mode)

    density.mode = BEFORE
    return density, lambda: setattr(density, "mode", AFTER)


def code():
    def density(x):
        return bowl(x, BEFORE)

    return density, lambda: setattr(density, "__code__", fixed.__code__)


def function_of_another_module():
    elsewhere.density = lambda x: bowl(x, BEFORE)
    return lambda x: elsewhere.density(x), lambda: setattr(elsewhere, "density", fixed)


def attribute_of_an_attribute():
    holder = Holder(Holder(BEFORE))
    return lambda x: bowl(x, holder.own.own), lambda: setattr(holder.own, "own", AFTER)


def attribute(call):
    holder = Holder(BEFORE)
    return call(holder), lambda: setattr(holder, "own", AFTER)


def attribute_of_the_class():
    class Own(Holder):
        own = BEFORE

        def __init__(self): ...

    return Own().method, lambda: setattr(Own, "own", AFTER)


def item_of_a_list():
    modes = [BEFORE]
    return lambda x: bowl(x, modes[0]), lambda: modes.__setitem__(0, AFTER)


def argument_of_a_partial():
    modes = {"mode": BEFORE}
    return functools.partial(lambda modes, x: bowl(x, modes["mode"]), modes), lambda: modes.update(mode=AFTER)


def array_in_place(dtype):
    modes = np.full(2, BEFORE, dtype=dtype)
    return lambda x: bowl(x, array_of(x, modes)), lambda: modes.fill(AFTER)


WAYS = {
    "a global": lambda: (by_global, set_centre),
    "of a function that is called": lambda: (lambda x: bowl(x, read()), set_centre),
    "a function of another module": function_of_another_module,
    "a variable around": variable_around,
    "a default": default,
    "a keyword default": keyword_default,
    "an attribute of the function": attribute_of_the_function,
    "an attribute behind a method": lambda: attribute(lambda holder: holder.method),
    "an attribute of a callable": lambda: attribute(lambda holder: holder),
    "an attribute of an attribute": attribute_of_an_attribute,
    "a class": attribute_of_the_class,
    "an item of a list": item_of_a_list,
    "an argument of a partial": argument_of_a_partial,
    "lifted": lambda: (xps.batched(by_global), set_centre),
    "a context variable": lambda: (lambda x: bowl(x, context.get()), lambda: context.set(AFTER)),
    "code": code,
    "float32 in place": lambda: array_in_place("float32"),
    "float64 in place": lambda: array_in_place("float64"),
}
