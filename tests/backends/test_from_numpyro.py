"""Models of NumPyro: its own log densities, names, plates, and what is refused."""

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import x64
from xpsample.core.errors import CapabilityError, HyperparameterError

jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")

pytestmark = pytest.mark.slow

import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402
from numpyro.infer.util import initialize_model  # noqa: E402
from xpsample_jax import from_numpyro  # noqa: E402

EFFECTS = jnp.asarray([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = jnp.asarray([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(errors, y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(errors)):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("y", dist.Normal(theta, errors), obs=y)


def many_supports():
    numpyro.sample("share", dist.Beta(2.0, 3.0))
    numpyro.sample("late", dist.LeftTruncatedDistribution(dist.Normal(0.0, 1.0), low=0.5))
    numpyro.sample("w", dist.Dirichlet(jnp.asarray([2.0, 3.0, 4.0])))
    numpyro.sample("L", dist.LKJCholesky(3, 2.0))
    with numpyro.plate("rows", 2, dim=-2), numpyro.plate("columns", 3, dim=-1):
        numpyro.sample("a", dist.Gamma(2.0, 1.0))
        numpyro.sample("b", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    ordered = dist.TransformedDistribution(
        dist.Normal(jnp.zeros(3), 1.0).to_event(1), dist.transforms.OrderedTransform()
    )
    numpyro.sample("cuts", ordered)
    numpyro.factor("penalty", -0.1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("function", "kwargs"),
    [(eight_schools, {"errors": ERRORS, "y": EFFECTS}), pytest.param(many_supports, {}, marks=pytest.mark.slow)],
)
def test_density_is_numpyros_own(function, kwargs):
    with x64("jax", "float64"):
        model = from_numpyro.model(function, model_kwargs=kwargs)
        x = model.start(like=jnp.zeros(0), chains=(2, 3), seed=0)
        theirs = initialize_model(jax.random.key(0), function, model_kwargs=kwargs)
        ours, potential = model.target.log_density(x), jax.jit(theirs.potential_fn)
        assert ours.shape == (2, 3)
        for i in np.ndindex(2, 3):
            z = {name: x[i][model.space.coordinates(name)] for name in model.names}
            z = {name: v.reshape(theirs.param_info.z[name].shape) for name, v in z.items()}
            assert np.allclose(ours[i], -potential(z), rtol=1e-9), i


def test_names_plates_and_generated_values():
    pytest.importorskip("arviz_base")
    labels = {"school": list("ABCDEFGH")}
    model = from_numpyro.model(eight_schools, (ERRORS,), {"y": EFFECTS}, coords=labels)
    x0 = model.start(like=jnp.zeros(0), chains=4, seed=0)
    trace = xps.sample(model, xps.NUTS(0.3), x0, 20, seed=1, progress=False)
    posterior = trace.to_arviz().posterior
    assert posterior["z"].dims == ("chain", "draw", "school")
    assert list(posterior["school"].values) == labels["school"]
    theta = trace.map(from_numpyro.generated(eight_schools, (ERRORS,), {"y": EFFECTS}))["theta"]
    expected = trace["mu"][..., None] + trace["tau"][..., None] * trace["z"]
    assert theta.shape == (20, 4, 8) and np.allclose(theta, expected, rtol=1e-5)
    with pytest.raises(HyperparameterError, match=r"\['mu', 'tau', 'z'\]; expected \['mu', 'tau', 'z', 'y'\]"):
        trace.map(from_numpyro.generated(eight_schools, (ERRORS,)))  # without the observations


@pytest.mark.slow
def test_axes_of_events_have_names_too():
    assert dict(from_numpyro.model(many_supports).space.dims) == {
        "a": ("rows", "columns"),
        "b": ("rows", "columns", "b_dim_2"),
    }


@pytest.mark.release
@pytest.mark.slow
def test_posterior_is_that_of_numpyros_nuts():
    model = from_numpyro.model(eight_schools, (ERRORS,), {"y": EFFECTS})
    x0 = model.start(like=jnp.zeros(0), chains=20, seed=0)
    trace = xps.sample(model, xps.NUTS(), x0, 500, seed=1, progress=False)
    theirs = MCMC(
        NUTS(eight_schools, target_accept_prob=0.9), num_warmup=500, num_samples=2500, num_chains=4,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    theirs.run(jax.random.key(0), ERRORS, y=EFFECTS)
    draws = theirs.get_samples()
    for name, sd in (("mu", 3.3), ("tau", 3.2)):
        # 10,000 draws each with an ESS of 2,000 or more: 5 standard errors of the difference.
        difference = float(trace[name].mean() - draws[name].mean())
        assert abs(difference) < 5 * sd * np.sqrt(2 / 2000), name


def refused():
    """Models, what each has, and what the message says."""

    def discrete():
        numpyro.sample("z", dist.Bernoulli(0.5))

    def moving():
        numpyro.sample("x", dist.Uniform(0.0, numpyro.sample("top", dist.HalfNormal(1.0))))

    def minibatch():
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        with numpyro.plate("rows", 10, subsample_size=3):
            numpyro.sample("y", dist.Normal(m, 1.0), obs=jnp.zeros(3))

    def optimised():
        numpyro.sample("x", dist.Normal(numpyro.param("p", 0.0), 1.0))

    def observed():
        numpyro.sample("x", dist.Normal(0.0, 1.0), obs=1.0)

    def option():
        numpyro.sample("data", dist.Normal(0.0, 1.0))

    def covariance():
        numpyro.sample("S", dist.WishartCholesky(4.0, jnp.eye(2)))
        numpyro.sample("R", dist.LKJ(3, 1.0))

    def improper():
        numpyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ()))

    return [
        (improper, "set a proper prior"),
        (discrete, "z is discrete"),
        (moving, "x has another support"),
        (minibatch, "plate rows uses a part"),
        (optimised, r"p is a numpyro\.param"),
        (observed, "no latent site"),
        (option, "cannot be called 'data'"),
        (covariance, "values of R"),
    ]


@pytest.mark.parametrize(("function", "message"), refused(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_taken_is_refused(function, message):
    with pytest.raises(CapabilityError, match=message):
        from_numpyro.model(function)
