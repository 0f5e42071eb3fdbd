"""Posteriors of rows and minibatches of them: the whole is a Target, batches are unbiased, SGLD by hand."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import array_namespace
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample import MALA, ULA, Minibatch, Replay, UnderdampedLangevin, sample
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels.minibatch import draw_rows
from xpsample.metrics.stein import RBF
from xpsample.srld import SRLD, Rolling
from xpsample.targets import Rows, posterior
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.logistic import logistic_regression

N, DIM, CHAINS, STEPS = 12, 3, 4, 6
GENERATOR = np.random.default_rng(0)
FEATURES = GENERATOR.normal(size=(N, DIM))
LABELS = (GENERATOR.random(N) < 0.5).astype(float)
ROWS = {"a": FEATURES * (2 * LABELS[:, None] - 1)}
START = GENERATOR.normal(size=(CHAINS, DIM))


def margins(x, rows):
    return (rows["a"] @ x[..., :, None])[..., 0]


def log_prior(x):
    return -0.5 * array_namespace(x).sum(x * x, axis=-1)


def log_likelihood(x, rows):
    xp = array_namespace(x)
    return -xp.sum(xp.log1p(xp.exp(-margins(x, rows))), axis=-1)


def likelihood_score(x, rows):
    xp = array_namespace(x)
    weight = 1.0 / (1.0 + xp.exp(margins(x, rows)))
    return xp.sum(weight[..., None] * rows["a"], axis=-2)


def target():
    return posterior(log_prior, log_likelihood, ROWS, prior_score=lambda x: -x, likelihood_score=likelihood_score)


def batch_score(x, rows):
    """Of one chain, with the rows of a batch."""
    weight = 1 / (1 + np.exp(ROWS["a"][rows] @ x))
    return -x + N / len(rows) * weight @ ROWS["a"][rows]


@pytest.mark.parametrize("kernel", [ULA(0.05), MALA(0.05)])
def test_without_batches_it_is_the_target(kernel, library):
    x0 = library.array(START)
    ours, theirs = (
        library.host(sample(t, kernel, x0, STEPS, seed=1, progress=False).draws)
        for t in (target(), logistic_regression(FEATURES, LABELS))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_its_score_by_automatic_differentiation(differentiating):
    given, derived = target(), posterior(log_prior, log_likelihood, ROWS)
    x0 = differentiating.array(START)
    a, b = (t.prepare(x0, ULA(0.1).requires).score(x0) for t in (given, derived))
    np.testing.assert_allclose(differentiating.host(b), differentiating.host(a), rtol=1e-9)


@pytest.mark.parametrize("common", [False, True])
def test_sgld_by_hand(common, library):
    n, eta = 5, 0.05
    uniforms = np.random.default_rng(1).random((STEPS, n) if common else (STEPS, CHAINS, n))
    normals = np.random.default_rng(2).normal(size=(STEPS, CHAINS, DIM))
    x, expected = START, []
    rows = np.broadcast_to(np.arange(N), (CHAINS, N))  # of the start: all
    for u, z in zip(uniforms, normals, strict=True):
        drift = np.stack([batch_score(x[i], rows[i]) for i in range(CHAINS)])
        x = x + eta * drift + math.sqrt(2 * eta) * z
        rows = np.broadcast_to(np.floor(u * N).astype(int), (CHAINS, n))
        expected.append(x)
    noise = Replay({"rows": library.array(uniforms), "proposal": library.array(normals)})
    kernel = Minibatch(ULA(eta), n, common)
    trace = sample(target(), kernel, library.array(START), STEPS, seed=noise, progress=False)
    np.testing.assert_allclose(library.host(trace.draws), expected, rtol=1e-9)
    assert trace.run_statistics.evaluations["score"] == 1


def test_batches_are_unbiased_by_enumeration():
    """The mean over all N^2 batches of two rows is the full score; all rows in order are the whole."""
    bound = target().prepare(START, ULA(0.1).requires)
    uniforms = (np.array(list(itertools.product(range(N), repeat=2))) + 0.5) / N
    batches = np.broadcast_to(uniforms[:, None], (N * N, CHAINS, 2))
    drawn = bound.with_data(draw_rows(numpy_xp, bound.data, batches))
    scores = drawn.score(np.broadcast_to(START, (N * N, CHAINS, DIM)))
    np.testing.assert_allclose(scores.mean(axis=0), bound.score(START), rtol=1e-12)
    assert scores.std(axis=0).min() > 0.1
    whole = bound.with_data(draw_rows(numpy_xp, bound.data, (np.arange(N) + 0.5) / N))
    np.testing.assert_allclose(whole.score(START), bound.score(START), rtol=1e-12)


@pytest.mark.parametrize("uniform", [np.nextafter(np.float32(1), np.float32(0)), 1.0], ids=["below-1", "1"])
def test_the_largest_uniforms_are_the_last_row(uniform, library32):
    """The library draws none of 1; noise that is replayed may hold it."""
    data = target().prepare(library32.array(START), ULA(0.1).requires).data
    last = draw_rows(library32.xp, data, library32.array(np.full(3, uniform))).rows["a"]
    np.testing.assert_allclose(library32.host(last), np.stack([ROWS["a"][-1]] * 3), rtol=1e-6)


def test_rows_of_several_leaves_and_dtypes(library):
    def residual(x, rows):
        return array_namespace(x).astype(rows["y"], x.dtype) - rows["w"][..., 0] * x[..., :1]

    def log_likelihood(x, rows):
        return -0.5 * array_namespace(x).sum(residual(x, rows) ** 2, axis=-1)

    def score(x, rows):
        return array_namespace(x).sum(rows["w"][..., 0] * residual(x, rows), axis=-1, keepdims=True) + 0 * x

    rows = {"y": np.arange(N), "w": np.linspace(0.1, 1, N)[:, None]}
    counted = posterior(log_prior, log_likelihood, rows, lambda x: -x, score)
    trace = sample(counted, Minibatch(ULA(1e-3), 3), library.array(START[:, :1]), 5, seed=1, progress=False)
    assert np.all(np.isfinite(library.host(trace.draws)))


@pytest.mark.parametrize("common", [False, True])
def test_batches_come_from_the_chains_own_set(common, library):
    """Rows carry the number of their set and their own: a batch has those of its chain's set that the uniforms name."""
    sets, n = (2, 1), 3
    rows = {"set": np.broadcast_to([[[0.0]], [[1.0]]], (2, 1, N)), "row": np.broadcast_to(np.arange(N), (2, 1, N))}
    own = posterior(log_prior, lambda x, rows: 0.0 * x[..., 0], {k: v.copy() for k, v in rows.items()}, sets=len(sets))
    x = library.array(np.zeros((2, CHAINS, DIM)))
    data = own.prepare(x, MALA(0.1).requires).data
    u = np.random.default_rng(1).random((n,) if common else (2, CHAINS, n))
    drawn = draw_rows(library.xp, data, library.array(u))
    wide = (2, 1, n) if common else (2, CHAINS, n)
    expected = np.broadcast_to(np.arange(2)[:, None, None], wide)
    np.testing.assert_array_equal(library.host(drawn.rows["set"]), expected)
    np.testing.assert_array_equal(library.host(drawn.rows["row"]), np.broadcast_to(np.floor(u * N), wide))
    assert drawn.weight.shape == (1, 1)
    np.testing.assert_allclose(library.host(drawn.weight), N / n)


