"""Models of PyMC: its own log densities, names, coords, transforms, and what is refused."""

import os
import subprocess
import sys

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError, GradientError, HyperparameterError
from xpsample.interop import pymc_generated, pymc_model

pm = pytest.importorskip("pymc")

import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


@pytest.fixture(autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def eight_schools():
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        z = pm.Normal("z", 0.0, 1.0, dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, pm.Data("errors", ERRORS, dims="school"), observed=EFFECTS, dims="school")
    return model


def many_transforms():
    with pm.Model() as model:
        top = pm.HalfNormal("top")
        pm.Uniform("u", np.zeros(2), np.array([1.0, 2.0]))
        pm.Uniform("moving", 0.0, top)
        pm.TruncatedNormal("late", 0.0, 1.0, lower=0.5)
        pm.TruncatedNormal("early", 0.0, 1.0, upper=0.5)
        cuts = pm.Normal(
            "cuts", 0.0, 1.0, shape=3, transform=pm.distributions.transforms.ordered, initval=np.arange(3.0)
        )
        pm.Dirichlet("w", np.ones(3))
        pm.ZeroSumNormal("zero", shape=4)
        whole = pm.distributions.transforms.Interval(-np.pi, np.pi)
        pm.VonMises("angle", 0.0, 1.0, default_transform=whole)
        pm.MvNormal("pair", np.zeros(2), np.eye(2), shape=(3, 2))
        pm.Potential("penalty", -0.1 * top - cuts[0] ** 2)
    return model


def parameters_out_of_range():
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.Normal("sigma"), observed=[1.0, 2.0])
    return model


def missing_data():
    with pm.Model() as model, pytest.warns(pm.exceptions.ImputationWarning):
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.array([1.0, np.nan, 2.0]))
    return model


BUILDS = eight_schools, pytest.param(many_transforms, marks=pytest.mark.slow), parameters_out_of_range, missing_data


@pytest.mark.parametrize("build", BUILDS)
def test_density_and_score_of_each_chain_are_pymcs(build):
    theirs, own = build(), pymc_model(build())
    x = np.random.default_rng(1).normal(size=(2, 3, own.space.dim))
    density, score = own.target.log_density_and_score(x)
    assert np.array_equal(density, own.target.log_density(x))
    names = [theirs.rvs_to_values[rv].name for rv in theirs.free_RVs]
    start = {name: np.asarray(theirs.initial_point()[name]) for name in names}
    log_density, slope = theirs.compile_logp(), theirs.compile_dlogp(vars=theirs.free_RVs)
    for i in np.ndindex(2, 3):
        places = np.split(x[i], np.cumsum([value.size for value in start.values()])[:-1])
        point = {name: z.reshape(start[name].shape) for name, z in zip(names, places, strict=True)}
        expected = log_density(point)
        assert np.allclose(density[i], expected, rtol=1e-10)
        if np.isfinite(expected):
            assert np.allclose(score[i], slope(point), rtol=1e-8, atol=1e-10)
    if build is parameters_out_of_range:  # of one chain, and not of all
        assert 0 < np.isfinite(density).sum() < density.size


def test_names_coords_and_deterministic_variables():
    """With the data of the call: other data of PyMC's model later are not the run's."""
    pytest.importorskip("arviz_base")
    theirs = eight_schools()
    model = pymc_model(theirs)
    x0 = model.start(like=np.zeros(0, np.float32), chains=4, seed=0)
    trace = xps.sample(model, xps.HMC(0.2, 3), x0, 20, seed=1, progress=False)
    assert trace.draws.dtype == np.float32 and np.all(trace["tau"] > 0)
    posterior = trace.to_arviz().posterior
    assert posterior["z"].dims == ("chain", "draw", "school")
    assert list(posterior["school"].values) == list("ABCDEFGH")
    theta = trace.map(pymc_generated(theirs))["theta"]
    expected = trace["mu"][..., None] + trace["tau"][..., None] * trace["z"]
    assert theta.shape == (20, 4, 8) and np.allclose(theta, expected, rtol=1e-5, atol=1e-5)
    x = np.zeros((1, model.space.dim))
    before = model.target.log_density(x)
    theirs.set_data("errors", 2 * ERRORS)
    assert pymc_model(theirs).target.log_density(x) != before
    assert model.target.log_density(x) == before


