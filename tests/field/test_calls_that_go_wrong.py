"""A wrong call is told what is wrong and what to type; a call that has one meaning just works."""

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import BackendError, CapabilityError, HyperparameterError, LogDensityError

X0 = np.zeros((4, 3))


def normal(x):
    return -0.5 * array_namespace(x).sum(x**2, axis=-1)


def model(density, **settings):
    return xps.Model(density, mu=xps.Real(), z=xps.Real(2), **settings)


def run(target, kernel=None, x0=X0, **settings):
    return xps.sample(target, kernel or xps.RWM(1.0), x0, 3, seed=1, progress=False, **settings)


# ---- what now works --------------------------------------------------------------------------------------------------


@pytest.mark.first_tier
def test_a_model_of_a_function_of_one_chain(library):
    """`batched` hands it the parameters of one chain."""

    def of_one(p, scale):
        assert p.mu.shape == () and p.z.shape == (2,)
        return -0.5 * scale * (p.mu**2 + p.z @ p.z)

    one, all_chains = model(xps.batched(of_one), data=np.ones(())), model(lambda p: -0.5 * p.mu**2 + normal(p.z))
    x0 = library.array(np.random.default_rng(0).normal(size=(2, 4, 3)))
    draws = [library.host(xps.sample(m, xps.RWM(1.0), x0, 5, seed=xps.Portable(1)).draws) for m in (one, all_chains)]
    np.testing.assert_allclose(*draws, rtol=1e-12)


def test_starts_of_groups_whose_data_differ():
    data = np.asarray([0.0, 10.0, -10.0])[:, None, None]
    here = model(lambda p, d: normal(p.z - d) - p.mu**2, data=data)
    assert here.start(like=np.zeros(0), chains=(3, 4), seed=0).shape == (3, 4, 3)
    target = xps.Target(lambda x, d: normal(x - d), data=data)
    assert xps.start(target, np.zeros(2), chains=(3, 4), seed=0).shape == (3, 4, 2)


@pytest.mark.parametrize("number", [np.float64(2.0), np.float32(2.0), np.int64(2), np.bool_(True)])
def test_numbers_of_numpy_among_the_data(library, number):
    def log_density(x, data):
        return normal(x) * array_namespace(x).astype(data["s"], x.dtype)

    target = xps.Target(log_density, data={"s": number})
    assert run(target, x0=library.array(X0)).draws.shape == (3, 4, 3)


# ---- what is told ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x0", "advice"),
    [
        (
            {"mu": np.zeros(4)},
            r"got dict; .*, or give the parameters names by a Model, such as Model\(log_density, mu=",
        ),
        (1.0, r"got float; start each chain at a point, such as numpy.zeros\(\(chains, dim\)\)"),
        ([[0.0]], r"got list; make an array of it, such as numpy.asarray\(x0\)"),
    ],
)
def test_starts_that_are_no_array(x0, advice):
    with pytest.raises(BackendError, match=advice):
        run(xps.Target(normal), x0=x0)


def test_a_data_frame():
    frame = pytest.importorskip("pandas").DataFrame(X0)
    with pytest.raises(BackendError, match=r"got DataFrame; take its numbers, x0.to_numpy\(\)"):
        run(xps.Target(normal), x0=frame)
    with pytest.raises(LogDensityError, match=r"got Series: take its numbers by .to_numpy\(\)"):
        run(xps.Target(lambda x: frame[0]))


@pytest.mark.parametrize("kernel", [xps.RWM(1.0), xps.HMC(0.1, 2)])
def test_a_function_without_its_return(library, kernel):
    x0 = library.array(X0)
    for target in (xps.Target(lambda x: None), model(lambda p: None)):
        with pytest.raises(LogDensityError, match="None: let the function end with return"):
            run(target, kernel, x0)
    for target in (xps.Target(xps.batched(lambda x: None)), model(xps.batched(lambda p: None))):
        with pytest.raises(LogDensityError, match="gives None for a position: let it end with return"):
            run(target, kernel, x0)


@pytest.mark.parametrize(
    "density", [lambda p: normal(p), lambda p: p["mu"], lambda p: p.sigma, lambda mu, z: mu, lambda p, data: p.mu]
)
def test_densities_of_a_model_that_take_something_else(density):
    message = (
        r"called as log_density\(p\), or log_density\(p, data\) .*; p has mu, z, such as p.mu of shape \(\*chains\)"
    )
    with pytest.raises(LogDensityError, match=message):
        run(model(density))


def test_a_check_of_a_score_that_nothing_uses():
    with pytest.raises(CapabilityError, match="compares the score with the log density, and RWM uses no score"):
        run(xps.Target(normal), check=True)


def test_a_lifted_function_where_none_is_taken():
    with pytest.raises(LogDensityError, match="here it is called with a tuple: write the function for all chains"):
        xps.batched(normal)((X0,))
    for wrong in ("ValueError", (ValueError, int), 3):
        with pytest.raises(HyperparameterError, match="rejects must be a class of exceptions, such as ValueError"):
            xps.batched(normal, rejects=wrong)
