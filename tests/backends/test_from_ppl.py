"""Models of NumPyro and Pyro: their own log densities, names, plates, and what is refused."""

import importlib
from typing import Any, NamedTuple

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.conftest import x64
from xpsample.core.errors import CapabilityError, HyperparameterError

EFFECTS = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]
ERRORS = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]


class Language(NamedTuple):
    """A language of models: its module, its distributions and handlers, its arrays, and what takes its models."""

    name: str
    ppl: Any
    dist: Any
    handlers: Any
    array: Any
    adaptor: Any

    def joint(self, function, kwargs, values):
        """The log density of all sites, by the language itself."""
        if self.name == "numpyro":
            return importlib.import_module("numpyro.infer.util").log_density(function, (), kwargs, values)[0]
        conditioned = self.handlers.condition(function, data=values)
        return self.handlers.trace(conditioned).get_trace(**kwargs).log_prob_sum()


@pytest.fixture(params=["pyro", pytest.param("numpyro", marks=pytest.mark.slow)])
def language(request):
    name, library = request.param, "torch" if request.param == "pyro" else "jax.numpy"
    ppl, arrays = pytest.importorskip(name), pytest.importorskip(library)
    dist = importlib.import_module(f"{name}.distributions")
    handlers = ppl.poutine if name == "pyro" else ppl.handlers
    adaptor = importlib.import_module("xpsample_torch.from_pyro" if name == "pyro" else "xpsample_jax.from_numpyro")
    with x64(library.partition(".")[0], "float64"):
        yield Language(name, ppl, dist, handlers, arrays.asarray, adaptor)


def eight_schools(language):
    ppl, dist = language.ppl, language.dist

    def model(errors, y=None):
        mu = ppl.sample("mu", dist.Normal(0.0, 5.0))
        tau = ppl.sample("tau", dist.HalfCauchy(5.0))
        with ppl.plate("school", len(errors)):
            z = ppl.sample("z", dist.Normal(0.0, 1.0))
            theta = ppl.deterministic("theta", mu + tau * z)
            ppl.sample("y", dist.Normal(theta, errors), obs=y)

    return model


def many_supports(language):
    ppl, dist, array = language.ppl, language.dist, language.array

    def model():
        ppl.sample("share", dist.Beta(2.0, 3.0))
        ppl.sample("u", dist.Uniform(-1.0, 2.0))
        ppl.sample("w", dist.Dirichlet(array([2.0, 3.0, 4.0])))
        ppl.sample("L", dist.LKJCholesky(3, 2.0))
        ppl.sample("s", dist.LogNormal(0.0, 1.0))
        with ppl.plate("rows", 2, dim=-2), ppl.plate("columns", 3, dim=-1):
            ppl.sample("a", dist.Gamma(2.0, 1.0))
            ppl.sample("b", dist.Normal(array([0.0, 0.0]), 1.0).to_event(1))
        base = dist.Normal(array([0.0, 0.0, 0.0]), 1.0).to_event(1)
        ppl.sample("cuts", dist.TransformedDistribution(base, [dist.transforms.OrderedTransform()]))
        with language.handlers.scale(scale=0.5), language.handlers.mask(mask=array([True, False])):
            ppl.sample("seen", dist.Normal(array([0.0, 0.0]), 1.0), obs=array([1.0, 1.0]))
        ppl.factor("penalty", array(-0.1))
        if language.name == "numpyro":
            ppl.sample("late", dist.LeftTruncatedDistribution(dist.Normal(0.0, 1.0), low=0.5))
        else:
            for i in ppl.plate("one_by_one", 2):
                ppl.sample(f"q{i}", dist.StudentT(3.0))

    return model


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", [eight_schools, many_supports])
def test_density_is_the_languages_own(language, make):
    array = language.array
    kwargs = {"errors": array(ERRORS), "y": array(EFFECTS)} if make is eight_schools else {}
    function = make(language)
    model = language.adaptor.model(function, model_kwargs=kwargs)
    x = model.start(like=array(np.zeros(0)), chains=(2, 3), seed=0)
    ours, values = model.target.log_density(x), model.values(x)
    _, log_jacobian = model.space.constrain(numpy_xp, np.asarray(x))
    assert tuple(ours.shape) == (2, 3)
    for i in np.ndindex(2, 3):
        own = {name: value[i] for name, value in zip(model.names, values, strict=True)}
        expected = float(language.joint(function, kwargs, own)) + log_jacobian[i]
        assert float(ours[i]) == pytest.approx(expected, rel=1e-6 if language.name == "pyro" else 1e-9), i


