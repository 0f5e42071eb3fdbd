"""SRLD on regression networks: quick run, rows, step sizes; the posterior by SciPy and by loops."""

import argparse
import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import gamma, norm

from xpsample import ULA, Minibatch, Replay, sample
from xpsample.core.devices import device_dtypes
from xpsample.experiments.runner import Run
from xpsample.experiments.srld import bnn as srld_bnn
from xpsample.experiments.srld.bnn import ADAGRAD_STEPS, PROBLEMS, QUICK, STEPS, methods, split_rows
from xpsample.experiments.srld.regression_network import predict, predictive, regression_network
from xpsample.targets import Capability

# ---- the experiment --------------------------------------------------------------------------------------------------

NUMPY = next(device for device in device_dtypes(["numpy"]) if device.dtype == "float32")
SHAPES = {"boston": 13, "yacht": 6, "energy": 8, "concrete": 8, "naval": 16, "wine-red": 11, "wine-white": 11}


def test_table_and_conclusion(quick):
    rows, out = quick("srld-bnn")
    whole = {row["sampler"]: row for row in rows if row["draws"] is None}
    assert list(whole) == ["LD", "SRLD 10", "SRLD 1", "SVGD", "SRLD 10 - LD", "SRLD 1 - LD"]
    for name in ("SRLD 10", "SRLD 1"):
        for key in ("rmse", "log_likelihood", "spread"):
            assert whole[f"{name} - LD"][key] == pytest.approx(whole[name][key] - whole["LD"][key], abs=1e-9)
    text = (out / "report.txt").read_text()
    for row in rows[:4]:
        name = row["sampler"]
        assert row["step"] in (ADAGRAD_STEPS if name == "SVGD" else STEPS)
        assert row["frozen"] == 0 and row["spread"] > 0
        assert 0.5 < row["rmse"] < 30 and 0 <= row["coverage"] <= 1
        # The step size of the best validation score is taken.
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {name}: validation "))
        scores = dict(pair.split(": ") for pair in line.partition("validation ")[2].split(", "))
        assert row["step"] == float(max(scores, key=lambda step: float(scores[step])))
    best = max(rows[:4], key=lambda row: row["log_likelihood"])
    told = f"yacht, numpy: highest log lik. {best['log_likelihood']:.3f} ({best['sampler']}); SRLD 10 - LD: "
    assert told + f"{rows[4]['log_likelihood']:.3f} (" in text
    # The first draws are compared, too.
    parts = {(row["sampler"], row["draws"]): row for row in rows if row["draws"]}
    pairs = [f"{sampler} - {other}, first draws" for sampler in ("SRLD 10", "SRLD 1") for other in ("LD", "SVGD")]
    assert list(parts) == [(pair, round(share * 12)) for share in srld_bnn.PARTS for pair in pairs]
    for pair in pairs:
        own, _, other = pair.removesuffix(", first draws").partition(" - ")
        for key in ("rmse", "log_likelihood"):
            assert parts[pair, 12][key] == pytest.approx(whole[own][key] - whole[other][key], abs=1e-9)
            assert parts[pair, 2][key] != parts[pair, 12][key]


def test_a_step_size_that_is_given_is_taken(rows_of, data_folder):
    rows, text = rows_of("srld-bnn", "--step", "0.03", "--alpha", "2", "--scaled", "--data", "boston")
    assert [(row["sampler"], row["step"]) for row in rows[:2]] == [("LD", 0.03), ("SRLD 2", 0.03)]
    assert "LD: validation" not in text and "SVGD: validation" in text and "outputs standardized" in text


@pytest.mark.parametrize("name", PROBLEMS)
def test_rows_of_the_data(name, data_folder):
    arrays = srld_bnn.load_dataset(PROBLEMS[name].file)
    train, test = (arrays[key][:2].astype(int) for key in ("train_index", "test_index"))
    assert all(not set(a) & set(b) for a, b in zip(train, test, strict=True))
    plain, scaled = (split_rows(arrays["X"], arrays["y"], train, test, which) for which in (False, True))
    assert plain.inputs.shape == (*train.shape, SHAPES[name])
    np.testing.assert_allclose(plain.inputs.mean(axis=1), 0, atol=1e-9)
    sd = plain.inputs.std(axis=1)
    assert np.all((np.abs(sd - 1) < 1e-9) | (sd == 0))
    np.testing.assert_array_equal(plain.outputs, arrays["y"][train])
    np.testing.assert_allclose(scaled.location + scaled.scale * scaled.outputs, plain.outputs, rtol=1e-12)
    np.testing.assert_allclose(scaled.outputs.std(axis=1), 1, rtol=1e-9)
    # Test rows by the constants of the training rows, which theirs are not.
    x, rows = arrays["X"], train[1]
    varies = x[rows].std(axis=0) > 1e-9 * np.abs(x[rows].mean(axis=0))
    expected = (x[test[1]] - x[rows].mean(axis=0))[:, varies] / x[rows].std(axis=0)[varies]
    np.testing.assert_allclose(plain.test_inputs[1][:, varies], expected, rtol=1e-9, atol=1e-9)


