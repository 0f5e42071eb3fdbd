"""The one walk that says whether two values are the same: for checkpoints as JSON, for compiled programs as a key."""

import enum
import json
import logging
import re
import subprocess
import sys
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial, wraps
from types import FunctionType, ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpsample as xps
from xpsample.core.same import DEEP, LONG, describe, differences, key
from xpsample.kernels import DMALA, GWG, HMC, MALA, RWM, Kernel, ParallelTempering
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Capability, Untilted

ARRAY = np.asarray([1.0, 2.0, 3.0])


def square(t):
    return t * t


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
    """Not a dataclass of its own: what it holds beside the fields counts, too."""


@dataclass
class Changeable:
    value: object


SAME = {
    "RWM": lambda: RWM(0.5),
    "MALA": lambda: MALA(0.1, preconditioner=ARRAY.copy()),
    "HMC": lambda: HMC(0.1, 10, mass=ARRAY),
    "SR-HMC": lambda: SRMC(HMC(0.1, 10), alpha=0.5, schedule=PowerLaw(0.8), tilt=Untilted()),
    "PT": lambda: ParallelTempering(MALA(0.1), (1.0, 0.5)),
    "recorders": lambda: (xps.Draws(), xps.Record("square", square)),
    "functions of equal text": lambda: Frozen(lambda t: t),
    "what can change": lambda: Frozen(Changeable(1)),
    "lists": lambda: Frozen([1, 2]),
    "objects of a class of one's own": lambda: Model(),
    "an array of a column and of a row": lambda: np.asarray([[1.0, 2.0], [3.0, 4.0]]).T.copy().T,
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_what_is_made_of_the_same_is_equal(make):
    assert key(make()) == key(make()) and hash(key(make())) == hash(key(make()))
    assert describe(make()) == describe(make())


DIFFERENT = {
    "step sizes": (MALA(0.1), MALA(0.2)),
    "the last bit": (MALA(0.1), MALA(np.nextafter(0.1, 1.0).item())),
    "types": (MALA(1), MALA(1.0)),
    "NumPy's types": (Frozen(np.float32(0.5)), Frozen(np.float64(0.5))),
    "types of one's own": (Frozen(Own(0.5)), Frozen(0.5)),
    "truth and number": ((True,), (1,)),
    "signs of zero": ((0.0,), (-0.0,)),
    "texts and numbers as names": ({"1": 0}, {1: 0}),
    "classes": (GWG(), DMALA(0.5)),
    "arrays": (MALA(0.1, preconditioner=ARRAY), MALA(0.1, preconditioner=ARRAY + 1)),
    "dtypes of arrays": (np.zeros(2, np.float32), np.zeros(1, np.float64)),
    "dtypes of equal bytes": (np.zeros(2, np.int32), np.zeros(2, np.float32)),
    "dtypes of numbers": (np.asarray(1.0, np.float32), np.asarray(1.0)),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "masks": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])),
    "arrays of objects": (np.asarray([1, "a"], object), np.asarray([1, "b"], object)),
    "inside": (SRMC(HMC(0.1, 10), alpha=0.5), SRMC(HMC(0.1, 11), alpha=0.5)),
    "outside": (SRMC(HMC(0.1, 10), alpha=0.5), SRMC(HMC(0.1, 10), alpha=0.4)),
    "settings of settings": (PowerLaw(0.8), PowerLaw(0.9)),
    "what can change": (Frozen(Changeable(1)), Frozen(Changeable(2))),
    "kinds of sequence": ((1, 2), [1, 2]),
    "kinds of tuple": (Pair(1, 2), (1, 2)),
    "lengths": ((1, 2), (1,)),
    "sets": ({1, 2}, {1, 3}),
    "complex numbers": (1j, 2j),
    "bytes": (b"a", b"b"),
    "ordered": (OrderedDict(a=1), OrderedDict(a=2)),
    "defaults of a dict": (defaultdict(list), defaultdict(dict)),
    "a type as a name": ({"type": 1}, {"type": 2}),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_what_is_not_is_different(pair):
    a, b = pair
    assert key(a) != key(b) and differences(describe(a), describe(b))
    assert key(a) == key(a) and describe(a) == describe(a)


