"""Models of Pyro: its own log densities, names, plates, and what is refused."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.core.errors import CapabilityError, HyperparameterError

torch = pytest.importorskip("torch")
pyro = pytest.importorskip("pyro")

import pyro.distributions as dist  # noqa: E402
from pyro import poutine  # noqa: E402
from xpsample_torch import from_pyro  # noqa: E402

EFFECTS = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(errors, y=None):
    mu = pyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(5.0))
    with pyro.plate("school", len(errors)):
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        theta = pyro.deterministic("theta", mu + tau * z)
        pyro.sample("y", dist.Normal(theta, errors), obs=y)


def many_supports():
    pyro.sample("share", dist.Beta(2.0, 3.0))
    pyro.sample("u", dist.Uniform(-1.0, 2.0))
    pyro.sample("w", dist.Dirichlet(torch.tensor([2.0, 3.0, 4.0])))
    pyro.sample("L", dist.LKJCholesky(3, 2.0))
    pyro.sample("s", dist.LogNormal(0.0, 1.0))
    with pyro.plate("rows", 2, dim=-2), pyro.plate("columns", 3, dim=-1):
        pyro.sample("a", dist.Gamma(2.0, 1.0))
        pyro.sample("b", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    for i in pyro.plate("one_by_one", 2):
        pyro.sample(f"q{i}", dist.StudentT(3.0))
    ordered = [dist.transforms.OrderedTransform()]
    pyro.sample("cuts", dist.TransformedDistribution(dist.Normal(torch.zeros(3), 1.0).to_event(1), ordered))
    with poutine.scale(scale=0.5), poutine.mask(mask=torch.tensor([True, False])):
        pyro.sample("seen", dist.Normal(torch.zeros(2), 1.0), obs=torch.ones(2))
    pyro.factor("penalty", torch.tensor(-0.1))


@pytest.mark.parametrize(
    ("function", "kwargs"), [(eight_schools, {"errors": ERRORS, "y": EFFECTS}), (many_supports, {})]
)
def test_density_is_pyros_own(function, kwargs):
    model = from_pyro.model(function, model_kwargs=kwargs)
    x = model.start(like=torch.zeros(0, dtype=torch.float64), chains=(2, 3), seed=0)
    ours, values = model.target.log_density(x), model.values(x)
    _, log_jacobian = model.space.constrain(numpy_xp, x.numpy())
    for i in np.ndindex(2, 3):
        own = {name: value[i] for name, value in zip(model.names, values, strict=True)}
        joint = poutine.trace(poutine.condition(function, data=own)).get_trace(**kwargs).log_prob_sum()
        assert float(ours[i]) == pytest.approx(float(joint) + log_jacobian[i], rel=1e-6), i


def test_names_plates_and_generated_values():
    pytest.importorskip("arviz_base")
    labels = {"school": list("ABCDEFGH")}
    model = from_pyro.model(eight_schools, (ERRORS,), {"y": EFFECTS}, coords=labels)
    x0 = model.start(like=torch.zeros(0), chains=4, seed=0)
    trace = xps.sample(model, xps.HMC(0.3, 3), x0, 20, seed=1, progress=False)
    posterior = trace.to_arviz().posterior
    assert posterior["z"].dims == ("chain", "draw", "school")
    assert list(posterior["school"].values) == labels["school"]
    theta = trace.map(from_pyro.generated(eight_schools, (ERRORS,), {"y": EFFECTS}))["theta"]
    expected = trace["mu"][..., None] + trace["tau"][..., None] * trace["z"]
    assert theta.shape == (20, 4, 8) and torch.allclose(theta, expected, rtol=1e-5)
    with pytest.raises(HyperparameterError, match=r"\['mu', 'tau', 'z'\]; expected \['mu', 'tau', 'z', 'y'\]"):
        trace.map(from_pyro.generated(eight_schools, (ERRORS,)))  # without the observations


def test_axes_of_events_have_names_too():
    assert dict(from_pyro.model(many_supports).space.dims) == {
        "a": ("rows", "columns"),
        "b": ("rows", "columns", "b_dim_2"),
    }


def test_posterior_of_a_normal_mean():
    def function(y):
        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        with pyro.plate("row", len(y)):
            pyro.sample("y", dist.Normal(mu, 2.0), obs=y)

    model = from_pyro.model(function, (torch.tensor([1.0, 2.0, 4.0, 5.0]),))
    x0 = model.start(like=torch.zeros(0), chains=1000, seed=0)
    trace = xps.sample(model, xps.HMC(0.5, 3), x0, 20, seed=1, burn_in=20, progress=False)
    # Precision 1 + 4 / 4: mean 1.5, variance 0.5. 1,000 independent chains at least: 5 standard errors.
    assert abs(float(trace["mu"].mean()) - 1.5) < 5 * np.sqrt(0.5 / 1000)
    assert abs(float(trace["mu"].var()) - 0.5) < 5 * 0.5 * np.sqrt(2 / 1000)


def test_angles_are_on_the_circle():
    def angles():
        with pyro.plate("rows", 3):
            pyro.sample("a", dist.VonMises(0.0, 1.0).mask(True))

    assert from_pyro.model(angles).space.parts == (xps.Circular(3),)


def refused():
    """Models, what each has, and what the message says."""

    def discrete():
        pyro.sample("z", dist.Bernoulli(0.5))

    def moving():
        pyro.sample("x", dist.Uniform(0.0, pyro.sample("top", dist.HalfNormal(1.0))))

    def minibatch():
        m = pyro.sample("m", dist.Normal(0.0, 1.0))
        with pyro.plate("rows", 10, subsample_size=3):
            pyro.sample("y", dist.Normal(m, 1.0), obs=torch.zeros(3))

    def optimised():
        pyro.sample("x", dist.Normal(pyro.param("p", torch.tensor(0.0)), 1.0))

    def observed():
        pyro.sample("x", dist.Normal(0.0, 1.0), obs=torch.tensor(1.0))

    def option():
        pyro.sample("data", dist.Normal(0.0, 1.0))

    def squared():
        beyond = [dist.transforms.AffineTransform(3.0, 2.0)]
        pyro.sample("late", dist.TransformedDistribution(dist.Gamma(2.0, 1.0), beyond))

    def improper():
        pyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ()))

    return [
        (improper, "set a proper prior"),
        (discrete, "z is discrete"),
        (moving, "x has another support"),
        (minibatch, "plate rows uses a part"),
        (optimised, r"p is a pyro\.param"),
        (observed, "no latent site"),
        (option, "cannot be called 'data'"),
        (squared, "the support of late is unknown"),
    ]


@pytest.mark.parametrize(("function", "message"), refused(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_taken_is_refused(function, message):
    with pytest.raises(CapabilityError, match=message):
        from_pyro.model(function)