@pytest.mark.parametrize("outside", [False, True])
def test_self_repulsion_on_batches(outside, library):
    """The stored scores are those of the batches; repulsion and batches commute."""
    kernels = [
        Minibatch(SRLD(ULA(0.02), 2.0, Rolling(2, 2), RBF(1.0)), 4),
        SRLD(Minibatch(ULA(0.02), 4), 2.0, Rolling(2, 2), RBF(1.0)),
    ]
    u = np.random.default_rng(1).random((STEPS, CHAINS, 4))
    z = np.random.default_rng(2).normal(size=(STEPS, CHAINS, DIM))
    noise = Replay({"rows": library.array(u), "proposal": library.array(z)})
    trace = sample(target(), kernels[outside], library.array(START), STEPS, seed=noise, progress=False)
    xs, scores = [START], [np.stack([batch_score(x, np.arange(N)) for x in START])]
    for k in range(STEPS):
        drift = scores[k].copy()
        if k >= 4:
            for i in range(CHAINS):
                for j in (k - 2, k - 4):
                    apart = xs[k][i] - xs[j][i]
                    weight = math.exp(-apart @ apart)
                    drift[i] += 2.0 * (weight * scores[j][i] + 2 * apart * weight) / 2
        xs.append(xs[k] + 0.02 * drift + math.sqrt(0.04) * z[k])
        scores.append(np.stack([batch_score(xs[-1][i], np.floor(u[k, i] * N).astype(int)) for i in range(CHAINS)]))
    np.testing.assert_allclose(library.host(trace.draws), xs[1:], rtol=1e-8)


