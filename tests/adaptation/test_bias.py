"""Unadjusted kernels: the step size keeps the bias that is stated, on Gaussians that are and are not round."""

import numpy as np
import pytest

import xpsample as xps
from tests.adaptation.rules_support import gaussian, normals, rotated
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import MYULA, ULA, UnderdampedLangevin
from xpsample.targets import posterior

PRECISIONS = {"round": np.eye(10), "scaled": np.diag(np.geomspace(0.01, 100.0, 10)), "rotated": rotated(20, 100.0)}
STARTS = {"spread": (1.0, 64), "at the mode": (0.0, 64), "far": (100.0, 64), "few": (1.0, 4)}


def largest_bias(kernel, precision):
    """Of the variances of a tuned kernel on a Gaussian: of the positions of ULA, of the momenta of BAOAB."""
    diagonal = 1 / kernel.mass if isinstance(kernel, UnderdampedLangevin) else kernel.preconditioner
    root = np.sqrt(diagonal)
    curvature = np.max(np.linalg.eigvalsh(root[:, None] * precision * root))
    if isinstance(kernel, UnderdampedLangevin):
        return kernel.step_size**2 * curvature / 4
    return kernel.step_size * curvature / (2 - kernel.step_size * curvature)


def tuned(kernel, precision, start="spread"):
    scale, chains = STARTS[start]
    x0 = scale * normals(chains, len(precision))
    return xps.sample(gaussian(precision), kernel, x0, 1, seed=xps.Portable(1), progress=False).kernel


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kernel", [ULA, UnderdampedLangevin])
@pytest.mark.first_cases(3)
def test_the_bias_is_the_stated_one(kernel, precision, start):
    found = largest_bias(tuned(kernel(), PRECISIONS[precision], start), PRECISIONS[precision])
    assert 0.025 < found < 0.065


def test_another_bias():
    assert largest_bias(tuned(ULA(xps.BoundedBias(0.01)), np.eye(10)), np.eye(10)) == pytest.approx(0.01, rel=0.1)
    with pytest.raises(HyperparameterError, match="bias must be greater than 0 and below 1"):
        xps.BoundedBias(1.0)


@pytest.mark.slow
def test_one_chain():
    kernel = xps.sample(gaussian(np.eye(5)), ULA(), np.zeros(5), 1, seed=1).kernel
    assert 0.025 < largest_bias(kernel, np.eye(5)) < 0.06


def test_minibatches():
    rows = normals(100, 3)
    target = posterior(
        lambda x: -0.5 * np.sum(x**2, axis=-1),
        lambda x, y: -0.5 * np.sum((y - x[..., None, :]) ** 2, axis=(-1, -2)),
        rows,
        prior_score=lambda x: -x,
        likelihood_score=lambda x, y: np.sum(y - x[..., None, :], axis=-2),
    )
    kernel = xps.sample(target, xps.Minibatch(ULA(), 10), np.zeros((200, 3)), 1, seed=xps.Portable(1)).kernel.base
    # x' = (1 - eta p) x + noise of variance 2 eta + eta^2 v, with v the variance of the scores and eta in units of x^2.
    eta, noise = kernel.step_size * kernel.preconditioner, 100**2 / 10 * np.var(rows, axis=0)
    excess = 101 * (2 * eta + eta**2 * noise) / (1 - (1 - 101 * eta) ** 2) - 1
    assert 0.05 < np.max(excess) < 0.12
    with pytest.raises(HyperparameterError, match=r"UnderdampedLangevin\.step_size is unset inside Minibatch"):
        xps.Minibatch(xps.SRLD(UnderdampedLangevin(), 1.0, xps.Rolling(3, 3)), 10)


def test_moreau_envelopes():
    def tuned(**settings):
        kernel = MYULA(regularizer=xps.L1(), **settings)
        return xps.sample(gaussian(np.diag([1.0, 4.0])), kernel, normals(64, 2), 1, seed=1).kernel

    kernel, given = tuned(), tuned(smoothing=0.01)
    assert kernel.smoothing == pytest.approx(1 / 4, rel=0.1)
    assert kernel.step_size == pytest.approx(0.1 / 1.05 / 8, rel=0.1)
    assert given.smoothing == 0.01 and given.step_size == pytest.approx(0.1 / 1.05 / 104, rel=0.05)
