"""The checks of arguments: plain values come back, and messages name the argument, what was got and what is wanted."""

import math
from fractions import Fraction

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.checks import (
    check_count,
    check_flag,
    check_function,
    check_instance,
    check_number,
    check_numbers,
    check_path,
    check_result,
    check_text,
    errors_of_functions,
    given,
)
from xpsample.core.errors import FunctionError, HyperparameterError, LogDensityError
from xpsample.core.hyperparameters import check_range, check_vector


@pytest.mark.parametrize("value", [0.5, np.float64(0.5), np.float32(0.5), Fraction(1, 2)])
def test_numbers_come_back_as_those_of_python(value):
    for found in (check_number("a", value, 0, 1), check_range("a", value), check_vector("a", value)):
        assert type(found) is float and found == 0.5
    for whole in (3, np.int64(3), np.uint8(3)):
        assert type(check_count("a", whole)) is int and check_count("a", whole) == 3


def test_sequences_of_numbers_come_back_as_tuples_and_arrays_as_they_are(library):
    array = library.array([1.0, 0.5])
    for value in ([1, 0.5], (1.0, 0.5), iter([1, Fraction(1, 2)]), array):
        assert check_numbers("a", value, 0, 1) == (1.0, 0.5)
    assert check_range("a", array, 0, 1) is array


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_number("a", "x"), "a must be a number; got 'x'"),
        (lambda: check_number("a", True), "a must be a number; got True"),
        (lambda: check_number("a", 10**400), "a must be a number; got 1000"),
        (lambda: check_number("a", math.inf, 0), "a must be finite; got inf"),
        (lambda: check_number("a", math.nan), "a must be finite; got nan"),
        (lambda: check_number("a", 1.0, 0, 1, below=True), r"a must be greater than 0 and below 1; got 1\.0"),
        (lambda: check_range("a", [0.5]), r"a must be a number or an array .*; got \[0\.5\]: make an array of it"),
        (lambda: check_range("a", np.zeros((0,))), "a is empty; got an array, float64"),
        (lambda: check_range("a", np.array([1, None])), "a must hold real numbers; got an array, object"),
        (lambda: check_range("a", np.ma.masked_array([1.0], mask=[True])), "a is a masked array"),
        (lambda: check_range("a", np.asarray([1.0, np.inf]), 0), "a must be finite; got an array"),
        (lambda: check_count("a", 2.0), r"a must be a positive integer; got 2\.0"),
        (lambda: check_count("a", 2**40), "a must be a positive integer and at most 2147483647"),
        (lambda: check_flag("a", 1), "a must be True or False; got 1"),
        (lambda: check_numbers("a", "12"), "a must be a sequence of numbers, 1 at least; got '12'"),
        (lambda: check_numbers("a", [1.0], least=2), r"a must be a sequence of numbers, 2 at least; got \[1\.0\]"),
        (lambda: check_numbers("a", 5), "a must be a sequence of numbers, 1 at least; got 5"),
        (
            lambda: check_instance("a", xps.RBF, xps.RBF, "RBF(1.0)"),
            r"a must be a RBF, such as RBF\(1\.0\); got the class RBF, not one of its values",
        ),
        (lambda: check_function("a", xps.RWM, "(x)"), r"a must be a function \(x\); got the class RWM"),
        (lambda: check_text("a", ""), "a must be text that is not empty; got ''"),
        (lambda: check_path("a", ""), "a must be a path; got ''"),
    ],
)
def test_messages(check, message):
    with pytest.raises(HyperparameterError, match=message):
        check()


def test_long_values_are_cut_and_broken_ones_named():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert len(given("x" * 1000)) < 100
    assert "Broken" in given(Broken())
    assert len(given(10**5000)) < 100


def test_what_a_function_raises_is_named_and_what_is_wrong_with_the_machine_passes():
    class Own(Exception):
        pass

    with (
        pytest.raises(FunctionError, match=r"it failed, in test_.*: ValueError: no support") as caught,
        errors_of_functions("it failed"),
    ):
        raise ValueError("no support")
    assert isinstance(caught.value.__cause__, ValueError)
    for error in (Own(), MemoryError(), OSError(), KeyboardInterrupt(), HyperparameterError("ours")):
        with pytest.raises(type(error)), errors_of_functions("it failed"):
            raise error


def test_what_a_function_gives_is_an_array_that_broadcasts():
    array = np.zeros((3, 1))
    assert check_result("f", array, (3, 2)) is array
    with pytest.raises(FunctionError, match=r"f must give an array of shape \(3,\); got 1\.0"):
        check_result("f", 1.0, (3,))
    with pytest.raises(FunctionError, match=r"f must give an array of shape \(3,\); got shape \(2,\)"):
        check_result("f", np.zeros(2), (3,))


def test_a_function_that_numpy_calls_is_the_one_that_is_named():
    def bad(x):
        raise ZeroDivisionError("no")

    with pytest.raises(LogDensityError, match="in bad"):
        xps.sample(xps.Target(np.vectorize(bad, signature="(n)->()")), xps.RWM(1.0), np.zeros((2, 2)), 10, seed=0)
