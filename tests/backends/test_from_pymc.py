"""Models of PyMC on JAX: the densities and quantities of those on NumPy."""

import numpy as np
import pytest

from tests.conftest import x64
from xpsample.interop import pymc_generated, pymc_model

jax = pytest.importorskip("jax")

pm = pytest.importorskip("pymc")

import jax.numpy as jnp  # noqa: E402
import pytensor  # noqa: E402
from xpsample_jax import from_pymc  # noqa: E402

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