def test_step_sizes_are_chosen_on_training_rows():
    train = np.stack([np.random.default_rng(s).permutation(50)[:40] for s in range(3)])
    kept, held = srld_bnn._held_out(train, seed=1)
    assert kept.shape == (3, 36) and held.shape == (3, 4)
    for rows, one, other in zip(train, kept, held, strict=True):
        assert sorted([*one, *other]) == sorted(rows)


def test_step_sizes_are_scored_and_a_chain_that_leaves_the_numbers_is_the_worst(tmp_path):
    """Of three: one that hardly moves, one that is fit, one that blows up."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = 3 * x[:, 0] + 0.1 * rng.normal(size=60)
    rows = np.stack([rng.permutation(60) for _ in range(2)])
    split = split_rows(x, y, rows[:, :50], rows[:, 50:])
    method = methods(QUICK._replace(steps=4000), [10.0])["LD"]._replace(grid=(1e-7, 0.03, 1e6))
    run = Run(QUICK, argparse.Namespace(seed=0, out=tmp_path), [NUMPY])
    scores = srld_bnn._tune(run, split, NUMPY, method, "LD")
    assert list(scores) == [1e-7, 0.03, 1e6] and scores[1e6] == -np.inf
    assert scores[0.03] > scores[1e-7] + 0.5


def test_step_sizes_are_compared_in_runs_of_the_full_length(monkeypatch, tmp_path):
    """Short runs favor large step sizes, since a chain with a small one is still in its transient phase."""
    lengths = []

    def fit(run, split, device, method, grid, label):
        lengths.append((method.steps, method.draws, method.thinning))
        return {"log_likelihood": np.zeros((1, len(grid), 2))}, np.zeros((len(grid), 2), dtype=bool), 0.0

    monkeypatch.setattr(srld_bnn, "_fit", fit)
    run = Run(QUICK, argparse.Namespace(seed=0, out=tmp_path), [NUMPY])
    for method in methods(QUICK, [10.0]).values():
        srld_bnn._tune(run, None, NUMPY, method, "sampler")
    assert lengths == [(300, 12, 5), (300, 12, 5), (20, 1, 1)]


def test_the_kernels_are_the_papers():
    found = {name: repr(method.kernel(0.01)) for name, method in methods(QUICK, [10.0, 1.0]).items()}
    assert "SRLD" not in found["LD"] and "alpha=10.0" in found["SRLD 10"] and "alpha=1.0" in found["SRLD 1"]
    assert "Rolling(size=10" in found["SRLD 10"] and "size=100" in found["LD"]


# ---- the network -----------------------------------------------------------------------------------------------------

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


def test_coverage_of_the_models_own_rows_and_plain_numbers():
    """Rows drawn from the network at one position are inside with probability 0.9: 5 standard errors of 20,000 rows."""
    x, rng = X[0, 0], np.random.default_rng(5)
    inputs = rng.normal(size=(20_000, FEATURES))
    y = predict(x, inputs, HIDDEN) + math.exp(-0.5 * x[-1]) * rng.standard_normal(20_000)
    found = predictive(np.stack([x, x]), inputs, y, hidden=HIDDEN)
    assert abs(found.coverage - 0.9) < 5 * math.sqrt(0.09 / 20_000)
    plain = predictive(X[:, 0], INPUTS[0], 6 * OUTPUTS[0], 1.0, 2.0, HIDDEN)
    arrays = predictive(X[:, 0], INPUTS[0], 6 * OUTPUTS[0], np.array([1.0]), np.array([2.0]), HIDDEN)
    np.testing.assert_allclose(plain, arrays, rtol=1e-14)