def test_underdamped_langevin_takes_batches_and_leaves_none_behind():
    """The bound target is shared between runs: a run on batches leaves it as it was."""
    shared, settings = target(), {"seed": 1, "progress": False}
    before = sample(shared, ULA(0.05), START, STEPS, **settings).draws
    trace = sample(shared, Minibatch(UnderdampedLangevin(0.05), 4), START, 50, **settings)
    assert np.all(np.isfinite(trace.draws))
    assert trace.run_statistics.evaluations["score"] == 1
    np.testing.assert_array_equal(sample(shared, ULA(0.05), START, STEPS, **settings).draws, before)


@pytest.mark.parametrize(
    ("rows", "settings", "error", "message"),
    [
        ({"a": np.zeros((3, 2)), "b": np.zeros(4)}, {}, HyperparameterError, "every leaf of rows"),
        (np.asarray(1.0), {}, HyperparameterError, "every leaf of rows"),
        (
            {"a": np.zeros((2, 3, 2)), "b": np.zeros((3, 3))},
            {"sets": 1},
            HyperparameterError,
            r"the same 1 axes of sets, then the rows; got the shapes .*\(3, 3\)",
        ),
        (np.zeros(3), {"sets": 1}, HyperparameterError, "the same 1 axes of sets"),
        (ROWS, {"prior_score": lambda x: -x}, CapabilityError, "pass both prior_score and likelihood_score"),
    ],
    ids=["lengths", "number", "sets", "one axis", "one score"],
)
def test_bad_input_says_what_would_do(rows, settings, error, message):
    with pytest.raises(error, match=message):
        posterior(log_prior, log_likelihood, rows, **settings)


def test_bad_batches():
    with pytest.raises(HyperparameterError, match="size must be a positive integer; got 0"):
        Minibatch(ULA(0.1), 0)
    with pytest.raises(CapabilityError, match="the target has no rows"):
        sample(gaussian(np.eye(3)), Minibatch(ULA(0.1), 2), START, 1, seed=1)


def test_no_more_rows_than_uniforms_can_tell_apart():
    """In float32 a uniform has 2^23 values: one row more would never be drawn."""

    def of(n):
        rows = {"a": np.broadcast_to(np.float32(0.0), (n, 1))}
        flat = posterior(log_prior, lambda x, rows: 0 * x[..., 0], rows, lambda x: -x, lambda x, rows: 0 * x)
        x, kernel = np.zeros((2, 1), dtype=np.float32), Minibatch(ULA(0.1), 1)
        return kernel.init(flat.prepare(x, kernel.requires), x)

    assert of(2**23).point.x.shape == (2, 1)
    with pytest.raises(HyperparameterError, match="at most 8388608 for positions of float32; got 8388609"):
        of(2**23 + 1)


