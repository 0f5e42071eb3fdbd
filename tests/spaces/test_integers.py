"""Integers: their random walk against exact matrices, and counts in models against sums."""

import numpy as np
import pytest
from scipy import special, stats

import xpsample as xps
from xpsample.core.errors import CapabilityError, HyperparameterError, PositionError
from xpsample.core.registry import namespace
from xpsample.densities import binomial, poisson
from xpsample.spaces import space_from_json


def matrix(space, step_size, states):
    """Proposal probabilities of one variable, from the quantiles of 20,001 normals."""
    kernel, n = xps.RWM(step_size), 20_001
    x = np.repeat(np.asarray(states, dtype=float), n)[:, None]
    target = xps.Target(lambda x: 0.0 * x[..., 0], space=space).prepare(x, kernel.requires)
    normals = np.tile(stats.norm.ppf((np.arange(n) + 0.5) / n), len(states))[:, None]
    state, _ = kernel.step(target, kernel.init(target, x), {"proposal": normals, "accept": np.full(len(x), 1e-300)})
    moved = state.point.x.reshape(len(states), n)
    return np.mean(moved[..., None] == states, axis=1)


@pytest.mark.parametrize("step_size", [0.1, 0.7, 9.0])
@pytest.mark.parametrize("space", [xps.Integers(-1, 3), xps.Integers(2, 3), xps.Integers(0)], ids=repr)
def test_the_walk_is_a_rounded_normal_that_stays_inside(space, step_size):
    states = np.arange(space.low, 30 if space.high is None else space.high + 1)
    away, sd = states - states[:, None], max(step_size, 0.25)
    expected = stats.norm.cdf((away + 0.5) / sd) - stats.norm.cdf((away - 0.5) / sd)
    np.fill_diagonal(expected, 0.0)
    found = matrix(space, step_size, states)
    np.fill_diagonal(found, 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-4)


COUNTS, LOW, HIGH = np.array([16.0, 18, 22, 25, 27]), 27, 400


def by_mean(p, counts):
    """n with weight 1 / n, and a share with density Beta(4, 8), by their product."""
    xp = namespace(p.mean)
    share = xp.where(p.mean < p.n, p.mean / p.n, 0.5 + 0 * p.n)
    prior = 3 * xp.log(share) + 7 * xp.log1p(-share) - 2 * xp.log(p.n)
    logit = xp.log(share) - xp.log1p(-share)
    density = prior + xp.sum(binomial(counts, p.n[..., None], logit[..., None]), axis=-1)
    return xp.where(p.mean < p.n, density, -float("inf"))


def counted():
    return xps.Model(by_mean, data=COUNTS, n=xps.Integers(LOW, HIGH), mean=xps.Positive(), constrained=True)


def test_a_binomial_of_unknown_n_and_share(library):
    """Against the sum over n: within 5 standard errors from 40 independent chains; error below 1e-4."""
    x0 = counted().start(like=library.array(np.zeros(0)), chains=40, seed=0, values={"n": 60.0, "mean": 21.0})
    kernel = xps.Blocks({"n": xps.RWM(25.0), "mean": xps.RWM(0.2)})
    trace = xps.sample(counted(), kernel, x0, 400, seed=1, burn_in=100, progress=False)
    n = np.arange(LOW, HIGH + 1)
    log = np.sum(special.gammaln(n[:, None] + 1) - special.gammaln(n[:, None] - COUNTS + 1), axis=-1) - np.log(n)
    total = COUNTS.sum()
    log = log + special.betaln(total + 4, 5 * n - total + 8)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    found_n = library.host(trace["n"]).astype(np.float64)
    assert np.all(found_n == np.round(found_n)) and found_n.min() >= LOW and found_n.max() <= HIGH
    share = library.host(trace["mean"]) / found_n
    for found, exact in (
        (found_n < 60, weights[n < 60].sum()),
        (np.log(found_n), (weights * np.log(n)).sum()),
        (share, (weights * (total + 4) / (5 * n + 12)).sum()),
    ):
        means = found.mean(axis=0)
        assert abs(means.mean() - exact) < 5 * means.std() / 40**0.5 + 1e-4


def test_the_width_is_tuned_for_every_variable():
    """Poisson counts with means of 2, 200 and 20,000, all at once and in a block."""
    rates = np.array([2.0, 200.0, 20000.0])
    target = xps.Target(lambda x: poisson(x, np.log(rates)).sum(-1), space=xps.Integers())
    model = xps.Model(lambda p: poisson(p.k, np.log(rates)).sum(-1), k=xps.Integers(shape=3))
    x0 = np.tile(rates, (40, 1))
    for run, kernel in ((target, xps.RWM()), (model, xps.Blocks({"k": xps.RWM()}))):
        trace = xps.sample(run, kernel, x0, 1500, seed=1, progress=False)
        np.testing.assert_allclose(trace.draws.mean(axis=(0, 1)) / rates**0.5, rates**0.5, atol=0.2)
        np.testing.assert_allclose(trace.draws.std(axis=(0, 1)), rates**0.5, rtol=0.1)


