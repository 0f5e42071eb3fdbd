"""Acceptance from a score alone: against log densities, the same chains where it is exact, and what it refuses."""

import numpy as np
import pytest

import xpsample as xps
from xpsample import HMC, MALA, PCN, RWM, SRMC, Exact, ParallelTempering, Portable, sample
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels import IndependentMH
from xpsample.spaces import Spins
from xpsample.targets import Capability, LineIntegral, Target, Taylor, Tempered
from xpsample.zoo.gaussian import gaussian as normal
from xpsample.zoo.mixture import gaussian_mixture

RATIO = Capability.DENSITY_RATIO | Capability.SCORE
PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])


def gaussian(acceptance):
    score, hvp = (lambda x, p: -(x @ p)), (lambda x, v, p: -(v @ p))
    return Target(None, score=score, hvp=hvp, data=PRECISION, acceptance=acceptance)


KNOWN = normal(np.linalg.inv(PRECISION))


def polynomial(degree, acceptance):
    """log density x^degree / degree, not one that could be normalised, in one dimension."""
    return Target(
        lambda x: x[..., 0] ** degree / degree,
        score=lambda x: x ** (degree - 1),
        hvp=lambda x, v: (degree - 1) * x ** (degree - 2) * v,
        acceptance=acceptance,
    )


def ratios(target, library, x, y):
    """The target's log ratio, and that of its log densities."""
    x, y = library.array(x), library.array(y)
    bound = target.prepare(x, RATIO)
    found = library.host(bound.log_ratio(bound.evaluate(y), bound.evaluate(x)))
    return found, library.host(target.log_density(y) - target.log_density(x))


@pytest.mark.parametrize(
    ("acceptance", "degree", "error"),
    [
        (LineIntegral(1), 2, 1e-4),
        (LineIntegral(2), 4, 1e-4),
        (LineIntegral(3), 6, 1e-4),
        (Taylor(1), 2, 1e-3),
        (Taylor(1, averaged=False), 1, 1e-3),
        (Taylor(2), 2, 1e-3),
        (Taylor(2, averaged=False), 2, 1e-3),
    ],
    ids=repr,
)
def test_exact_up_to_a_degree_and_no_further(acceptance, degree, error, library):
    x, y = np.array([[0.5], [-1.2], [2.0]]), np.array([[1.5], [0.3], [-1.0]])
    found, exact = ratios(polynomial(degree, acceptance), library, x, y)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)
    beyond, exact = ratios(polynomial(degree + 1, acceptance), library, x, y)
    assert np.min(np.abs(beyond - exact)) > error


def test_the_error_of_every_expansion_but_the_plainest_is_of_the_third_order():
    """x^3 / 3: the terms in tau^3 are 1/3, 1/6 and 1/3; Eq. 17's is twice that of its form without Hessians."""
    x, tau = np.array([[0.7]]), 1e-2
    for acceptance, error in ((Taylor(2, averaged=False), 1 / 3), (Taylor(1), -1 / 6), (Taylor(2), 1 / 3)):
        target = polynomial(3, acceptance)
        bound = target.prepare(x, RATIO)
        found = bound.log_ratio(bound.evaluate(x + tau), bound.evaluate(x))
        exact = target.log_density(x + tau) - target.log_density(x)
        np.testing.assert_allclose((exact - found) / tau**3, error, rtol=1e-6)


def test_a_mixture_with_eight_nodes(library):
    mixture = gaussian_mixture(np.array([0.5, 0.5]), np.array([[-1.5, 0.0], [1.5, 1.0]]), np.array([1.0, 1.0]))
    x, y = (library.array(a) for a in np.random.default_rng(0).normal(size=(2, 50, 2)))
    known, errors = mixture.prepare(x, Capability.LOG_DENSITY), []
    exact = known.evaluate(y).log_density - known.evaluate(x).log_density
    for nodes in (2, 8):
        target = Target(mixture.log_density, score=mixture.score, data=mixture.data, acceptance=LineIntegral(nodes))
        bound = target.prepare(x, RATIO)
        found = bound.log_ratio(bound.evaluate(y), bound.evaluate(x))
        errors.append(np.max(np.abs(library.host(found - exact))))
    assert errors[1] < 2e-3 and errors[0] > 0.05


KERNELS = {
    "RWM": RWM(0.7),
    "PCN": PCN(0.4),
    "independent": IndependentMH(0.0),
    "MALA": MALA(0.3),
    "HMC": HMC(0.3, 4),
    "SR-MALA": SRMC(MALA(0.3), alpha=0.5, tilt=Exact()),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_score_alone_gives_the_chain_that_the_density_gives(kernel, library):
    """Of a Gaussian one node is exact, so the chains are equal."""
    x0 = library.array(np.random.default_rng(1).normal(size=(3, 2)))
    found = sample(gaussian(LineIntegral(1)), kernel, x0, 100, seed=Portable(2), progress=False)
    exact = sample(KNOWN, kernel, x0, 100, seed=Portable(2), progress=False)
    np.testing.assert_allclose(library.host(found.draws), library.host(exact.draws), rtol=1e-9, atol=1e-10)
    assert 0.1 < np.mean(found.run_statistics.moved) <= 1
    assert found.run_statistics.evaluations["log_density"] == 0 or isinstance(kernel, SRMC)


def test_a_tempered_score():
    x0 = np.random.default_rng(1).normal(size=(3, 2))
    targets = (Tempered(target, 0.4) for target in (gaussian(LineIntegral(2)), KNOWN))
    found, exact = (sample(target, MALA(0.5), x0, 50, seed=3, progress=False).draws for target in targets)
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_averaged_taylor_under_mala_compares_scores():
    """The oracle of Score-MH: the whole log ratio is eta / 4 (|s(x)|^2 - |s(x')|^2), whatever the score."""
    target = Target(None, score=lambda x: np.sin(3 * x) - x, acceptance=Taylor(1))
    x0, eta = np.random.default_rng(4).normal(size=(200, 3)), 0.2
    kernel = MALA(eta)
    bound = target.prepare(x0, kernel.requires)
    rng = np.random.default_rng(5)
    noise = {"proposal": rng.normal(size=x0.shape), "accept": np.full(200, 1 - 1e-12)}
    _, info = kernel.step(bound, kernel.init(bound, x0), noise)
    y = x0 + eta * target.score(x0) + np.sqrt(2 * eta) * noise["proposal"]
    log_ratio = eta / 4 * np.sum(target.score(x0) ** 2 - target.score(y) ** 2, axis=-1)
    np.testing.assert_allclose(info.acceptance_probability, np.minimum(1, np.exp(log_ratio)), rtol=1e-10)


@pytest.mark.parametrize(
    ("target", "kernel", "message"),
    [
        (gaussian(LineIntegral(1)), ParallelTempering(MALA(0.1), (1.0, 0.5)), "LineIntegral gives their ratios only"),
        (gaussian(xps.targets.acceptance.ByDensity()), MALA(0.1), r"acceptance=LineIntegral\(\)"),
        (
            Target(None, score=lambda x: x, space=Spins(), acceptance=Taylor()),
            RWM(0.1),
            "along segments of real",
        ),
    ],
    ids=["tempering", "no acceptance", "spins"],
)
def test_what_is_refused(target, kernel, message):
    with pytest.raises(CapabilityError, match=message):
        sample(target, kernel, np.ones((2, 2)), 1, seed=1)


@pytest.mark.parametrize("make", [lambda: LineIntegral(0), lambda: LineIntegral(2.0), lambda: Taylor(3)])
def test_out_of_range(make):
    with pytest.raises(HyperparameterError):
        make()
