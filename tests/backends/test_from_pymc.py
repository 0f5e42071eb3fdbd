"""Models of PyMC on JAX: the densities and quantities of those on NumPy."""

import numpy as np
import pytest

from tests.conftest import x64
from xpsample.interop import pymc_generated, pymc_model

jax, pm = pytest.importorskip("jax"), pytest.importorskip("pymc")

import jax.numpy as jnp  # noqa: E402
from xpsample_jax import from_pymc  # noqa: E402

from tests.interop.test_pymc import eight_schools, quick_compilation  # noqa: E402, F401


@pytest.fixture(autouse=True)
def settings_of_jax():
    """The import of PyTensor's part for JAX switches 64-bit types on, which other tests are not to see."""
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.slow
def test_density_and_quantities_are_those_on_numpy():
    theirs = eight_schools()
    with theirs:
        pm.Dirichlet("w", np.ones(3))
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
