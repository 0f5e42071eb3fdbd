"""Priors of torch.distributions as models."""

import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError, HyperparameterError, LogDensityError

torch = pytest.importorskip("torch")

from torch import distributions as D  # noqa: E402
from torch.distributions import biject_to, constraints  # noqa: E402
from xpsample_torch import from_distributions  # noqa: E402

DOUBLE = {"dtype": torch.float64}


def priors():
    """One of each support, with batch and event axes."""
    one = torch.ones((), **DOUBLE)
    return {
        "mu": D.Normal(0 * one, 2 * one),
        "tau": D.HalfCauchy(5 * one),
        "theta": D.Normal(torch.arange(3.0, **DOUBLE), one),
        "w": D.Dirichlet(torch.tensor([[2.0, 3.0, 4.0], [1.0, 1.0, 5.0]], **DOUBLE)),
        "u": D.Uniform(-one, torch.tensor([1.0, 3.0], **DOUBLE)),
        "x": D.MultivariateNormal(torch.zeros(2, **DOUBLE), torch.tensor([[1.0, 0.5], [0.5, 1.0]], **DOUBLE)),
        "L": D.LKJCholesky(3, 2 * one),
        "s": D.Independent(D.Gamma(torch.full((2, 2), 2.0, **DOUBLE), one), 2),
        "y": D.MixtureSameFamily(D.Categorical(torch.ones(2, **DOUBLE)), D.Normal(torch.arange(2.0, **DOUBLE), one)),
        "late": D.TransformedDistribution(D.Normal(one, one), [D.AffineTransform(3.0, 2.0), D.ExpTransform()]),
    }  # fmt: skip


def test_density_is_that_of_the_distributions_and_their_bijections():
    own = priors()
    model = from_distributions.model(**own)
    x = model.start(like=torch.zeros(0, **DOUBLE), chains=(2, 3), seed=0)
    expected = torch.zeros(2, 3, **DOUBLE)
    for name, prior in own.items():
        z = x[..., model.space.coordinates(name)]
        shape = prior.batch_shape + prior.event_shape
        bijection = biject_to(constraints.real if name == "y" else prior.support)
        z = z.reshape(2, 3, *bijection.inverse_shape(shape))
        value = bijection(z)
        assert torch.allclose(value, getattr(model.values(x), name))
        jacobian = bijection.log_abs_det_jacobian(z, value)
        expected += prior.log_prob(value).reshape(2, 3, -1).sum(-1) + jacobian.reshape(2, 3, -1).sum(-1)
    assert torch.allclose(model.target.log_density(x), expected)


def test_angles_are_on_the_circle():
    """torch says that they are all real numbers, where their density repeats."""
    angle = D.VonMises(torch.ones(2, **DOUBLE), 2 * torch.ones(2, **DOUBLE))
    mixed = D.MixtureSameFamily(D.Categorical(torch.ones(2, **DOUBLE)), angle)
    model = from_distributions.model(a=angle, b=D.Independent(angle, 1), c=mixed)
    assert model.space.parts == (xps.Circular(2), xps.Circular(2), xps.Circular())
    x = model.start(like=torch.zeros(0, **DOUBLE), chains=3, seed=0)
    values, log_jacobian = model.values(x), -0.5 * (x**2).sum(-1)
    expected = angle.log_prob(values.a).sum(-1) + angle.log_prob(values.b).sum(-1) + mixed.log_prob(values.c)
    assert torch.allclose(model.target.log_density(x), expected + log_jacobian)


def test_values_on_an_edge_by_rounding_do_not_end_a_run():
    # Once something was compiled, torch checks nothing unless asked to.
    checking = {"tau": D.HalfCauchy(1.0, validate_args=True), "w": D.Dirichlet(torch.ones(3), validate_args=True)}
    model = from_distributions.model(**checking)
    x = torch.tensor([[-200.0, 0.0, 0.0], [0.0, 200.0, -200.0]])
    values = model.values(x)
    assert values.tau[0] == 0.0 and values.w[1, 1] == 0.0
    model.target.log_density(x)
    theirs = D.Dirichlet(torch.ones(3), validate_args=True)
    from_distributions.model(w=theirs)
    with pytest.raises(ValueError, match="support"):
        theirs.log_prob(torch.tensor([0.5, 0.5, 0.1]))  # theirs check, as before


def test_a_likelihood_that_sums_over_chains_is_refused():
    model = from_distributions.model(lambda p: D.Normal(0.0, 1.0).log_prob(p.mu).sum(), mu=D.Normal(0.0, 1.0))
    with pytest.raises(LogDensityError, match=r"\(\*chains\), here \(4,\); got \(\)"):
        model.start(like=torch.zeros(0), chains=4, seed=0)


ONE, SHIFTED = torch.tensor(1.0), D.AffineTransform(3.0, 2.0)
UNKNOWN = "x is unknown, since a transform"


def moved(base, *transforms):
    """A prior whose support torch takes for a larger set."""
    return {"x": D.TransformedDistribution(base, list(transforms))}


@pytest.mark.parametrize(
    ("priors", "error", "message"),
    [
        ({"mu": 1.0}, HyperparameterError, "prior of mu"),
        ({}, HyperparameterError, "one parameter"),
        ({"z": D.Bernoulli(0.5)}, CapabilityError, "z is discrete"),
        ({"Sigma": D.Wishart(torch.tensor(4.0), torch.eye(2))}, CapabilityError, "Sigma"),
        (moved(D.Exponential(ONE), SHIFTED), CapabilityError, UNKNOWN),
        (moved(D.Uniform(-ONE, ONE), D.ExpTransform()), CapabilityError, UNKNOWN),
        (moved(D.Normal(ONE, ONE), D.SigmoidTransform(), SHIFTED), CapabilityError, UNKNOWN),
        ({"x": D.Independent(moved(D.Exponential(ONE.expand(2)), SHIFTED)["x"], 1)}, CapabilityError, UNKNOWN),
    ],
    ids=["number", "none", "discrete", "matrix", "shifted", "transformed", "bounded", "inside Independent"],
)
def test_what_is_no_prior_is_refused(priors, error, message):
    with pytest.raises(error, match=message):
        from_distributions.model(**priors)
