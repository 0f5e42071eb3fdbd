"""Distributions of scipy.stats: their densities, spaces and moments, and what is refused."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.core.errors import BackendError, CapabilityError, HyperparameterError
from xpsample.interop import scipy_model

stats = pytest.importorskip("scipy.stats")


def of_every_kind():
    return {
        "gamma": (stats.gamma(3.0), xps.Positive()),
        "normal": (stats.norm([0.0, 1.0, 2.0], 2.0), xps.Real(3)),
        "uniform": (stats.uniform(1.0, [2.0, 3.0]), xps.Interval(1.0, np.array([3.0, 4.0]), 2)),
        "late": (stats.expon(loc=1.0), xps.LowerBounded(1.0)),
        "early": (stats.weibull_max(2.0), xps.UpperBounded(0.0)),
        "pair": (stats.multivariate_normal([0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]]), xps.Real(2)),
        "heavy": (stats.multivariate_t([0.0, 0.0], df=4), xps.Real(2)),
        "shares": (stats.dirichlet([0.5, 2.0, 3.0]), xps.Simplex(3)),
        "angle": (stats.vonmises([1.0, 3.0], loc=2.0), xps.Circular(2)),
        "direction": (stats.vonmises_fisher([1.0, 0.0, 0.0], 2.0), xps.UnitVector(3)),
    }


@pytest.mark.parametrize("name", of_every_kind())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_density_is_scipys_and_the_space_is_its_support(name, dtype):
    distribution, space = of_every_kind()[name]
    model = scipy_model(x=distribution)
    assert repr(model.space.part("x")) == repr(space)
    x = model.start(like=np.zeros(0, dtype), chains=(2, 3), seed=0)
    values, log_jacobian = model.space.part("x").constrain(numpy_xp, x.astype("float64"))
    expected = [np.sum(distribution.logpdf(values[i])) for i in np.ndindex(2, 3)]
    found = model.target.log_density(x) - log_jacobian
    assert found.dtype == np.float64 and model.target.log_density(x).dtype == dtype
    assert np.allclose(found.ravel(), expected, rtol=1e-10 if dtype == "float64" else 1e-3)


def test_distributions_of_the_newer_kind():
    if not hasattr(stats, "Normal"):
        pytest.skip("SciPy has them from 1.15 on")
    pair = stats.Mixture([stats.Normal(mu=0.0), stats.Normal(mu=3.0)], weights=[0.5, 0.5])
    model = scipy_model(a=stats.Normal(mu=[0.0, 1.0]), b=stats.Uniform(a=0.0, b=2.0), c=pair)
    assert model.space.parts == (xps.Real(2), xps.Interval(0.0, 2.0), xps.Real())
    assert model.target.log_density(np.zeros((5, 4))).shape == (5,)


def test_what_cannot_be_taken_is_refused():
    for value, message in (
        (stats.poisson(3.0), "x is discrete"),
        (stats.wishart(3, np.eye(2)), "no space"),
        (stats.vonmises(3.0, scale=2.0), "circle is not 2 pi long"),
        (stats.genpareto([-0.5, 0.5]), "bounded and some are not"),
    ):
        with pytest.raises(CapabilityError, match=message):
            scipy_model(x=value)
    for value in (stats.gamma, 3.0):
        with pytest.raises(HyperparameterError, match="frozen distribution"):
            scipy_model(x=value)


def test_positions_are_numpy_arrays():
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception, match="SciPy computes on NumPy arrays") as caught:
        scipy_model(x=stats.gamma(3.0)).start(like=torch.zeros(0), chains=4, seed=0)
    assert isinstance(caught.value.__cause__ or caught.value, BackendError)