@pytest.mark.slow
def test_spaces_where_the_map_is_the_same_and_pymcs_names_where_not():
    theirs = many_transforms()
    model = pymc_model(theirs)
    expected = {
        "top": xps.Positive(),
        "u": xps.Interval(0.0, np.array([1.0, 2.0]), 2),
        "moving_interval__": xps.Real(),
        "late": xps.LowerBounded(0.5),
        "early": xps.UpperBounded(0.5),
        "cuts": xps.Ordered(3),
        "w_simplex__": xps.Real(2),
        "zero_zerosum__": xps.Real(3),
        "angle": xps.Interval(-np.pi, np.pi),
        "pair": xps.Real(3, 2),
    }
    assert dict(zip(model.names, model.space.parts, strict=True)) == expected
    x = np.random.default_rng(0).normal(size=(5, 4, model.space.dim))
    found = pymc_generated(theirs)(model.values(x))
    shapes = {"moving": (5, 4), "w": (5, 4, 3), "zero": (5, 4, 4)}
    assert {name: value.shape for name, value in found.items()} == shapes
    assert np.allclose(found["w"].sum(-1), 1) and np.allclose(found["zero"].sum(-1), 0)
    assert np.all((found["moving"] > 0) & (found["moving"] < model.values(x).top))


def test_a_model_without_a_gradient():
    class Cube(pt.Op):
        itypes, otypes = (pt.dscalar,), (pt.dscalar,)

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.asarray(inputs[0] ** 3)

    with pm.Model() as theirs:
        pm.Potential("cube", -(Cube()(pm.Normal("x")) ** 2))
    model = pymc_model(theirs)
    x0 = model.start(like=np.zeros(0), chains=4, seed=0)
    assert xps.sample(model, xps.RWM(0.5), x0, 20, seed=1, progress=False)["x"].shape == (20, 4)
    with pytest.raises((CapabilityError, GradientError)):
        xps.sample(model, xps.NUTS(0.5), x0, 20, seed=1, progress=False)


def refused():
    with pm.Model() as discrete:
        pm.Bernoulli("z", 0.5)
    with pm.Model() as minibatch:
        rows = pm.Minibatch(np.zeros(10), batch_size=3)
        pm.Normal("y", pm.Normal("m"), 1.0, observed=rows, total_size=10)
    with pm.Model() as observed:
        pm.Normal("x", observed=1.0)
    with pm.Model() as angle:
        pm.VonMises("a", 0.0, 1.0)
    return [
        (angle, "the angle a"),
        (discrete, "z is discrete"),
        (minibatch, "draws random numbers"),
        (observed, "no free random variable"),
    ]


def test_what_cannot_be_taken_is_refused():
    for model, message in refused():
        with pytest.raises(CapabilityError, match=message):
            pymc_model(model)
    with pytest.raises(HyperparameterError, match=r"pymc\.Model"):
        pymc_model(lambda: None)


CODE = """
import numpy as np, pymc as pm, xpsample as xps
from xpsample.interop import pymc_model
with pm.Model() as m: pm.HalfNormal('s')
model = pymc_model(m)
x0 = model.start(like=np.zeros(0), chains=4, seed=0)
print(xps.sample(model, xps.HMC(0.5, 3), x0, 20, seed=1, progress=False)['s'].shape)
"""


@pytest.mark.slow
def test_no_compiler_is_needed():
    """With PyTensor's own default, in a process of its own, where it finds no C++ compiler."""
    flags = os.environ | {"PYTENSOR_FLAGS": "cxx="}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], env=flags, capture_output=True)
    assert done.stdout.decode().strip() == "(20, 4)", done.stderr.decode()[-2000:]
