"""A score plus an hvp at once: the sum of both for every target, which SRMC moves along."""

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import GradientError
from xpsample.experiments.breast_cancer.affine import affine
from xpsample.gradients import FiniteDifference, NativeGradient, Via
from xpsample.hiss.smoothed import Conditional, Logistic
from xpsample.particles.annealed import Level
from xpsample.spaces import Spins
from xpsample.targets import Capability, Parametric, Target, Tempered, check_gradient
from xpsample.targets.bridge import Bridge, annealed
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.logistic import logistic_regression
from xpsample.zoo.mixture import gaussian_mixture, smoothed_mixture

NEEDS = Capability.LOG_DENSITY | Capability.SCORE | Capability.HVP
RNG = np.random.default_rng(1)
X, V = RNG.normal(size=(4, 5, 2)), RNG.normal(size=(4, 5, 2))
ROWS = RNG.normal(size=(9, 2))
BETA = np.linspace(0.2, 1.5, 5)


def regression():
    return logistic_regression(ROWS, np.arange(9) % 2, 1.5)


MODES = [0.3, 0.7], np.asarray([[0.0, 1.0], [1.5, -0.5]]), [0.6, 1.1]
TARGETS = {
    "logistic regression": regression(),
    "gaussian": gaussian(np.asarray([[1.0, 0.4], [0.4, 0.7]]), np.asarray([0.3, -1.0])),
    "mixture": gaussian_mixture(*MODES),
    "smoothed mixture": smoothed_mixture(*MODES, 0.4),
    "affine": affine(regression(), np.asarray([0.2, -0.1]), np.asarray([[1.0, 0.5], [-0.3, 2.0]])),
}


def bridge(array):
    return Bridge(gaussian_mixture(*MODES), regression()).prepare(array(X), NEEDS)


MADE = {
    "tempered": lambda bound, array: Tempered(regression(), array(BETA)).prepare(array(X), NEEDS),
    "level": lambda bound, array: Level(bound, array(np.asarray(0.7))),
    "bridge": lambda bound, array: bridge(array),
    "annealed": lambda bound, array: annealed(bridge(array), array(BETA)),
    "conditional": lambda bound, array: Conditional(bound, array(X + V), array(BETA), Logistic(), NEEDS),
}


@pytest.mark.parametrize("name", [*TARGETS, *MADE])
def test_the_librarys_targets_and_those_made_from_another(library, name):
    if name in TARGETS:
        assert TARGETS[name].score_plus_hvp is not None
        bound = TARGETS[name].prepare(library.array(X), NEEDS)
    else:
        bound = MADE[name](regression().prepare(library.array(X), NEEDS), library.array)
    x, v = library.array(X), library.array(V)
    found, apart = bound.score_plus_hvp(x, v), (bound.score(x), bound.hvp(x, v))
    expected = library.host(apart[0]) + library.host(apart[1])
    np.testing.assert_allclose(library.host(found), expected, rtol=1e-12, atol=1e-12)


def quartic(x):
    return -0.25 * array_namespace(x).sum(x**4, axis=-1)


@pytest.mark.parametrize("own_score", [False, True])
def test_by_automatic_differentiation(differentiating, own_score):
    target = Target(quartic, score=(lambda x: -(x**3)) if own_score else None, gradient=NativeGradient())
    bound = target.prepare(differentiating.array(X), NEEDS)
    found = bound.score_plus_hvp(differentiating.array(X), differentiating.array(V))
    np.testing.assert_allclose(differentiating.host(found), -(X**3) - 3 * X**2 * V, rtol=1e-12)
    family = Parametric(lambda x, data: data * quartic(x), 2.0).prepare(differentiating.array(X), NEEDS)
    found = family.score_plus_hvp(differentiating.array(X), differentiating.array(V))
    np.testing.assert_allclose(differentiating.host(found), 2 * (-(X**3) - 3 * X**2 * V), rtol=1e-12)


def test_borrowed_and_by_differences():
    torch = pytest.importorskip("torch")
    expected, calls = -(X**3) - 3 * X**2 * V, []

    def score(x):
        calls.append(1)
        return -(x**3)

    choices = (Via("torch"), 1e-12), (FiniteDifference(1e-5), 1e-4), (FiniteDifference(1e-6, "forward"), 1e-3)
    for gradient, rtol in choices:
        bound = Target(quartic, score=score, gradient=gradient).prepare(X, NEEDS)
        np.testing.assert_allclose(bound.score_plus_hvp(X, V), expected, rtol=rtol, atol=1e-4 if rtol > 1e-10 else 0)
    bound = Target(quartic, score=score).prepare(torch.asarray(X), NEEDS)
    calls.clear()
    bound.score_plus_hvp(torch.asarray(X), torch.asarray(V))
    assert len(calls) == 1  # of both
    assert regression().without_own_derivatives(FiniteDifference()).score_plus_hvp is None


def test_sr_hmc_moves_along_it(library):
    """The chain is the same, nine of ten leaps call it, and a sum that is wrong is seen."""
    good, calls = regression(), []

    def plus(x, v, data):
        calls.append(1)
        return good.score_plus_hvp(x, v, data)

    def chain(**own):
        target = Target(good.log_density, score=good.score, hvp=good.hvp, data=good.data, **own)
        kernel = xps.SRMC(xps.HMC(0.2, 10), alpha=0.5, tilt=xps.Exact())
        trace = xps.sample(target, kernel, library.array(X), 5, seed=xps.Portable(1), progress=False)
        assert trace.run_statistics.evaluations == {"log_density": 1, "score": 10, "hvp": 11}
        return library.host(trace.draws)

    plain = chain()
    np.testing.assert_allclose(chain(score_plus_hvp=plus), plain, rtol=1e-9)
    traced = library.backend.name == "jax"
    assert calls if traced else len(calls) == 9 * 5 + 2  # and two for the checks at the start
    wrong = chain(score_plus_hvp=lambda x, v, data: good.score(x, data))
    assert np.max(np.abs(wrong - plain)) > 1e-3


def test_the_check_sees_a_wrong_sum():
    good = regression()
    own = {"score": good.score, "hvp": good.hvp, "data": good.data}
    check_gradient(Target(good.log_density, score_plus_hvp=good.score_plus_hvp, **own), X, hvp=True)
    wrong = Target(good.log_density, score_plus_hvp=lambda x, v, d: good.score(x, d) - good.hvp(x, v, d), **own)
    check_gradient(wrong, X)
    with pytest.raises(GradientError, match="the score plus hvp disagrees"):
        check_gradient(wrong, X, hvp=True)


def test_integer_positions_are_given_as_floats():
    target = Target(
        lambda x: -0.5 * np.sum(x * x, axis=-1),
        score=lambda x: -x,
        hvp=lambda x, v: -v,
        score_plus_hvp=lambda x, v: -x / 2 - x / 2 - v if x.dtype.kind == "f" else pytest.fail(str(x.dtype)),
        space=Spins(),
    )
    x, v = np.asarray([[1, -1]]), np.asarray([[0.5, 0.5]])
    bound = target.prepare(x, Capability.SCORE | Capability.HVP)
    np.testing.assert_array_equal(bound.score_plus_hvp(x, v), [[-1.5, 0.5]])
