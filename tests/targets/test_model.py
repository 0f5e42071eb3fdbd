"""Models: named parameters in their own spaces, from the start positions to tables, ArviZ and files."""

import json
import pickle
from math import log, sqrt

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import HyperparameterError, LogDensityError, PositionError, XpsampleError

SCHOOLS = "ABC"
EFFECTS, ERRORS = np.asarray([28.0, 8.0, -3.0]), np.asarray([15.0, 10.0, 16.0])


def hierarchical(p, data):
    """Effects of schools about a mean, in units of their spread tau."""
    xp, (effects, errors) = array_namespace(p.mu), data
    gap = (p.mu[..., None] + p.tau[..., None] * p.z - effects) / errors
    return -0.5 * (p.mu / 5) ** 2 - 0.2 * p.tau - 0.5 * xp.sum(p.z**2 + gap**2, axis=-1)


def schools(tau=xps.Positive(), **options):
    """A model with a scalar, a positive scalar and a vector."""
    spaces = {"mu": xps.Real(), "tau": tau, "z": xps.Real(3)}
    labels = {"dims": {"z": "school"}, "coords": {"school": list(SCHOOLS)}}
    return xps.Model(hierarchical, data=(EFFECTS, ERRORS), **spaces, **labels, **options)


def run(model=None, draws=20, chains=3, **options):
    """A short run of a model."""
    model = model or schools(gradient=xps.FiniteDifference())
    x0 = model.start(np.zeros(0), chains=chains, seed=3)
    return xps.sample(model, xps.RWM(0.3), x0, draws, seed=1, progress=False, **options)


# ---- the density ----------------------------------------------------------------------------------------------------


def test_the_jacobian_counts():
    """The law of Gamma(3, 1) comes out in its values: mean and variance are its shape."""
    spaces = {"rate": xps.Positive(), "x": xps.Real()}
    model = xps.Model(lambda p: 2 * np.log(p.rate) - p.rate - 0.5 * p.x**2, gradient=xps.FiniteDifference(), **spaces)
    x0 = model.start(np.zeros(0), chains=400, seed=0)
    rate = xps.sample(model, xps.HMC(0.6, 4), x0, 150, seed=1, burn_in=50)["rate"]
    assert abs(rate.mean() - 3.0) < 5 * sqrt(3.0 / 20_000)  # at least 20,000 effective draws of 60,000
    assert abs(rate.var() - 3.0) < 5 * sqrt(36.0 / 20_000)  # variance of the variance: (mu4 - var^2) / n, mu4 = 45


def test_a_model_is_its_flat_target_with_the_jacobian():
    model, x = schools(), np.random.default_rng(0).normal(size=(4, 5))
    values = model.values(x)
    np.testing.assert_allclose(values.tau, np.exp(x[:, 1]))
    flat = model.target.log_density(x, model.data)
    np.testing.assert_allclose(flat, hierarchical(values, model.data) + x[:, 1])


def test_the_same_chain_on_every_library(library):
    model = schools(gradient=xps.FiniteDifference(scheme="central"))
    starts = (model.start(like, chains=4, seed=0) for like in (library.array(np.zeros(0)), np.zeros(0)))
    kernel, seed = xps.HMC(0.2, 5), xps.Portable(2)
    found, expected = (xps.sample(model, kernel, x0, 20, seed=seed, progress=False) for x0 in starts)
    np.testing.assert_allclose(library.host(found["tau"]), expected["tau"], rtol=1e-4)
    assert type(found["tau"]) is type(found.draws)


# ---- names ----------------------------------------------------------------------------------------------------------


def test_values_by_name(tmp_path):
    """In the trace, its table, what is computed of it, moments of recorders, and a file."""
    trace = run(recorders=(xps.Draws(), xps.Moments(), xps.BatchMeans(4)))
    assert trace.parameters == ("mu", "tau", "z")
    assert trace["mu"].shape == (20, 3) and trace["z"].shape == (20, 3, 3)
    np.testing.assert_array_equal(trace["tau"], np.exp(trace.draws[..., 1]))
    with pytest.raises(PositionError, match="no parameter 'sigma'; there are mu, tau, z"):
        trace["sigma"]
    summary = trace.summary()
    assert summary.names == ("mu", "tau", "z[A]", "z[B]", "z[C]")
    np.testing.assert_allclose(summary.mean[1], trace["tau"].mean())
    assert any(name in str(finding) for finding in trace.diagnose() for name in ("z[", "mu", "tau"))
    effects = trace.map(lambda p: p.mu[..., None] + p.tau[..., None] * p.z)
    np.testing.assert_allclose(effects[..., 2], trace["mu"] + trace["tau"] * trace["z"][..., 2])
    mean = np.concatenate([trace["mu"].mean(0)[..., None], trace["tau"].mean(0)[..., None], trace["z"].mean(0)], -1)
    for recorder in ("moments", "batch_means"):
        np.testing.assert_allclose(trace.recorded[recorder].mean, mean)
    trace.save(tmp_path / "run.npz")
    loaded = xps.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(loaded["tau"], trace["tau"])
    assert loaded.summary().names == summary.names
    json.dumps(trace.metadata["parameters"])


def test_a_checkpoint_keeps_the_names_and_refuses_another_model(tmp_path):
    whole = run(draws=30)
    run(draws=10, checkpoint=tmp_path)
    again = run(draws=30, checkpoint=tmp_path)
    np.testing.assert_array_equal(again["tau"], whole["tau"])
    assert xps.load(tmp_path).parameters == ("mu", "tau", "z")
    with pytest.raises(XpsampleError, match="another"):
        run(schools(tau=xps.LowerBounded(0.0), gradient=xps.FiniteDifference()), draws=30, checkpoint=tmp_path)