def test_what_is_beside_the_fields_counts_where_the_class_is_no_dataclass_of_its_own():
    one, other = More(1), More(1)
    object.__setattr__(other, "derived", one.derived)
    object.__setattr__(one, "scale", 1.0)
    object.__setattr__(other, "scale", 2.0)
    assert key(one) != key(other)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.tuples(inner, inner) | st.builds(Frozen, inner) | st.builds(Pair, inner, inner),
        max_leaves=8,
    )
)
def test_equal_keys_are_equal_representations(value):
    """Of such values, whose representation tells all about them, NaN included."""
    assert key(value) == key(value)
    assert key(value) != key((value,))
    assert (key(value) == key(Frozen(value))) is False


# ---- functions ---------------------------------------------------------------------------------------------------

SCALE, NUMBERS, OTHERS = 1.0, np.ones(3), {"scale": 1.0}
SETTINGS = SimpleNamespace(scale=1.0)
OWN = ModuleType("a_module_of_the_users")
OWN.scale, OWN.inner, OWN.unread = 1.0, ModuleType("within_it"), 1.0
OWN.inner.scale = 1.0


def scaled(t):
    return SCALE * t


def scaled_twice(t):
    return [scaled(s) for s in t]


def countdown(n):
    return countdown(n - 1) if n else 0


def one(n):
    return other(n)


def other(n):
    return SCALE * one(n)


def keyword_only(t, *, scale=1.0):
    return scale * t


def default(t, scale=1.0):
    return scale * t


def attribute(t):
    return attribute.scale * t


attribute.scale = 1.0


def imports(t):
    import a_module_of_the_users

    return a_module_of_the_users.scale * t


class Model:
    power = 1.0

    def __init__(self):
        self.scale, self.calls = 1.0, 0

    def scaled(self, t):
        return self.inner(t) * self.scale

    def inner(self, t):
        return t**self.power

    @property
    def twice(self):
        return 2 * self.scale

    @cached_property
    def slow(self):
        return 3.0


MODEL = Model()

