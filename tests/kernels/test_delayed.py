"""Delayed acceptance: by hand, exact, its costs, and what it refuses."""

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import GAUSSIAN, QUARTIC, noise_of, start, walk
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels.traits import Trait
from xpsample.targets import LineIntegral

PAIR = xps.Bridge(GAUSSIAN, QUARTIC)
PRECISION = np.asarray([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.5]])


def cheap(x):
    return -0.5 * np.sum(x * (x @ PRECISION), axis=-1)


def expensive(x):
    return -0.25 * np.sum(x**4, axis=-1)


def test_by_hand(library):
    """Two moves of a random walk on the cheap density, then one test by the expensive one."""
    x, kernel = start(50), xps.DelayedAcceptance(xps.RWM(0.6), moves=2)
    noise = noise_of(kernel, x, 6)
    positions, infos, _ = walk(library, kernel, x, noise, PAIR)
    tests = 0
    for t in range(6):
        y = x
        for move in range(2):
            proposal = y + 0.6 * noise["base/proposal"][t, move]
            accept = noise["base/accept"][t, move] < np.exp(cheap(proposal) - cheap(y))
            y = np.where(accept[:, None], proposal, y)
        ratio = np.exp(expensive(y) - expensive(x) + cheap(x) - cheap(y))
        np.testing.assert_allclose(library.host(infos[t].acceptance_probability), np.minimum(ratio, 1), rtol=1e-10)
        np.testing.assert_array_equal(
            library.host(infos[t].moved), (noise["accept"][t] < ratio) & np.any(y != x, axis=-1)
        )
        tests += np.sum(ratio < 0.9)
        x = np.where((noise["accept"][t] < ratio)[:, None], y, x)
        np.testing.assert_allclose(positions[t], x, rtol=1e-10)
    assert tests > 50


@pytest.mark.parametrize("base", [xps.MALA(0.3), xps.HMC(0.4, 3)], ids=["MALA", "HMC"])
def test_the_expensive_score_is_never_evaluated(base):
    """It need not exist; on a cheap target that is the target itself every test is passed."""
    black_box = xps.Target(cheap)
    gradient = xps.Target(cheap, score=lambda x: -x @ PRECISION)
    trace = xps.sample(xps.Bridge(gradient, black_box), xps.DelayedAcceptance(base, 4), start(8), 20, seed=1)
    scores = 4 * getattr(base, "steps", 1)
    assert trace.run_statistics.evaluations == {"log_density": 5, "score": scores, "hvp": 0}
    assert np.min(trace.statistics["acceptance_probability"]) > 1 - 1e-12


def lopsided(x):
    """A skewed density, log normal in its exponential."""
    return np.sum(x - np.exp(x), axis=-1)


REVERSIBLE = {
    "RWM": xps.RWM(1.0),
    "PCN": xps.PCN(0.7),
    "IndependentMH": xps.IndependentMH(covariance=2.0),
    "EllipticalSlice": xps.EllipticalSlice(),
    "MALA": xps.MALA(0.5),
    "HMC": xps.HMC(0.7, 3),
    "DelayedAcceptance": xps.DelayedAcceptance(xps.RWM(1.0), moves=3),
}
OTHERS = {
    "Slice": xps.Slice(1.0),
    "NUTS": xps.NUTS(0.5),
    "MAMS": xps.MAMS(0.5, 2.0),
    "HMC by length": xps.HMC(0.7, length=2.0),
}


def asymmetry(kernel, chains=20_000):
    """Largest z score of f(x) g(y) - g(x) f(y) over pairs of functions, for moves from exact draws x to y."""
    target = xps.Target(lopsided, score=lambda x: 1.0 - np.exp(x))
    if isinstance(kernel, xps.DelayedAcceptance):
        target = xps.Bridge(xps.Target(lambda x: -0.4 * np.sum(x**2, axis=-1)), target)
    x = np.log(np.random.default_rng(0).gamma(1.0, size=(chains, 2)))
    y = xps.sample(target, kernel, x, 1, seed=1).draws[0]
    functions = [lambda v, i=i, k=k: v[:, i] ** k for i in (0, 1) for k in (1, 2)]
    scores = []
    for i, f in enumerate(functions):
        for g in functions[:i]:
            difference = f(x) * g(y) - g(x) * f(y)
            scores.append(abs(np.mean(difference)) / np.std(difference) * np.sqrt(chains))
    return max(scores)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.parametrize("name", REVERSIBLE)
