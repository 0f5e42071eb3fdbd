"""Networks of Equinox as models and functions, in the first tier; `test_from_module_jax.py` compiles more."""

import numpy as np
import pytest

eqx, jax = pytest.importorskip("equinox"), pytest.importorskip("jax")
pytest.importorskip("numpyro")

import jax.numpy as jnp  # noqa: E402
from numpyro.distributions import Normal  # noqa: E402
from xpsample_jax import from_module  # noqa: E402

ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)), dtype=jnp.float32)


class Scaled(eqx.Module):
    """A linear map of a row, times a noise level."""

    inner: eqx.nn.Linear

    def __call__(self, x, level=1.0):
        return level * self.inner(x)


def module(seed=0):
    return Scaled(eqx.nn.Linear(2, 1, key=jax.random.key(seed), dtype=jnp.float32))


@pytest.mark.slow
@pytest.mark.first_tier
def test_a_number_among_the_inputs_is_the_same_for_all():
    """Such as the noise level of a score network, beside rows."""
    network, parameters = from_module.network(module()), from_module.parameters(module())
    expected = 0.5 * (ROWS @ module().inner.weight.T + module().inner.bias)
    np.testing.assert_allclose(network(ROWS, jnp.asarray(0.5), parameters), expected, rtol=1e-5)
    np.testing.assert_allclose(network(ROWS, jnp.full(len(ROWS), 0.5), parameters), expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.first_tier
def test_the_density_is_the_likelihood_times_all_priors():
    def log_likelihood(net, data):
        return Normal(net(data)[..., 0], 0.3).log_prob(1.0).sum(-1)

    priors = {"*bias": Normal(0.0, 3.0), "*": Normal(0.0, 1.0)}
    model = from_module.model(module(), log_likelihood, prior=priors, data=ROWS)
    x0 = from_module.start(module_of_key, (3,), seed=0)
    weight, bias = x0["inner.weight"], x0["inner.bias"]
    outputs = jnp.einsum("nk,cok->cno", ROWS, weight)[..., 0] + bias
    expected = Normal(outputs, 0.3).log_prob(1.0).sum(-1) + Normal(0.0, 1.0).log_prob(weight).sum((-1, -2))
    expected += Normal(0.0, 3.0).log_prob(bias).sum(-1)
    np.testing.assert_allclose(model.target.log_density(model.position(x0), ROWS), expected, rtol=1e-5)


def module_of_key(key):
    return Scaled(eqx.nn.Linear(2, 1, key=key, dtype=jnp.float32))