CHANGES = {
    "a global": (scaled, lambda put: put(globals(), "SCALE", 2.0)),
    "a global of a function that is called": (scaled_twice, lambda put: put(globals(), "SCALE", 2.0)),
    "a global of functions that call each other": (one, lambda put: put(globals(), "SCALE", 2.0)),
    "a function that is called": (scaled_twice, lambda put: put(globals(), "scaled", square)),
    "a type of number": (scaled, lambda put: put(globals(), "SCALE", 1)),
    "an array in place": (lambda t: NUMBERS * t, lambda put: NUMBERS.__setitem__(0, 2.0)),
    "an entry": (lambda t: OTHERS["scale"] * t, lambda put: put(OTHERS, "scale", 2.0)),
    "an attribute": (lambda t: SETTINGS.scale * t, lambda put: put(vars(SETTINGS), "scale", 2.0)),
    "an attribute of a module": (lambda t: OWN.scale * t, lambda put: put(vars(OWN), "scale", 2.0)),
    "an attribute of a module in it": (lambda t: OWN.inner.scale * t, lambda put: put(vars(OWN.inner), "scale", 2.0)),
    "a module by name": (lambda t: getattr(OWN, "sc" + "ale") * t, lambda put: put(vars(OWN), "scale", 2.0)),
    "a module that is imported within": (imports, lambda put: put(vars(OWN), "scale", 2.0)),
    "a keyword-only default": (keyword_only, lambda put: keyword_only.__kwdefaults__.update(scale=2.0)),
    "a default": (default, lambda put: setattr(default, "__defaults__", (2.0,))),
    "a function's own attribute": (attribute, lambda put: setattr(attribute, "scale", 2.0)),
    "an object of a method": (MODEL.scaled, lambda put: put(vars(MODEL), "scale", 2.0)),
    "an object": (lambda t: MODEL.scaled(t), lambda put: put(vars(MODEL), "scale", 2.0)),
    "a class": (lambda t: MODEL.scaled(t), lambda put: setattr(Model, "power", 2.0)),
    "a method that a method calls": (MODEL.scaled, lambda put: setattr(Model, "inner", lambda self, t: t)),
    "a property": (lambda t: MODEL.twice, lambda put: setattr(Model, "twice", property(lambda self: 3 * self.scale))),
    "behind a cache": (lru_cache(lambda t: SCALE * t), lambda put: put(globals(), "SCALE", 2.0)),
    "in a partial": (partial(lambda s, t: SCALE * t, 3.0), lambda put: put(globals(), "SCALE", 2.0)),
    "in a function within": (lambda t: [(lambda s: SCALE * s)(s) for s in t], lambda put: put(globals(), "SCALE", 2.0)),
    "behind batched": (xps.batched(lambda t: SCALE * t), lambda put: put(globals(), "SCALE", 2.0)),
    "behind vectorize": (np.vectorize(scaled), lambda put: put(globals(), "SCALE", 2.0)),
    "in a target": (xps.Target(scaled), lambda put: put(globals(), "SCALE", 2.0)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_all_that_a_function_reads_is_a_part_of_it(name, monkeypatch):
    function, change = CHANGES[name]
    monkeypatch.setitem(sys.modules, OWN.__name__, OWN)
    before, known = describe(function), key(function)
    assert describe(function) == before and key(function) == known
    saved = dict(vars(Model)), attribute.scale, default.__defaults__, NUMBERS.copy(), dict(keyword_only.__kwdefaults__)
    try:
        change(monkeypatch.setitem)
        assert differences(before, describe(function)) and key(function) != known
    finally:
        for member in ("power", "inner", "twice"):
            setattr(Model, member, saved[0][member])
        attribute.scale, default.__defaults__, NUMBERS[:] = saved[1:4]
        keyword_only.__kwdefaults__.update(saved[4])
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, OWN.__name__, OWN)
    assert describe(function) == before and key(function) == known


def test_variables_around_a_function_are_a_part_of_it():
    scale, function = 1.0, lambda t: scale * t
    before = describe(function)
    scale = 2.0
    assert differences(before, describe(function)) == ["reads scale: 1.0 there, 2.0 here"]


CODES = {
    "constants": (lambda t: t * 1.0, lambda t: t * 1000.0),
    "constants of functions within": (lambda t: [s * 1.0 for s in t], lambda t: [s * 2.0 for s in t]),
    "signs of constants": (lambda t: t * 0.0, lambda t: t * -0.0),
    "types of constants": (lambda t: t * 1, lambda t: t * 1.0),
    "the order of constants": (lambda t: (t, None, 1.0), lambda t: (t, 1.0, None)),
    "sets of constants": (lambda t: t in {1, 2}, lambda t: t in {1, 3}),
    "operations": (lambda t: t + 1, lambda t: t - 1),
    "names that are called": (lambda t: np.exp(t), lambda t: np.log(t)),
    "methods that are called": (lambda t: t.min(), lambda t: t.max()),
    "builtins": (lambda t: min(t), lambda t: max(t)),
    "methods of one object": (MODEL.scaled, MODEL.inner),
    "order of arguments": (lambda s, t: s - t, lambda t, s: s - t),
}


@pytest.mark.parametrize("pair", CODES.values(), ids=CODES)
def test_codes_that_do_something_else(pair):
    a, b = pair
    assert key(a) != key(b) and differences(describe(a), describe(b))


def test_a_description_says_what_the_constants_were():
    a, b = CODES["constants"]
    assert differences(describe(a), describe(b)) == ["constants: ['None', '1.0'] there, ['None', '1000.0'] here"]


def compiled(function):
    class Compiled:
        __wrapped__ = staticmethod(function)

        def __call__(self, x):
            return function(x)

    return Compiled()


def wrapped(factor):
    @wraps(abs)
    def inner(x):
        return factor * x

    return inner


HOLDERS = {
    "wraps": wrapped,
    "a method of a dataclass": lambda factor: Changeable(factor).__eq__,
    "an object that calls": lambda factor: compiled(wrapped(factor)),
    "partial": lambda factor: partial(pow, factor),
    "a builtin of an object": lambda factor: [factor].__getitem__,
    "a native object": lambda factor: deque([factor]).count,
    "a class": lambda factor: type("Scale", (), {"factor": factor}),
    "what a class inherits": lambda factor: type("Own", (type("Above", (), {"factor": factor}),), {}),
}


@pytest.mark.parametrize("make", HOLDERS.values(), ids=HOLDERS)
def test_functions_differ_by_what_they_hold(make):
    assert describe(make(1.0)) == describe(make(1.0)) != describe(make(2.0))


def test_numbers_of_numpy_are_shown_as_numbers():
    for one, two in ((np.float64(1.0), np.float64(2.0)), (np.asarray(1.0), np.asarray(2.0))):
        assert differences({"x": describe(one)}, {"x": describe(two)}) == ["x value: 1.0 there, 2.0 here"]


def test_the_order_of_a_dict_is_no_part_of_it():
    """Nor that of the entries of a description, from which digests are taken."""
    many = {str(i): i for i in range(1000)}
    turned = dict(reversed(many.items()))
    assert key(many) == key(turned) and describe(many) == describe(turned)


def test_what_a_function_does_not_read_is_no_part_of_it():
    def reads(t):
        return OWN.scale * t

    before = describe(reads)
    OWN.unread = 2.0
    assert describe(reads) == before
    OWN.unread = 1.0


def test_functions_of_packages_are_known_by_name():
    """NumPy's are; what is rebound inside a package does not show."""
    found = json.dumps(describe(lambda t: np.linalg.norm(t) + logging.getLogger("a").level))
    assert "numpy" in found and "getLogger" not in found
    assert describe(np.linalg.norm) != describe(np.linalg.det)


def test_functions_that_read_themselves():
    assert key(countdown) == key(countdown) != key(square)

    @dataclass
    class Holder:
        function: object

    holder = Holder(None)
    holder.function = lambda x: holder
    assert describe(holder.function) == describe(holder.function)
    items = [1]
    items.append(items)
    assert describe(items) == describe(items)


def test_a_counter_is_no_part_of_what_counts():
    """What a function gives values to itself, and what changes when it is called; the rest of an object is."""
    calls, model, number = [], Model(), 0

    def count(x):
        nonlocal number
        number += 1
        calls.append(x)
        model.calls += 1
        return x * model.scale

    before = describe(count, lambda: count(1))
    count(2)
    assert describe(count, lambda: count(3)) == before
    model.scale = 2.0
    lines = differences(before, describe(count, lambda: count(4)))
    assert lines == ["reads model scale: 1.0 there, 2.0 here"]


def test_what_a_function_gives_values_to_is_no_part_of_it():
    number = 0

    def count(x):
        nonlocal number
        number += 1
        return x

    before = describe(count)
    count(1)
    assert describe(count) == before and number == 1


class Fresh:
    """Shows itself by objects that are gone when it was asked."""

    def __init__(self, numbers):
        self.number = numbers[0]

    def __reduce__(self):
        return Fresh, ([self.number],)


def test_an_address_that_is_given_twice_is_not_taken_for_one_object():
    assert key([Fresh([i]) for i in range(20)]) != key([Fresh([0]) for _ in range(20)])


def test_what_an_object_works_out_once_is_no_part_of_it():
    model = Model()
    before = describe(model)
    assert model.slow == 3.0 and "slow" in vars(model)
    assert describe(model) == before


def test_generators_of_random_numbers_are_known_by_their_type():
    rng = np.random.default_rng(0)
    before = describe(lambda: rng)
    rng.normal()
    assert describe(lambda: rng) == before


def test_objects_that_cannot_be_known():
    """Other processes know them by type; in this one each is itself."""
    assert describe(threading.Lock()) == describe(threading.Lock())
    one, other = threading.Lock(), threading.Lock()
    assert key(one) == key(one) != key(other)

    class Bare(Kernel):
        requires = Capability.NONE

        def init(self, target, x): ...

        def noise(self, x): ...

        def step(self, target, state, noise): ...

    bare = Bare()
    assert key(bare) == key(bare) == key(Bare())


def test_a_key_holds_what_it_compares_by_identity():
    """Else an object could take the place of one that is gone, and a program of that be run."""
    known = key(threading.Lock())
    assert all(known != key(threading.Lock()) for _ in range(100))


def test_the_work_is_bounded():
    """Nests deeper than any stack, and arrays that many hold, which are read once."""
    nest: list = []
    for _ in range(20 * DEEP):
        nest = [nest]
    assert describe(nest) == describe(nest)
    large = np.zeros(2**20)
    assert len(json.dumps(describe([large] * 10_000))) < LONG
    assert len(json.dumps(describe({str(i): i for i in range(100_000)}))) < LONG


def test_arrays_of_other_libraries(library):
    """By their numbers and dtype, also where a function encloses them."""
    one, same, other = (library.array(np.asarray(v)) for v in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0]))

    def enclosing(array):
        return lambda: array

    assert describe(enclosing(one)) == describe(enclosing(same)) != describe(enclosing(other))
    assert key(one) == key(same) != key(other)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