def test_kernels_that_say_so_are_reversible(name):
    """The probability of a false alarm is 4e-6 for each kernel."""
    assert Trait.REVERSIBLE in REVERSIBLE[name].traits
    assert asymmetry(REVERSIBLE[name]) < 5


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
def test_a_sweep_over_coordinates_is_not():
    """The wrong twin: both coordinates of a correlated density, always in the same order."""
    precision = np.asarray([[1.0, 0.8], [0.8, 1.0]])
    x = np.random.default_rng(0).multivariate_normal(np.zeros(2), np.linalg.inv(precision), size=20_000)
    noise = np.random.default_rng(1).standard_normal(x.shape)
    y = np.empty_like(x)
    y[:, 0] = -0.8 * x[:, 1] + noise[:, 0]
    y[:, 1] = -0.8 * y[:, 0] + noise[:, 1]
    difference = x[:, 0] * y[:, 1] - y[:, 0] * x[:, 1]
    assert abs(np.mean(difference)) / np.std(difference) * np.sqrt(len(x)) > 10


@pytest.mark.parametrize("kernel", OTHERS.values(), ids=OTHERS)
def test_a_base_that_is_not_known_to_be_reversible_is_refused(kernel):
    with pytest.raises(CapabilityError, match="its moves are not known to be reversible: use RWM, MALA"):
        xps.DelayedAcceptance(kernel)


def test_divergences_on_the_cheap_target_are_counted():
    """There, and nowhere in the expensive density, proposals beyond 1 are not numbers."""
    broken = xps.Target(lambda x: np.where(x[..., 0] > 1.0, np.nan, -np.sum(x**2, axis=-1)))
    with pytest.warns(xps.DiagnosisWarning):
        trace = xps.sample(
            xps.Bridge(broken, xps.Target(cheap)), xps.DelayedAcceptance(xps.RWM(2.0)), 0.0 * start(20), 50, seed=1
        )
    assert np.sum(trace.statistics["diverged"]) > 100


@pytest.mark.parametrize("base", [xps.RWM(1.0), xps.EllipticalSlice()], ids=["RWM", "EllipticalSlice"])
@pytest.mark.parametrize("end", ["cheap", "expensive"])
def test_approximate_ratios_are_refused_at_both_ends(base, end):
    """Log densities of both ends make the ratio, so an acceptance from a score alone would be silently ignored."""
    inexact = xps.Target(cheap, score=lambda x: -2.0 * x, acceptance=LineIntegral(1))
    pair = (inexact, xps.Target(expensive)) if end == "cheap" else (xps.Target(expensive), inexact)
    with pytest.raises(CapabilityError, match="LineIntegral gives their ratios only"):
        xps.sample(xps.Bridge(*pair), xps.DelayedAcceptance(base), start(4), 10, seed=1)


def test_what_else_is_refused():
    with pytest.raises(HyperparameterError, match=r"does not tune RWM\.covariance, RWM\.step_size\. Set"):
        xps.DelayedAcceptance(xps.RWM())
    with pytest.raises(CapabilityError, match=r"pass Bridge\(cheap, target\)"):
        xps.sample(QUARTIC, xps.DelayedAcceptance(xps.RWM(1.0)), start(4), 10, seed=1)
    tempering = xps.ParallelTempering(xps.DelayedAcceptance(xps.RWM(1.0)), (1.0, 0.5))
    with pytest.raises(CapabilityError, match=r"pass Bridge\(cheap, target\)"):
        xps.sample(PAIR, tempering, start(4), 10, seed=1)
