"""SRMC over blocks breaks on a model whose real parameters are normal, where a block takes long steps.

The ratio of a discrete parameter's probabilities grows like an exponential of the real ones, so any tilt by it has no
integral: with RWM left to its tuning, which takes long steps, the mean of mu^2 was 8 standard deviations off.
"""

import numpy as np
import pytest

import xpsample as xps
from xpsample.kernels.compose import on_target

MODEL = xps.Model(
    lambda p: 0.7 * p.z - 0.5 * (p.mu - p.z) ** 2, z=xps.Binary(()), mu=xps.Real(), gradient=xps.FiniteDifference()
)
ODDS = 1 / (1 + np.exp(-0.7))


def start(chains):
    generator = np.random.default_rng(0)
    z = (generator.random(chains) < ODDS).astype(float)
    return np.stack([z, z + generator.normal(size=chains)], axis=-1)


@pytest.mark.parametrize("step", [None, 4.4], ids=["tuned", "long"])
@pytest.mark.parametrize("alpha", [0.05, None])
@pytest.mark.first_cases(1)
def test_the_moments_are_right(step, alpha):
    """From exact draws; means of 400 chains within 5.7 standard errors and 2 % of a standard deviation."""
    kernel = xps.SRMC(xps.Blocks({"z": xps.Gibbs(), "mu": xps.RWM(step)}), alpha)
    draws = xps.sample(MODEL, kernel, start(400), 150, seed=1, progress=False).draws
    z, mu = draws[..., 0], draws[..., 1]
    for values, exact, sd in ((z, ODDS, 0.47), (mu, ODDS, 1.1), (mu * mu, 1 + ODDS, 2.1)):
        means = values.mean(axis=0)
        assert abs(means.mean() - exact) < 5.7 * means.std() / 20 + 0.02 * sd


def test_the_score_is_bounded_and_has_mean_zero_given_all_else():
    """However far out the real parameter is; by enumeration of the discrete one."""
    mu = np.linspace(-300.0, 300.0, 61)
    both = np.stack([np.stack([z + 0 * mu, mu], axis=-1) for z in (0.0, 1.0)])
    kernel = xps.SRMC(xps.Blocks({"z": xps.Gibbs(), "mu": xps.RWM(1.0)}), 0.05)
    bound = MODEL.prepare(both, kernel.requires)
    score = on_target(kernel, bound, both).init(bound, both).score[..., 0]
    assert np.all((score >= -0.5) & (score <= 4.0))
    change = 0.7 + mu - 0.5
    odds = np.exp(np.stack([-np.logaddexp(0.0, change), -np.logaddexp(0.0, -change)]))
    np.testing.assert_allclose(np.sum(odds * score, axis=0), 0.0, atol=1e-12)
    assert np.max(np.abs(score)) > 3.9