@pytest.mark.parametrize("shape", [(3 * 10**9,), (3, 10**9)])
def test_more_rows_than_32_bits_count(shape, monkeypatch):
    """The rows take no memory, since all are one number."""
    data, seen = Rows(np.broadcast_to(np.int8(7), shape), np.ones((1,) * (len(shape) - 1))), []
    monkeypatch.setattr(numpy_xp, "reshape", lambda a, shape: a if a.size > 10**9 else np.reshape(a, shape))
    monkeypatch.setattr(numpy_xp, "take", lambda leaf, at, axis: seen.extend(at.tolist()) or np.zeros(len(at)))
    draw_rows(numpy_xp, data, np.asarray([0.1, 0.9]))
    count = shape[-1]
    assert seen == [set_ * count + i for set_ in range(len(shape) * 2 - 1) for i in (count // 10, 9 * count // 10)]


@pytest.mark.sampled(2)
@pytest.mark.first_tier
@pytest.mark.parametrize(("sets", "warmup"), [((2, 1), 0), pytest.param((), None, marks=pytest.mark.slow)])
def test_a_run_of_batches_never_evaluates_all_rows(library, sets, warmup, tmp_path):
    """Whole data may not fit: start, checks, checkpoints and diagnosis use some rows, and another call's data do."""
    count, xp, seen = 1000, library.xp, set()
    rows = np.random.default_rng(0).normal(size=(*sets, count, 2))

    def log_likelihood(x, rows):
        seen.add(rows.shape[-2])
        return -0.5 * xp.sum((rows - x[..., None, :]) ** 2, axis=(-2, -1))

    def score(x, rows):
        seen.add(rows.shape[-2])
        return xp.sum(rows - x[..., None, :], axis=-2)

    target = posterior(log_prior, log_likelihood, rows, lambda x: -x, score, sets=len(sets))
    x0 = library.array(np.zeros((2, 3, 2)))
    kernel = Minibatch(ULA() if warmup is None else ULA(1e-6), 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = xps.Sampler(target, kernel, x0, 400, warmup=warmup, checkpoint=tmp_path, progress=False)
        sampler(1)
        replace(sampler, checkpoint=None)(1, data=rows + 1.0)
    assert seen and max(seen) <= 256


@pytest.mark.parametrize("count", [N, 2 * N])
def test_a_sampler_is_called_with_other_rows(count, library):
    """Of the same number, which are arguments of what is compiled, or of another one."""
    rows = {"a": np.tile(ROWS["a"] + 1.0, (count // N, 1))}
    kernel, x0, settings = Minibatch(ULA(0.01), 5), library.array(START), {"progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = xps.Sampler(target(), kernel, x0, 20, **settings)(1, data=rows)
        other = posterior(log_prior, log_likelihood, rows, lambda x: -x, likelihood_score)
        once = sample(other, kernel, x0, 20, seed=1, **settings)
    np.testing.assert_array_equal(library.host(again.draws), library.host(once.draws))


@pytest.mark.parametrize("rows", [{"a": FEATURES, "b": FEATURES[1:]}, {}, {"a": ["x"]}, 3.0, None])
def test_other_rows_are_checked(rows):
    with pytest.raises(HyperparameterError, match="rows"):
        target().with_data(rows)


def test_some_rows_have_the_weight_of_all():
    data = Rows({"a": np.arange(1000.0), "b": np.zeros((1000, 2))}, np.ones(()))
    few = data.some()
    assert few.number <= 256 and few.rows["b"].shape == (few.number, 2)
    np.testing.assert_allclose(few.weight * few.rows["a"].sum(), data.rows["a"].sum(), rtol=0.01)
    np.testing.assert_array_equal(data.some(1000).rows["a"], data.rows["a"])
    assert data.some(1000).weight == 1.0
