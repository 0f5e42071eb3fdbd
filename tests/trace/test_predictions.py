"""Log likelihoods, predictions and the prior, in the groups that ArviZ knows them by."""

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import x64
from tests.trace.test_trace import make_trace
from xpsample.core.errors import HyperparameterError, TraceError

pytest.importorskip("xarray")

Y = np.array([0.3, -1.2, 0.8, 2.0, -0.5])


def log_likelihood(p):
    """A value for each of five observations."""
    return -0.5 * (Y - p.mu[..., None]) ** 2 - 0.5 * np.log(2 * np.pi)


@pytest.fixture(scope="module")
def trace():
    """Independent draws of the posterior under a flat prior: N(mean of Y, 1/5)."""
    model = xps.Model(
        lambda p: log_likelihood(p).sum(-1) - 0.5 * np.sum(p.z**2, -1),
        mu=xps.Real(),
        z=xps.Real(5),
        dims={"z": "site"},
        coords={"site": list("abcde")},
    )
    x0 = np.random.default_rng(0).normal(size=(2, 10, 6))
    kernel = xps.RWM(0.5)
    return xps.sample(model, kernel, x0, 2000, burn_in=100, thinning=5, seed=1, progress=False)


@pytest.mark.slow
def test_loo_is_the_closed_form(trace):
    """Without y the others predict it by N(mean of these, 1 + 1/4)."""
    loo = pytest.importorskip("arviz_stats").loo
    found = loo(trace.to_arviz(log_likelihood=trace.map(log_likelihood)), pointwise=True)
    means = (np.sum(Y) - Y) / 4
    exact = -0.5 * (Y - means) ** 2 / 1.25 - 0.5 * np.log(2 * np.pi * 1.25)
    # The error of importance sampling with some 4,000 effective draws; five would be seen at 0.1.
    np.testing.assert_allclose(np.asarray(found.elpd_i), exact, atol=0.05)


def test_groups_have_the_names_and_axes_of_arviz(trace):
    rng = np.random.default_rng(1)
    prior = xps.sample(xps.Model(lambda p: -0.5 * p.mu**2, mu=xps.Real()), xps.RWM(1.0), np.zeros((3, 1)), 7, seed=1)
    simulated, of_prior = rng.normal(size=(2000, 2, 10, 5)), rng.normal(size=(7, 3, 5))
    found = trace.to_arviz(
        log_likelihood={"y": trace.map(log_likelihood), "one": simulated[..., :1]},
        posterior_predictive=simulated,
        prior=prior,
        prior_predictive=of_prior,
        observed_data=list(Y),
        dims={"y": "site"},
    )
    assert found["posterior_predictive"]["y"].dims == ("chain", "draw", "site")
    assert list(found["log_likelihood"]["y"]["site"].values) == list("abcde")  # the model's coords
    assert found["log_likelihood"]["one"].dims == ("chain", "draw", "one_dim_0")
    np.testing.assert_array_equal(found["posterior_predictive"]["y"][13, 4], simulated[4, 1, 3])
    np.testing.assert_array_equal(found["prior_predictive"]["y"][2, 4], of_prior[4, 2])
    np.testing.assert_array_equal(found["prior"]["mu"][2], prior["mu"][:, 2])
    assert "acceptance_rate" in found["sample_stats_prior"]
    assert found["observed_data"]["y"].dims == ("site",)
    np.testing.assert_array_equal(found["observed_data"]["y"], Y)


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_arrays_of_other_libraries(library):
    with x64(library.partition(".")[0], "float64"):
        trace = make_trace(pytest.importorskip(library))
        found = trace.to_arviz(log_likelihood=trace.map(lambda x: x**2))
        np.testing.assert_allclose(found["log_likelihood"]["y"], found["posterior"]["x"] ** 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"log_likelihood": np.zeros((200, 2, 3))}, "do not sum over these"),
        ({"log_likelihood": np.zeros((2, 3, 200, 5))}, r"here \(200, 2, 3, ...\); y has \(2, 3, 200, 5\)"),
        ({"posterior_predictive": {"a": np.zeros((200, 6, 5))}}, r"a has \(200, 6, 5\)"),
        ({"prior_predictive": np.zeros((200, 2, 3, 5))}, "pass their trace as prior="),
        ({"observed_data": np.zeros(5), "dims": {"y": ["a", "b"]}}, "dims has 2 names for the axes of y"),
        ({"observed_data": np.zeros(5), "dims": {"Y": "a"}}, "dims names the axes of Y, and nothing is given"),
        ({"observed_data": np.zeros(5), "dims": {"y": "a"}, "coords": {"a": [1, 2]}}, "'a' has 5 places, and 2 names"),
    ],
)
def test_what_does_not_fit_is_refused(given, words):
    with pytest.raises(TraceError, match=words):
        make_trace().to_arviz(**given)


def test_a_prior_is_a_trace():
    with pytest.raises(HyperparameterError, match="prior must be a Trace, such as what sample returns"):
        make_trace().to_arviz(prior={"mu": np.zeros((200, 4))})


def test_a_store_takes_predictions(tmp_path):
    pytest.importorskip("zarr")
    model = xps.Model(lambda p: log_likelihood(p).sum(-1), mu=xps.Real())
    recorder = xps.Draws(store=tmp_path / "run.zarr")
    trace = xps.sample(model, xps.RWM(1.0), np.zeros((2, 1)), 20, recorders=[recorder], seed=1, progress=False)
    values = -0.5 * (Y - trace["mu"][:][..., None]) ** 2
    found = trace.to_arviz(log_likelihood=values)
    np.testing.assert_array_equal(found["log_likelihood"]["y"][1, 3], values[3, 1])
    assert dict(found["posterior"]["mu"].sizes) == {"chain": 2, "draw": 20}


@pytest.mark.slow
def test_loo_is_that_of_numpyro_at_the_same_draws():
    numpyro = pytest.importorskip("numpyro")
    import jax.numpy as jnp
    from numpyro.infer import log_likelihood as theirs

    def model():
        mu = numpyro.sample("mu", numpyro.distributions.Normal(0.0, 10.0))
        numpyro.sample("y", numpyro.distributions.Normal(mu, 1.0), obs=jnp.asarray(Y))

    ours = xps.Model(lambda p: log_likelihood(p).sum(-1), mu=xps.Real())
    trace = xps.sample(ours, xps.RWM(1.0), np.zeros((4, 1)), 100, seed=1, progress=False)
    found = trace.to_arviz(log_likelihood=trace.map(log_likelihood))["log_likelihood"]["y"]
    own = theirs(model, {"mu": jnp.asarray(trace["mu"])}, batch_ndims=2)["y"]
    np.testing.assert_allclose(found.values, np.swapaxes(own, 0, 1), rtol=1e-5)
