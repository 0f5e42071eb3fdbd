"""From the true score of N(0, 1) to chains whose law is right where ULA's is not."""

import numpy as np
import pytest
from scipy import stats

from xpsample import MALA, ULA, Portable, Target, sample, score_mh
from xpsample.core import tree
from xpsample.core.registry import to_host
from xpsample.optimize.optimizers import Adam

STEP, CHAINS = 0.8, 100_000


def score(x):
    return -x


@pytest.fixture(scope="module")
def trained():
    """400 updates of the loss of Eq. 7, by torch."""
    torch = pytest.importorskip("torch")
    data = torch.tensor(np.random.default_rng(0).standard_normal((4000, 1)))
    loss = score_mh.ScoreBalance(score_mh.LangevinProposal(STEP), score, pairs="local", alpha=(1.0, 1.0))
    start = score_mh.init_acceptance_network(1, 24, seed=2, blocks=1)
    found = score_mh.fit(
        loss,
        start,
        data,
        epochs=20,
        steps_per_epoch=20,
        batch_size=256,
        seed=Portable(3),
        optimizer=Adam(1e-2),
        validation=data[:1000],
    )
    assert found.validation_losses.min() < 1e-3
    return tree.map(to_host, found.parameters)


@pytest.mark.slow
def test_detailed_balance_on_a_grid(trained):
    """log a(x', x) - log a(x, x') against log r: within 0.1 on [-3, 3]^2, 0.01 in the mean over p(x) q(x' | x)."""
    q, grid = score_mh.LangevinProposal(STEP), np.linspace(-3, 3, 61)
    x, y = (a.reshape(-1, 1) for a in np.meshgrid(grid, grid))
    log_a = [score_mh.log_sigmoid(score_mh.acceptance_network(*pair, trained)) for pair in ((y, x), (x, y))]
    log_q = [q.log_density(x, y, -y), q.log_density(y, x, -x)]
    log_r = 0.5 * (x**2 - y**2)[:, 0] + log_q[0] - log_q[1]
    error = log_a[0] - log_a[1] - log_r
    weight = np.exp(-0.5 * x[:, 0] ** 2 + log_q[1])
    assert np.max(np.abs(error)) < 0.1 and np.sqrt(np.average(error**2, weights=weight)) < 0.01
    assert np.sqrt(np.average(log_r**2, weights=weight)) > 0.3  # beside which that is little


def run(kernel, target):
    """Chains that begin too wide, after 20 steps."""
    x0 = 1.5 * np.random.default_rng(4).standard_normal((CHAINS, 1))
    return sample(target, kernel, x0, 1, burn_in=19, seed=5).draws[0, :, 0]


@pytest.mark.slow
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("direct", [False, True])
def test_the_law_of_the_chains(direct, trained):
    """By Kolmogorov-Smirnov: 0.0085, of error probability 1e-6 for independent exact draws, and 0.003 for a's error."""
    acceptance = score_mh.Learned(score_mh.acceptance_network, trained, score_mh.LangevinProposal(STEP), direct)
    x = run(MALA(STEP), Target(None, score=score, acceptance=acceptance))
    assert stats.kstest(x, "norm").statistic < 0.0115
    assert abs(np.var(x) - 1) < 0.03


def test_without_acceptance_the_law_is_another():
    x = run(ULA(STEP), Target(None, score=score))
    assert abs(np.var(x) - 1 / (1 - STEP / 2)) < 0.04
    assert stats.kstest(x, "norm").statistic > 0.05