def test_names_plates_and_generated_values(language):
    pytest.importorskip("arviz_base")
    labels, function = {"school": list("ABCDEFGH")}, eight_schools(language)
    errors, observed = language.array(ERRORS), {"y": language.array(EFFECTS)}
    model = language.adaptor.model(function, (errors,), observed, coords=labels)
    x0 = model.start(like=language.array(np.zeros(0)), chains=4, seed=0)
    trace = xps.sample(model, xps.HMC(0.3, 3), x0, 20, seed=1, progress=False)
    posterior = trace.to_arviz().posterior
    assert posterior["z"].dims == ("chain", "draw", "school")
    assert list(posterior["school"].values) == labels["school"]
    theta = trace.map(language.adaptor.generated(function, (errors,), observed))["theta"]
    expected = trace["mu"][..., None] + trace["tau"][..., None] * trace["z"]
    assert theta.shape == (20, 4, 8) and np.allclose(theta, expected, rtol=1e-5)
    with pytest.raises(HyperparameterError, match=r"\['mu', 'tau', 'z'\]; expected \['mu', 'tau', 'z', 'y'\]"):
        trace.map(language.adaptor.generated(function, (errors,)))  # without the observations
    axes = {"a": ("rows", "columns"), "b": ("rows", "columns", "b_dim_2")}
    assert dict(language.adaptor.model(many_supports(language)).space.dims) == axes


def test_angles_are_on_the_circle(language):
    def angles():
        with language.ppl.plate("rows", 3):
            language.ppl.sample("a", language.dist.VonMises(0.0, 1.0).mask(True))

    assert language.adaptor.model(angles).space.parts == (xps.Circular(3),)


def refused(language):
    """Models that have something, and what the message says."""
    name, ppl, dist, _, array, _ = language
    real, shifted = dist.constraints.real, [dist.transforms.AffineTransform(3.0, 2.0)]

    def minibatch():
        m = ppl.sample("m", dist.Normal(0.0, 1.0))
        with ppl.plate("rows", 10, subsample_size=3):
            ppl.sample("y", dist.Normal(m, 1.0), obs=array([0.0, 0.0, 0.0]))

    def of(site, prior, **settings):
        return lambda: ppl.sample(site, prior(), **settings)

    if name == "numpyro":
        unknown = of("late", lambda: dist.LKJ(3, 1.0)), "values of late"
    else:
        late = of("late", lambda: dist.TransformedDistribution(dist.Gamma(2.0, 1.0), shifted))
        unknown = late, "the support of late is unknown"
    return {
        "improper": (of("x", lambda: dist.ImproperUniform(real, (), ())), "set a proper prior"),
        "discrete": (of("z", lambda: dist.Bernoulli(0.5)), "z is discrete"),
        "moving": (of("x", lambda: dist.Uniform(0.0, ppl.sample("top", dist.HalfNormal(1.0)))), "x has another sup"),
        "minibatch": (minibatch, "plate rows uses a part"),
        "optimised": (of("x", lambda: dist.Normal(ppl.param("p", array(0.0)), 1.0)), rf"p is a {name}\.param"),
        "observed": (of("x", lambda: dist.Normal(0.0, 1.0), obs=array(1.0)), "no latent site"),
        "option": (of("data", lambda: dist.Normal(0.0, 1.0)), "cannot be called 'data'"),
        "unknown": unknown,
    }


NOT_TAKEN = ("improper", "discrete", "moving", "minibatch", "optimised", "observed", "option", "unknown")


@pytest.mark.parametrize("what", NOT_TAKEN)
def test_what_cannot_be_taken_is_refused(language, what):
    function, message = refused(language)[what]
    with pytest.raises(CapabilityError, match=message):
        language.adaptor.model(function)
