"""A function of a user's own raises, and is no function of the target: the error names it, and blames no density."""

import re
from pathlib import Path

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import open_library
from xpsample.core.checks import raised_in
from xpsample.core.errors import FunctionError, LogDensityError
from xpsample.kernels.rwm import RWM
from xpsample.optimize.optimizers import SGD
from xpsample.sosmc import LangevinMove, RewardReverseKL
from xpsample.srmc.schedules import PowerLaw
from xpsample.targets.tilted import Exact, Untilted
from xpsample.trace.recorders import Recorder


class Calls:
    """Raises after so many calls."""

    def __init__(self, last=0):
        self.left = last

    def __call__(self):
        self.left -= 1
        if self.left < 0:
            raise ValueError("out of luck")


def own_parts(fails):
    """Kernels with a part of the user's own, by the function that raises."""

    class OwnTilt(Exact):
        def score(self, tilted, x, own):
            fails()
            return own

    class OwnFeature(Untilted):
        def feature(self, target, point):
            fails()
            return point.score

    class OwnSchedule(PowerLaw):
        def gamma(self, *args):
            fails()
            return super().gamma(*args)

    class OwnKernel(RWM):
        def step(self, target, state, noise):
            fails()
            return super().step(target, state, noise)

    return {
        "OwnFeature.feature": xps.SRMC(xps.MALA(0.5), alpha=0.1, tilt=OwnFeature()),
        "OwnTilt.score": xps.SRMC(xps.MALA(0.5), alpha=0.1, tilt=OwnTilt()),
        "OwnSchedule.gamma": xps.SRMC(xps.MALA(0.5), alpha=0.1, schedule=OwnSchedule()),
        "OwnKernel.step": OwnKernel(0.5),
    }


def target():
    """By one's own derivatives, so that it runs on every library."""
    return xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x, hvp=lambda x, v: -v)


def message(call):
    with pytest.raises(FunctionError, match="out of luck") as caught:
        call()
    assert isinstance(caught.value.__cause__, ValueError)
    return str(caught.value)


@pytest.mark.parametrize(("name", "last"), [("numpy", 0), ("numpy", 6), ("torch", 0), ("torch", 6), ("jax", 0)])
@pytest.mark.parametrize("own", own_parts(None))
def test_parts_of_a_kernel(name, own, last):
    library, kernel = open_library(name, "float64"), own_parts(Calls(last))[own]
    x0 = library.array(np.random.default_rng(0).normal(size=(4, 2)))
    said = message(lambda: xps.sample(target(), kernel, x0, 50, seed=1, progress=False))
    assert re.search(rf", in {own} \(line \d+ of {Path(__file__).name}\): ValueError: out of luck", said)
    assert "density" not in said and "target" not in said


@pytest.mark.parametrize("call", ["init", "update"])
def test_recorders(call):
    class OwnRecorder(Recorder):
        name = "own"

        def init(self, target, state):
            return fails() if call == "init" else None

        def update(self, target, carry, state, info):
            return None, fails()

        def result(self, target, carry, rows):
            return rows

    fails, x0 = Calls(), np.zeros((4, 2))
    recorders = (xps.Draws(), OwnRecorder())
    said = message(lambda: xps.sample(target(), RWM(0.5), x0, 50, seed=1, recorders=recorders, progress=False))
    assert f"OwnRecorder.{call} (line" in said and "density" not in said


def test_parts_of_sosmc():
    family = xps.Parametric(
        lambda x, theta: -0.5 * np.sum((x - theta) ** 2, axis=-1),
        np.zeros((1, 1)),
        score=lambda x, theta: theta - x,
        gradient=xps.FiniteDifference(1e-3),
    )
    fails = Calls()

    def own(*_):
        fails()

    class OwnOptimizer:
        def init(self, parameters):
            return ()

        def update(self, gradient, state, parameters):
            fails()

    sgd, move, x0 = SGD(0.1), LangevinMove(0.3), np.random.default_rng(0).normal(size=(20, 2))
    fine = RewardReverseKL(lambda x: x[..., 0], beta=1.0)
    for name, kernel in (
        ("own", xps.SOSMC(RewardReverseKL(own, beta=1.0), move, sgd)),
        ("own", xps.SOSMC(own, move, sgd)),
        ("own", xps.SOSMC(fine, move, sgd, initial=own)),
        ("OwnOptimizer.update", xps.SOSMC(fine, move, OwnOptimizer())),
    ):
        said = message(lambda kernel=kernel: xps.sample(family, kernel, x0, 5, seed=1, progress=False))
        assert f", in {name} (line" in said and "-inf" not in said


@pytest.mark.parametrize("by", ["target", "batched", "own kernel", "own tilt"])
def test_a_function_of_the_target_is_named_with_advice_whoever_calls_it(by):
    fails = Calls(8)

    def own_density(x):
        fails()
        return -0.5 * (x * x).sum(-1)

    class OwnTilt(Untilted):
        def feature(self, target, point):
            return target.log_density(point.x)[..., None] * point.score

    tilted = xps.SRMC(xps.MALA(0.5), alpha=0.1, tilt=OwnTilt())
    of = {"own kernel": own_parts(Calls(99))["OwnKernel.step"], "own tilt": tilted}
    density = xps.batched(own_density) if by == "batched" else own_density
    x0 = np.zeros((1 if by == "batched" else 4, 2))
    own = xps.Target(density, score=lambda x: -x)
    said = message(lambda: xps.sample(own, of.get(by, RWM(0.5)), x0, 50, seed=1, progress=False))
    assert "own_density (line" in said and "-inf where the density is 0" in said


def test_a_derivative_that_fails_at_the_start_is_named():
    def own_score(x):
        raise TypeError("no")

    bad = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=own_score)
    with pytest.raises(LogDensityError, match=r"own_score \(line \d+ of .*\): TypeError: no\."):
        xps.sample(bad, xps.MALA(0.5), np.zeros((4, 2)), 5, seed=1)


def test_an_error_of_a_library_or_of_ours_names_no_function():
    def caught(of):
        try:
            of()
        except Exception as error:
            return error

    assert raised_in(ValueError("raised nowhere")) == ("", False)
    in_a_step = caught(lambda: xps.RWM(0.5).step(None, None, {}))
    in_a_step.__traceback__ = in_a_step.__traceback__.tb_next.tb_next  # our frame alone
    assert raised_in(in_a_step) == ("", False)
