"""A diagonal and a few directions: what is left of the condition of Gaussians that are of this form, and of others."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.adaptation.rules_support import gaussian, normals
from tests.adaptation.test_single_rules import seen
from xpsample.adaptation import LowRankMetric
from xpsample.adaptation.low_rank import EVERY
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import HMC, MALA, MAMS, MCLMC, NUTS, RWM
from xpsample.kernels.adapted import with_tuning
from xpsample.targets import Point

VARIANCES = np.asarray([100.0, 1000.0, 0.01])


def covariance(dim, variances=VARIANCES, seed=1):
    """A diagonal of sds from about 0.1 to 10, and in units of it a few directions of other variances."""
    rng = np.random.default_rng(seed)
    sd, axes = np.exp(rng.normal(size=dim)), np.linalg.qr(rng.normal(size=(dim, len(variances))))[0]
    return sd[:, None] * (np.eye(dim) + (axes * (variances - 1)) @ axes.T) * sd


def left(mass, covariance):
    """The condition of a covariance in units of an inverse mass."""
    dim = len(covariance)
    mass = mass.product(np.eye(dim)) if isinstance(mass, xps.LowRankCovariance) else np.diag(mass)
    values = np.linalg.eigvals(mass @ covariance).real
    return np.max(values) / np.min(values)


def tuned(kernel, covariance, *chains, warmup=100, scale=1.0):
    x0 = scale * normals(*chains, len(covariance))
    target = gaussian(np.linalg.inv(covariance))
    return xps.sample(target, kernel, x0, 1, warmup=warmup, seed=xps.Portable(1), progress=False).kernel


@pytest.mark.parametrize("chains", [pytest.param((), marks=pytest.mark.slow), (4,), (128,)], ids=["1", "4", "128"])
def test_what_is_left_of_the_condition(chains):
    """The diagonal leaves 1e5, as the ratio of the variances says; few directions in 60 coordinates leave next to
    nothing. One chain, which moves slowly before that, leaves more."""
    kernel = MALA(preconditioner=LowRankMetric())
    found = tuned(kernel, covariance(60), *chains, warmup={(): 900, (4,): 400, (128,): 100}[chains]).preconditioner
    assert left(found.inverse(), covariance(60)) < (30 if chains == () else 5)
    assert found.sd.shape == (60,) and found.vectors.shape == (60, 10) and found.values.shape == (10,)
    diagonal = tuned(MALA(), covariance(60), *chains).preconditioner
    assert left(1 / diagonal, covariance(60)) > 1e3


@pytest.mark.parametrize("make", [HMC, NUTS, MAMS, MCLMC])
def test_kernels_that_take_it(make):
    found = tuned(make(mass=LowRankMetric()), covariance(20), 16, warmup=150).mass
    assert left(found, covariance(20)) < 6
    # A twin: the inverse of what it should be.
    assert left(found.inverse(), covariance(20)) > 1e6


def estimate(x, score, directions=10, counts=None):
    """Of draws and scores (n, dim)."""
    rule = LowRankMetric(directions)
    memory = rule.init(numpy_xp, Point(x[:1], None, score[:1]), True)
    counts = np.ones((len(x), 1)) if counts is None else counts
    found = rule._estimate(seen(1, 10, np.ones(1), x), memory.estimate, x, score, counts)
    return rule.value(numpy_xp, memory._replace(estimate=found), None), found


def test_few_draws_of_a_gaussian_are_enough_wherever_they_are():
    """60 draws in 300 coordinates, far from the mean and far too close to one another."""
    full = covariance(300)
    x = 50.0 + 0.01 * np.random.default_rng(2).normal(size=(60, 300)) @ np.linalg.cholesky(full).T
    found, _ = estimate(x, -x @ np.linalg.inv(full))
    assert left(found.inverse(), full) < 8
    # What shrinks logarithms by 60 / 65 leaves 1000^(5/65) and 0.01^(5/65), and the diagonal moves a little.
    assert np.sum(found.values > 50) == 2 and np.sum(found.values < 0.02) == 1


def test_nothing_is_scaled_where_nothing_is_far_off():
    x = normals(20, 300)
    found, _ = estimate(x, -x)
    np.testing.assert_array_equal(found.values, 1.0)
    np.testing.assert_array_equal(found.vectors, 0.0)
    np.testing.assert_array_equal(found.sd, 1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("count", "dim"), [(0, 4), (1, 4), (2, 40), (5, 40), (50, 2), (50, 1)])
def test_few_draws_or_coordinates(count, dim, dtype):
    """No draw, one, two; fewer than directions; fewer coordinates than directions."""
    full = covariance(dim, np.asarray([100.0])) if dim > 1 else np.asarray([[9.0]])
    x = np.random.default_rng(2).normal(size=(60, dim)) @ np.linalg.cholesky(full).T
    score = -x @ np.linalg.inv(full)
    found, raw = estimate(x.astype(dtype), score.astype(dtype), counts=(np.arange(60) < count).astype(dtype)[:, None])
    HMC(0.1, 2, mass=found.of_one_group())  # whose checks it passes
    assert all(a.dtype == dtype for a in raw)
    if count < 2:
        np.testing.assert_array_equal(found.sd, 1.0)
        np.testing.assert_array_equal(found.values, 1.0)
    if count == 50:
        assert left(found.of_one_group().inverse(), full) < 2


def test_coordinates_that_do_not_move_and_scores_that_are_not_finite():
    full = covariance(20)
    x = np.random.default_rng(2).normal(size=(64, 20)) @ np.linalg.cholesky(full).T
    score = -x @ np.linalg.inv(full)
    still = np.concatenate([x, np.full((64, 1), 3.0)], axis=-1), np.concatenate([score, normals(64, 1)], axis=-1)
    found, _ = estimate(*still)
    assert found.sd[0, -1] == 1.0
    np.testing.assert_array_equal(found.vectors[-1], 0.0)
    assert left(xps.LowRankCovariance(found.sd[:, :-1], found.vectors[:-1], found.values).inverse(), full) < 6

    bad = np.where(np.arange(64)[:, None] == 3, np.nan, score)
    memory = LowRankMetric().init(numpy_xp, Point(x, None, bad), True)
    np.testing.assert_array_equal(memory.made[0] < 0, np.arange(64) == 3)
    assert np.all(np.isfinite(memory.score))
    huge, _ = estimate(1e100 * x, 1e100 * score)
    HMC(0.1, 2, mass=huge.of_one_group())


def test_the_last_draws_are_kept():
    """With 4 chains 32 slots, which hold draws of the last two thirds at every step, none of them empty or twice."""
    rule = LowRankMetric()
    x = np.zeros((4, 2))
    memory = rule.init(numpy_xp, Point(x, None, -x), True)
    for n in range(1, 400):
        memory, _ = rule.update(memory, seen(n, 1000, np.ones(4), x + n, -x, info=None))
        made = np.sort(memory.made[:, 0][memory.made[:, 0] >= n / 3])
        assert made[-1] == n and len(np.unique(made)) == len(made)
        assert len(made) >= min(n // 6, 20)
        if n >= 60:
            assert made[0] <= 1.1 * n / 3 + 5
            assert np.max(np.diff(made)) <= 1 + 0.06 * n
    np.testing.assert_array_equal(memory.x[:, 0, 0], memory.made[:, 0])


def test_the_signs_of_the_directions_do_not_count(monkeypatch):
    """Libraries are free in them."""
    full = covariance(12)
    x = np.random.default_rng(2).normal(size=(64, 12)) @ np.linalg.cholesky(full).T
    one, _ = estimate(x, -x @ np.linalg.inv(full))
    eigh = np.linalg.eigh

    def turned(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * np.where(np.arange(vectors.shape[-1]) % 2, 1.0, -1.0)

    monkeypatch.setattr(np.linalg, "eigh", turned)
    other, _ = estimate(x, -x @ np.linalg.inv(full))
    assert np.any(one.vectors != other.vectors)
    np.testing.assert_allclose(other.product(np.eye(12)), one.product(np.eye(12)), rtol=1e-10, atol=1e-10)


def test_groups_tune_as_each_would_alone():
    """Given the same noise."""
    full = covariance(6)
    x0, warming = normals(3, 8, 6), with_tuning(HMC(steps=3, mass=LowRankMetric()), 40, pooled=True)
    target = gaussian(np.linalg.inv(full)).prepare(x0, warming.requires)
    rng = np.random.default_rng(1)
    together, alone = warming.init(target, x0), [warming.init(target, x) for x in x0]
    for _ in range(40):
        noise = {name: rng.uniform(size=spec.shape) for name, spec in warming.noise(x0).items()}
        together, _ = warming.step(target, together, noise)
        for g in range(3):
            alone[g], _ = warming.step(target, alone[g], {name: rows[g] for name, rows in noise.items()})
    for g in range(3):
        own, shared = (warming.path(numpy_xp, state.memory) for state in (alone[g], together))
        for name in own:
            np.testing.assert_allclose(own[name], shared[name][g], rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_run_with_it_has_the_moments(dtype):
    full = covariance(30)
    target, x0 = gaussian(np.linalg.inv(full).astype(dtype)), normals(64, 30).astype(dtype)
    trace = xps.sample(target, HMC(mass=LowRankMetric()), x0, 200, seed=1, progress=False)
    # 64 chains of 200 draws, and a third of them at least count: variances are known to 2.2 %, 5 of those.
    np.testing.assert_allclose(np.mean(trace.draws**2, axis=(0, 1)), np.diag(full), rtol=0.11)
    assert trace.run_statistics.evaluations["score"] < 8
    mass = trace.kernel.mass
    assert mass.sd.dtype == mass.vectors.dtype == mass.values.dtype == dtype
    again = xps.sample(target, trace.kernel, trace.draws[-1], 5, warmup=0, seed=1, progress=False)
    assert again.kernel is trace.kernel


def test_kernels_without_scores_are_refused():
    with pytest.raises(HyperparameterError, match="LowRankMetric needs scores"):
        tuned(RWM(covariance=LowRankMetric()), covariance(4), 4)


def test_an_estimate_is_made_at_every_tenth_step():
    rule, rng = LowRankMetric(), np.random.default_rng(0)
    x = rng.normal(size=(4, 3))
    memory, made = rule.init(numpy_xp, Point(x, None, -x), True), []
    for n in range(1, 101):
        x, before = rng.normal(size=(4, 3)), memory.estimate
        memory, _ = rule.update(memory, seen(n, 1000, np.ones(4), x, -x / 9, info=None))
        if np.any(memory.estimate.log_sd != before.log_sd):
            made.append(n)
    assert made[-1] == 100 and all(n % EVERY == 0 for n in made), made