Point = namedtuple("Point", "x y")

STABLE = (
    "lambda x: x in {'a', 'b', 'c', 'd'}",
    "partial(max, 1, key=abs)",
    "[len, object(), print, {'a': (1.0, None), 'b': [np.arange(3)]}, np.float32(2), float('nan')]",
    "(lambda xs: lambda x: x + xs)([1, 2, 3])",
    "(lambda xs: lambda x: x in xs)({'a', 'b', 'c', 'd'})",
    "Colour.RED",
    "Point(1, 2)",
    "Model().scaled",
    "MODEL",
    "one",
    "imports",
    "[re.compile('a'), logging.getLogger('a'), deque([1]), np.dtype('f4'), np.add, threading.Lock()]",
    "xps.Target(scaled_twice)",
)


def test_the_same_in_another_process():
    """Whatever the order of sets and the addresses of objects are there, and whatever the module is called."""
    code = f"import sys; sys.path.insert(0, {sys.path[0]!r}); text = open({__file__!r}).read(); exec(text)\n"
    code += "print(json.dumps([describe(eval(line)) for line in sys.argv[1:]]))"
    done = subprocess.run([sys.executable, "-c", code, *STABLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    there = json.loads(done.stdout)
    assert re.search(r"0x[0-9a-f]{8}", done.stdout) is None
    for line, found in zip(STABLE, there, strict=True):
        assert differences(found, json.loads(json.dumps(describe(eval(line))))) == [], line


def test_differences_name_the_place():
    one = {"type": "A", "x": {"type": "B", "y": 1}, "z": float("nan")}
    assert differences(one, json.loads(json.dumps(one))) == []
    assert differences(one, {**one, "x": {"type": "B", "y": 2}}) == ["x y: 1 there, 2 here"]
    assert differences(one, {**one, "x": {"type": "C", "y": 1}}) == ["x: B there, C here"]
    assert differences(one, {"type": "A", "x": one["x"]}) == ["z: nan there, None here"]
    assert len(differences({"x": "a" * 1000}, {"x": 1})[0]) < 100


def test_functions_of_another_module_are_looked_into(monkeypatch):
    elsewhere = FunctionType(scaled.__code__, {"SCALE": 1.0, "__name__": "elsewhere"})
    monkeypatch.setitem(globals(), "scaled", elsewhere)
    before = key(scaled_twice)
    elsewhere.__globals__["SCALE"] = 2.0
    assert key(scaled_twice) != before


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("discrete", [False, True])
def test_kernels_with_equal_and_with_other_numbers_make_the_chains_of_a_target_of_their_own(library, discrete):
    if discrete:
        x, space = library.array(np.zeros((4, 3))), xps.Binary()
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