def test_a_trace_without_a_model_has_no_names():
    trace = xps.sample(xps.Target(lambda x: -0.5 * (x**2).sum(-1)), xps.RWM(1.0), np.zeros((2, 3)), 5, seed=1)
    assert trace.parameters == ()
    assert trace["x"] is trace.draws  # as ArviZ calls them
    np.testing.assert_array_equal(trace.map(lambda x: 2 * x), 2 * trace.draws)
    with pytest.raises(xps.core.errors.TraceError, match="only the trace of a Model"):
        trace["tau"]


# ---- start positions ------------------------------------------------------------------------------------------------


def test_start_positions_by_name():
    model = schools(gradient=xps.FiniteDifference())
    values = {"mu": np.zeros(2), "tau": np.asarray([1.0, 2.0]), "z": np.ones((2, 3))}
    trace = xps.sample(model, xps.RWM(1e-9), values, 1, seed=1, progress=False)
    np.testing.assert_allclose(trace["tau"][0], values["tau"], rtol=1e-6)
    np.testing.assert_allclose(model.position(values)[:, 1], [0.0, log(2.0)])


def test_some_start_at_given_values():
    model = schools()
    x0 = model.start(np.zeros(0), chains=(2, 4), seed=1, values={"tau": 0.5, "z": np.asarray([1.0, 2.0, 3.0])})
    found = model.values(x0)
    np.testing.assert_allclose(found.tau, 0.5)
    np.testing.assert_allclose(found.z[1, 3], [1.0, 2.0, 3.0])
    assert len(np.unique(found.mu)) == 8
    by_chain = model.start(np.zeros(0), chains=3, seed=1, values={"tau": np.asarray([1.0, 2.0, 3.0])})
    np.testing.assert_allclose(model.values(by_chain).tau, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mu": np.zeros(2)}, "missing: tau, z"),
        ({"mu": np.zeros(2), "tau": np.ones(2), "z": np.ones((2, 3)), "w": np.ones(2)}, "unknown: w"),
        ({"mu": np.zeros(2), "tau": -np.ones(2), "z": np.ones((2, 3))}, "tau does not lie in Positive"),
        ({"mu": np.zeros(2), "tau": np.ones(2), "z": np.ones((2, 4))}, r"\(\*chains, 3\); got \(2, 4\)"),
        ({"mu": np.zeros(3), "tau": np.ones(2), "z": np.ones((2, 3))}, "different chain axes"),
        ({"mu": 0.0, "tau": np.ones(2), "z": np.ones((2, 3))}, "'mu' must be an array"),
    ],
)
def test_wrong_start_values(values, message):
    with pytest.raises(XpsampleError, match=message):
        schools().position(values)


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "at least one parameter"),
        ({"mu": xps.Real}, r"is a class: write Real\(\)"),
        ({"mu": 3.0}, "one such as Real"),
        ({"data": xps.Real()}, "cannot be called 'data'"),
        ({"mu": xps.Real(2), "dims": {"nu": "place"}}, "no parameter"),
        ({"mu": xps.Real(2), "dims": {"mu": ["a", "b"]}}, "2 axes"),
        ({"mu": xps.Real(2), "dims": {"mu": "a"}, "coords": {"a": [1, 2, 3]}}, "3 labels"),
        ({"mu": xps.Real(2), "coords": {"a": [1, 2]}}, "no axis"),
    ],
)
def test_wrong_models(arguments, message):
    with pytest.raises(HyperparameterError, match=message):
        xps.Model(lambda p: p.mu, **arguments)


def test_a_density_that_sums_over_chains_is_refused():
    model = xps.Model(lambda p: -0.5 * (p.mu**2).sum(-1), mu=xps.Real(), gradient=xps.FiniteDifference())
    with pytest.raises(LogDensityError, match="sum over the axes of the shape only"):
        xps.sample(model, xps.RWM(1.0), np.zeros((3, 1)), 2, seed=0)


def test_positions_of_another_size_are_refused():
    with pytest.raises(PositionError, match="5 coordinates"):
        xps.sample(schools(), xps.RWM(1.0), np.zeros((3, 4)), 2, seed=0)


def of_rate(p):
    return -0.5 * (p.rate**2).sum(-1)


def test_a_model_is_pickled_as_workers_need_it():
    model = xps.Model(of_rate, gradient=xps.FiniteDifference(), rate=xps.Positive(2))
    x0 = np.random.default_rng(0).normal(size=(4, 2))
    first = xps.sample(model, xps.MALA(0.3), x0, 5, seed=1)
    again = xps.sample(pickle.loads(pickle.dumps(model)), xps.MALA(0.3), x0, 5, seed=1)
    assert np.array_equal(first["rate"], again["rate"])


def test_a_model_of_a_target_is_that_model():
    model = schools(constrained=True)
    again = xps.Model.of_target(model.target)
    assert again.names == model.names and again.target is model.target
    assert again.space == model.space and again.data is model.data and again.constrained


def test_discrete_starts_are_uniform():
    """Each third of the normals gives one of three values, the last one too."""
    space = xps.Model(lambda p: 0.0 * p.x, x=xps.Real(), k=xps.Categorical((0, 1, 2), shape=(2,))).space
    normals = np.asarray([[-3.0] * 3, [0.0] * 3, [3.0] * 3])
    np.testing.assert_array_equal(space.from_normals(normals), [[-3.0, 0, 0], [0.0, 1, 1], [3.0, 2, 2]])
