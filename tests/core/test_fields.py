"""Declarations of fields: what is checked, derived, tuned, and what stays of a frozen dataclass."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import xpsample as xps
from xpsample.adaptation import StepSize, unset
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import (
    FrozenDataclass,
    checked,
    count,
    flag,
    function,
    instance,
    number,
    numbers,
    parameter,
    text,
    vector,
)
from xpsample.core.hyperparameters import arguments, settings, with_arguments
from xpsample.kernels import MALA, MemorylessKernel, matrix


def doubled(name, value):
    return 2 * value


class Every(FrozenDataclass):
    """One field of each kind."""

    step_size: float = parameter(gt=0)
    share: float = parameter(default=0.5, ge=0, le=1)
    mean: float | None = vector()
    threshold: float = number(default=1.0, gt=0, infinite=True)
    betas: tuple = numbers(default=(1.0,), ge=0, lt=2)
    steps: int = count(default=3, ge=2, le=9)
    adjusted: bool = flag(default=True)
    name: str = text(default="every")
    move: xps.MALA = instance(MALA, "MALA()", default=MALA(0.1))
    f: object = function("(x)", default=abs)
    twice: float = checked(None, default=1.0, derive=doubled)
    last: float | None = checked(None, default=None, factory=lambda own: 10 * own.step_size)


class Walk(MemorylessKernel):
    """Its own covariance, and a step size that is tuned."""

    step_size: float | None = parameter(default=None, gt=0, tune=StepSize(0.3))
    covariance: object = matrix(only_with="step_size")
    requires = xps.RWM.requires

    def noise(self, x):
        return xps.RWM(1.0).noise(x)

    def step(self, target, state, noise):
        return xps.RWM(self.step_size, self.covariance).step(target, state, noise)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_size": 0}, "step_size must be greater than 0; got 0"),
        ({"step_size": "a"}, "step_size must be a number or an array"),
        ({"step_size": np.array([1.0, -1.0])}, "step_size must be greater than 0"),
        ({"step_size": None}, "step_size must be a number or an array"),
        ({"step_size": StepSize(0.3)}, "step_size must be a number or an array"),
        ({"share": 1.5}, "share must be at least 0 and at most 1"),
        ({"mean": np.inf}, "mean must be finite"),
        ({"threshold": 0.0}, "threshold must be greater than 0"),
        ({"betas": (2.0,)}, "betas must be at least 0 and below 2"),
        ({"betas": 1.0}, "betas must be a sequence of numbers, 1 at least"),
        ({"steps": 1}, "steps must be an integer of at least 2 and at most 9"),
        ({"steps": 2.0}, "steps must be an integer"),
        ({"adjusted": 1}, "adjusted must be True or False"),
        ({"name": ""}, "name must be text"),
        ({"move": 1}, r"move must be a MALA, such as MALA\(\)"),
        ({"f": 1}, r"f must be a function \(x\)"),
    ],
)
def test_each_kind_is_checked_by_the_constructor_and_by_replace(change, message):
    with pytest.raises(HyperparameterError, match=message):
        Every(**({"step_size": 1.0} | change))
    with pytest.raises(HyperparameterError, match=message):
        dataclasses.replace(Every(1.0), **change)


def test_values_are_kept_as_python_s_numbers_and_what_is_derived_follows_them():
    value = Every(np.float32(0.5), twice=4.0)
    assert type(value.step_size) is float and value.betas == (1.0,) and value.threshold == 1
    assert value.derived("twice") == 8 and value.last == 5
    changed = dataclasses.replace(value, twice=5.0)
    assert changed.derived("twice") == 10 and changed.last == 5
    for same in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert same.derived("twice") == 8 and repr(same) == repr(value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.step_size = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.step_size


def test_a_matrix_is_factored_once_and_is_an_argument_of_compiled_programs():
    kernel = Walk(1.0, np.diag([4.0, 9.0]))
    assert kernel.matrix("covariance") is kernel.matrix("covariance")
    np.testing.assert_allclose(kernel.matrix("covariance").root(np.ones(2)), [2, 3])
    found = arguments(kernel, lambda value: isinstance(value, np.ndarray))
    assert {"step_size", "covariance", "_covariance.factor"} <= set(found)
    other = with_arguments(kernel, found | {"_covariance.factor": np.eye(2)})
    np.testing.assert_allclose(other.matrix("covariance").root(np.ones(2)), 1)
    assert dataclasses.fields(kernel)[1].name == "covariance" and len(dataclasses.fields(kernel)) == 2
    np.testing.assert_array_equal(Walk(1.0).matrix("covariance").root(np.ones(2)), 1)


def test_what_is_unset_is_tuned():
    assert unset(Walk()) == {"step_size": StepSize(0.3)} and unset(Walk(0.1)) == {}
    assert unset(Walk(StepSize(0.5))) == {"step_size": StepSize(0.5)}
    x0 = np.random.default_rng(0).normal(size=(4, 2))
    trace = xps.sample(xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1)), Walk(), x0, 50, seed=1, progress=False)
    assert 0.5 < trace.kernel.step_size < 4


def test_a_class_checks_fields_together_and_a_subclass_is_frozen_too():
    class Interval(FrozenDataclass):
        low: float = number(default=0.0)
        high: float = number(default=1.0)

        def __check_init__(self):
            if self.low > self.high:
                raise HyperparameterError("low must be at most high")

    class Named(Interval, eq=True):
        name: str = text(default="a")

        def __check_init__(self):
            """Beside that of the base class, which is run, too."""
            if self.name == "b":
                raise HyperparameterError("any name but b")

    with pytest.raises(HyperparameterError, match="low must be at most high"):
        Named(2.0)
    with pytest.raises(HyperparameterError, match="any name but b"):
        Named(0.5, name="b")
    assert Named(0.5) == Named(0.5) and Interval(0.5) != Interval(0.5)


def test_what_would_take_the_checks_from_a_subclass_is_refused():
    with pytest.raises(TypeError, match=r"Steady.step_size is declared in a base class and would lose its checks"):

        class Steady(Walk):
            step_size = 0.5

    with pytest.raises(TypeError, match=r"Mine.__init__ would replace the checks of the fields"):

        class Mine(Walk):
            def __init__(self):
                pass

    with pytest.raises(TypeError, match=r"Post.__post_init__ would replace the checks of the fields"):

        class Post(xps.kernels.Kernel):
            def __post_init__(self):
                pass


def test_a_decorator_does_no_harm():
    """As kernels have that were written before November 2026."""

    @dataclasses.dataclass(frozen=True, eq=False)
    class Mine(Walk):
        length: float = parameter(default=2.0, gt=0)

    with pytest.raises(HyperparameterError, match="length must be greater than 0"):
        Mine(length=0.0)
    assert [f.name for f, _ in settings(Mine(1.0))] == ["step_size", "covariance", "length", "_covariance"]
    assert unset(Mine()) == {"step_size": StepSize(0.3)}
