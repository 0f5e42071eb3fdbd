"""Models of PyMC on JAX: the densities of those on NumPy, and the posterior of the same model in NumPyro."""

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import x64
from xpsample.interop import pymc_generated, pymc_model

jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")
pm = pytest.importorskip("pymc")

import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
import pytensor  # noqa: E402
from xpsample_jax import from_numpyro, from_pymc  # noqa: E402

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
LABELS = {"school": list("ABCDEFGH")}


@pytest.fixture(autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


@pytest.fixture(autouse=True)
def settings_of_jax():
    """The import of PyTensor's part for JAX switches 64-bit types on, which other tests are not to see."""
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


def in_pymc():
    with pm.Model(coords=LABELS) as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        z = pm.Normal("z", 0.0, 1.0, dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, pm.Data("errors", ERRORS, dims="school"), observed=EFFECTS, dims="school")
        pm.Dirichlet("w", np.ones(3))
    return model


def in_numpyro():
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu + tau * z, ERRORS), obs=EFFECTS)
    numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))


@pytest.mark.slow
def test_density_and_quantities_are_those_on_numpy():
    theirs = in_pymc()
    with x64("jax", "float64"):
        on_numpy, on_jax = pymc_model(theirs), from_pymc.model(theirs)
        assert on_jax.space == on_numpy.space
        x = np.random.default_rng(0).normal(size=(2, 3, on_numpy.space.dim))
        density = on_jax.target.log_density(jnp.asarray(x))
        assert np.allclose(density, on_numpy.target.log_density(x), rtol=1e-12)
        expected = pymc_generated(theirs)(on_numpy.values(x))
        found = from_pymc.generated(theirs)(on_jax.values(jnp.asarray(x)))
        assert set(found) == {"theta", "w"}
        assert all(np.allclose(found[name], expected[name], rtol=1e-10) for name in found)


@pytest.mark.release
@pytest.mark.slow
def test_one_model_in_pymc_and_in_numpyro_has_one_posterior_and_the_same_names():
    pytest.importorskip("arviz_base")
    theirs = in_pymc()
    traces = {}
    for name, model in (
        ("pymc", from_pymc.model(theirs)),
        ("numpyro", from_numpyro.model(in_numpyro, coords=LABELS)),
    ):
        x0 = model.start(like=jnp.zeros(0), chains=20, seed=0)
        traces[name] = xps.sample(model, xps.NUTS(), x0, 500, seed=1, progress=False)
    first, second = (trace.to_arviz().posterior for trace in traces.values())
    for name in ("mu", "tau", "z"):
        assert first[name].dims == second[name].dims
        if name == "z":
            assert list(first["school"].values) == list(second["school"].values) == LABELS["school"]
        # 10,000 draws each with an ESS of 2,000 or more: 5 standard errors of the difference.
        difference = np.abs(first[name].mean(("chain", "draw")) - second[name].mean(("chain", "draw")))
        assert np.all(difference < 5 * second[name].std(("chain", "draw")) * np.sqrt(2 / 2000)), name
    shares = traces["pymc"].map(from_pymc.generated(theirs))["w"].mean((0, 1))
    # A third each, with sd 0.24 by the Dirichlet distribution.
    assert np.allclose(shares, 1 / 3, atol=5 * 0.24 / np.sqrt(2000))
