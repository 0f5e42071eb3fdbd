"""Regression networks: the posterior by SciPy and a loop over units, its score, ensembles of splits, predictions."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import gamma, norm

from xpsample import ULA, Minibatch, Replay, sample
from xpsample.experiments.srld.regression_network import dimension, predict, predictive, regression_network
from xpsample.gradients import NativeGradient
from xpsample.targets import Capability, check_gradient

RNG = np.random.default_rng(0)
SPLITS, CHAINS, ROWS, FEATURES, HIDDEN = 3, 2, 7, 2, 2
DIM = 10
INPUTS, OUTPUTS = RNG.normal(size=(SPLITS, ROWS, FEATURES)), RNG.normal(size=(SPLITS, ROWS))
X = RNG.normal(size=(SPLITS, CHAINS, DIM))
PRIOR = {"prior_variance": 2.0, "shape": 3.0, "rate": 0.5}
BOTH = Capability.LOG_DENSITY | Capability.SCORE


def output(x, row):
    """One network, one row, unit by unit."""
    total = x[8]
    for j in range(HIDDEN):
        total += x[6 + j] * math.tanh(row[0] * x[j] + row[1] * x[2 + j] + x[4 + j])
    return total


def direct(x, inputs, outputs):
    """The log density of one position with all its constants; the last coordinate is log gamma."""
    sd = math.exp(-0.5 * x[-1])
    f = [output(x, row) for row in inputs]
    prior = norm.logpdf(x[:-1], scale=math.sqrt(2.0)).sum() + gamma.logpdf(math.exp(x[-1]), 3.0, scale=2.0) + x[-1]
    return prior + norm.logpdf(outputs, f, sd).sum()


def all_direct(x):
    return np.array([[direct(one, INPUTS[s], OUTPUTS[s]) for one in x[s]] for s in range(SPLITS)])


def ensemble():
    return regression_network(INPUTS[:, None], OUTPUTS[:, None], HIDDEN, **PRIOR)


def test_log_density_but_for_one_constant(typed_library):
    x = typed_library.array(X)
    point = ensemble().prepare(x, BOTH).evaluate(x)
    assert point.log_density.dtype == point.score.dtype == x.dtype
    apart = typed_library.host(point.log_density) - all_direct(X)
    tolerance = 1e-4 if typed_library.dtype == "float32" else 1e-11
    np.testing.assert_allclose(apart, apart[0, 0], atol=tolerance * 10)


def test_score_by_central_differences_of_the_direct_density(library):
    h = 1e-5
    slopes = np.stack([(all_direct(X + h * e) - all_direct(X - h * e)) / (2 * h) for e in np.eye(DIM)], axis=-1)
    x = library.array(X)
    found = library.host(ensemble().prepare(x, Capability.SCORE).score(x))
    np.testing.assert_allclose(found, slopes, rtol=1e-6, atol=1e-6)


def test_score_by_automatic_differentiation(differentiating):
    x = differentiating.array(X)
    derived = ensemble().without_own_derivatives(NativeGradient()).prepare(x, Capability.SCORE).score(x)
    given = ensemble().prepare(x, Capability.SCORE).score(x)
    np.testing.assert_allclose(differentiating.host(given), differentiating.host(derived), rtol=1e-10, atol=1e-12)


def test_score_at_the_papers_size():
    inputs, outputs = RNG.normal(size=(30, 13)), RNG.normal(size=30)
    target = regression_network(inputs, outputs)
    check_gradient(target, 0.3 * RNG.normal(size=(2, dimension(13))))


def test_chains_of_a_split_see_its_rows_only(library):
    """A batch of splits is every split's own posterior; and one split's rows serve all chains."""
    x = library.array(X)
    whole = library.host(ensemble().prepare(x, BOTH).evaluate(x).log_density)
    for s in range(SPLITS):
        alone = regression_network(INPUTS[s], OUTPUTS[s], HIDDEN, **PRIOR)
        one = library.array(X[s])
        np.testing.assert_allclose(
            library.host(alone.prepare(one, BOTH).evaluate(one).log_density), whole[s], rtol=1e-11
        )


@pytest.mark.parametrize("common", [False, True])
def test_batches_of_each_splits_own_rows_by_hand(common, library):
    n, eta, steps = 4, 0.01, 3
    u = np.random.default_rng(1).random((steps, n) if common else (steps, SPLITS, CHAINS, n))
    z = np.random.default_rng(2).normal(size=(steps, SPLITS, CHAINS, DIM))
    posteriors = [regression_network(INPUTS[s], OUTPUTS[s], HIDDEN, **PRIOR) for s in range(SPLITS)]
    prior = Capability.SCORE

    def batch_score(s, x, rows):
        """By full scores of other data: N / n times that of the rows, and the prior once."""
        some = regression_network(INPUTS[s][rows], OUTPUTS[s][rows], HIDDEN, **PRIOR).prepare(x, prior).score(x)
        alone = prior_score(x)
        return alone + ROWS / n * (some - alone)

    def prior_score(x):
        return np.append(-x[:-1] / 2.0, 3.0 - 0.5 * math.exp(x[-1]))

    x, expected = X, []
    drift = np.stack([posteriors[s].prepare(X[s], prior).score(X[s]) for s in range(SPLITS)])
    for k in range(steps):
        x = x + eta * drift + math.sqrt(2 * eta) * z[k]
        rows = np.broadcast_to(np.floor(u[k] * ROWS).astype(int), (SPLITS, CHAINS, n))
        drift = np.array([[batch_score(s, x[s, c], rows[s, c]) for c in range(CHAINS)] for s in range(SPLITS)])
        expected.append(x)
    noise = Replay({"rows": library.array(u), "proposal": library.array(z)})
    kernel = Minibatch(ULA(eta), n, common)
    trace = sample(ensemble(), kernel, library.array(X), steps, seed=noise, progress=False)
    np.testing.assert_allclose(library.host(trace.draws), expected, rtol=1e-9)


def test_predictive_by_scipy(library):
    """Draws (draw, splits, chains, dim) against the rows of their split, in the units of the outputs."""
    draws = np.random.default_rng(3).normal(size=(5, SPLITS, CHAINS, DIM))
    location, scale = np.array([3.0, -1.0, 0.5]), np.array([2.0, 0.5, 1.5])
    y = location[:, None] + scale[:, None] * 4 * OUTPUTS  # far enough out that not all rows are covered
    arrays = INPUTS[:, None], y[:, None], location[:, None, None], scale[:, None, None]
    library_arrays = [library.array(a) for a in arrays]
    measured = predictive(library.array(draws), *library_arrays, HIDDEN)
    f = library.host(predict(library.array(draws), library_arrays[0], HIDDEN))
    assert library.host(measured.coverage).min() < 1.0
    for s in range(SPLITS):
        for c in range(CHAINS):
            own = np.array([[output(x, row) for row in INPUTS[s]] for x in draws[:, s, c]])
            np.testing.assert_allclose(f[:, s, c], own, rtol=1e-12)
            own = location[s] + scale[s] * own
            sd = scale[s] * np.exp(-0.5 * draws[:, s, c, -1:])
            log_likelihood = np.mean(logsumexp(norm.logpdf(y[s], own, sd), axis=0) - math.log(5))
            total = np.sqrt(own.var(axis=0) + np.mean(sd**2, axis=0))
            inside = norm.cdf(np.abs(y[s] - own.mean(axis=0)) / total) < 0.95
            expected = {
                "rmse": np.sqrt(np.mean((own.mean(axis=0) - y[s]) ** 2)),
                "log_likelihood": log_likelihood,
                "coverage": np.mean(inside),
                "spread": np.sqrt(np.mean(own.var(axis=0))),
            }
            for name, value in expected.items():
                found = library.host(getattr(measured, name))[s, c]
                np.testing.assert_allclose(found, value, rtol=1e-10, err_msg=name)


def test_predictive_of_plain_numbers_is_that_of_arrays():
    draws = np.random.default_rng(4).normal(size=(5, DIM))
    plain = predictive(draws, INPUTS[0], 6 * OUTPUTS[0], 1.0, 2.0, HIDDEN)
    arrays = predictive(draws, INPUTS[0], 6 * OUTPUTS[0], np.array([1.0]), np.array([2.0]), HIDDEN)
    np.testing.assert_allclose(plain, arrays, rtol=1e-14)
    assert 0 < plain.coverage < 1


def test_coverage_of_the_models_own_rows():
    """Rows drawn from the network at one position are inside with probability 0.9: 5 standard errors of 20,000 rows."""
    x, rng = X[0, 0], np.random.default_rng(5)
    inputs = rng.normal(size=(20_000, FEATURES))
    y = predict(x, inputs, HIDDEN) + math.exp(-0.5 * x[-1]) * rng.standard_normal(20_000)
    found = predictive(np.stack([x, x]), inputs, y, hidden=HIDDEN)
    assert abs(found.coverage - 0.9) < 5 * math.sqrt(0.09 / 20_000)