def test_a_dense_covariance():
    """Two counts that depend on each other, against the sum over 21 x 21 states: error below 1e-5."""

    def log_density(x):
        return -0.5 * ((x[..., 0] - 6) ** 2 + (x[..., 1] - x[..., 0]) ** 2) / 8

    space = xps.Integers(0, 20)
    kernel = xps.RWM(1.5, np.array([[8.0, 8.0], [8.0, 16.0]]))
    x0 = np.full((200, 2), 6.0)
    trace = xps.sample(xps.Target(log_density, space=space), kernel, x0, 800, seed=1, burn_in=100, progress=False)
    states = np.stack(np.meshgrid(np.arange(21.0), np.arange(21.0), indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.exp(log_density(states))
    weights /= weights.sum()
    for f in (lambda x: x[..., 0], lambda x: x[..., 0] * x[..., 1], lambda x: x[..., 0] == 0, lambda x: x[..., 1] == 0):
        means = f(trace.draws).mean(axis=0)
        assert abs(means.mean() - np.sum(weights * f(states))) < 5 * means.std() / 200**0.5


def test_a_variable_that_hardly_varies_still_moves():
    """The other value has probability 0.002; its warm-up mostly sees one value, of standard deviation 0."""
    target = xps.Target(lambda x: np.log(0.002) * x[..., 0], space=xps.Integers(0, 1))
    trace = xps.sample(target, xps.RWM(), np.zeros((100, 1)), 4000, seed=1, progress=False)
    share = trace.draws.mean(axis=(0, 2))
    assert abs(share.mean() - 0.002 / 1.002) < 5 * share.std() / 10


@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 2**24), (np.float64, 2**53)])
def test_a_walk_ends_with_the_integers_of_its_dtype(dtype, most):
    """Beyond these, a step would be rounded to an even number, or to no step at all, without a word."""
    target = xps.Target(lambda x: x[..., 0] * 0, space=xps.Integers())
    x0 = np.full((50, 1), most - 3, dtype=dtype)
    trace = xps.sample(target, xps.RWM(2.0), x0, 200, seed=1, progress=False)
    assert trace.draws.dtype == dtype and trace.draws.max() == most
    np.testing.assert_array_equal(np.unique(trace.draws[trace.draws > most - 4] - most), [-3, -2, -1, 0])
    with pytest.raises(PositionError, match="of 0 in float"):
        xps.sample(target, xps.RWM(2.0), np.full((2, 1), 4 * most, dtype), 1, seed=1)


def test_starts_and_files():
    space = xps.Integers((0, 5), (9, 6), shape=2)
    model = xps.Model(lambda p: 0.0 * p.k[..., 0], k=space)
    x0 = model.start(like=np.zeros(0), chains=2000, seed=0)
    for column, (low, high) in zip(x0.T, ((0, 9), (5, 6)), strict=True):
        values, counts = np.unique(column, return_counts=True)
        np.testing.assert_array_equal(values, np.arange(low, high + 1))
        assert stats.chisquare(counts).pvalue > 1e-4
    assert space_from_json({"space": "Permutations"}) == xps.Permutations()  # as files of before had it
    assert xps.Model(lambda p: p.k, k=xps.Integers(3)).start(like=np.zeros(0), seed=0).min() >= 3


def test_a_run_is_resumed(tmp_path):
    kernel = xps.Blocks({"n": xps.RWM(), "mean": xps.RWM()})
    x0 = counted().start(like=np.zeros(0), chains=4, seed=0, values={"n": 60.0, "mean": 21.0})
    whole = xps.sample(counted(), kernel, x0, 40, seed=1, progress=False, warmup=50)
    for draws in (20, 40):
        trace = xps.sample(counted(), kernel, x0, draws, seed=1, progress=False, warmup=50, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(trace["n"], whole["n"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 0.5}, "low must hold integers up to .*; got 0.5"),
        ({"low": 0, "high": 1e300}, r"high must hold integers up to .*; got 1e\+300"),
        ({"low": 0, "high": 2**60}, r"high must hold .* 2\*\*53 in size, .*; got 1152921504606846976"),
        ({"low": 3, "high": 3}, "high must be above low; got low=3, high=3"),
        ({"low": (0, 1), "shape": 3}, r"has 2 bounds for values of shape \(3,\)"),
    ],
)
def test_bad_bounds(arguments, message):
    with pytest.raises(HyperparameterError, match=message):
        xps.Integers(**arguments)


@pytest.mark.parametrize(
    ("x0", "kernel", "error", "message"),
    [
        (np.full((2, 1), 6.0), xps.RWM(1.0), PositionError, r"must be on Integers\(low=0, high=5, shape=No.*; got 6"),
        (np.full((2, 1), 0.5), xps.RWM(1.0), PositionError, "got 0.5"),
        (np.zeros((2, 1), dtype=int), xps.RWM(1.0), PositionError, "real floating"),
        (np.zeros((2, 1)), xps.Gibbs(), CapabilityError, r"space is Integers\(\)"),
        (np.zeros((2, 1)), xps.PCN(0.5), CapabilityError, "moves real positions"),
        (np.zeros((2, 1)), xps.SRMC(xps.RWM(1.0), 0.1), CapabilityError, "Integers"),
    ],
    ids=["outside", "fraction", "dtype", "Gibbs", "PCN", "SRMC"],
)
def test_what_cannot_be_is_refused(x0, kernel, error, message):
    target = xps.Target(lambda x: -x[..., 0], space=xps.Integers(0, 5))
    with pytest.raises(error, match=message):
        xps.sample(target, kernel, x0, 2, seed=1, progress=False)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            xps.Blocks({"n": xps.Gibbs(), "mean": xps.RWM()}),
            r"Gibbs cannot move n, which is Integers\(low=27, high=400, shape=None\). Use a kernel such as RWM\(\)",
        ),
        (xps.Blocks({"n": xps.Slice(1.0), "mean": xps.RWM()}), "Slice moves real numbers, but n is discrete"),
        (xps.RWM(1.0), "use Blocks"),
    ],
    ids=["Gibbs", "Slice", "no blocks"],
)
def test_kernels_of_a_model_with_integers(kernel, message):
    with pytest.raises(CapabilityError, match=message):
        xps.sample(counted(), kernel, np.array([[60.0, 3.0]] * 4), 1, seed=1)
