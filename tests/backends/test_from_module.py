"""Modules of torch, Equinox and Flax NNX: posteriors of their weights, and networks of runs."""

import numpy as np
import pytest
from scipy.stats import halfnorm, norm

import xpsample as xps
from tests.backends.modules_support import KINDS, ROWS, SCALE, X, Y
from xpsample.core import tree
from xpsample.core.errors import CheckpointError, HyperparameterError
from xpsample.optimize import SGD
from xpsample.particles.batches import RowBatches
from xpsample.sosmc import SOSMC, EnergyModel, LangevinMove
from xpsample.targets.parametric import Parametric

HMC = xps.HMC(0.01, steps=3)


@pytest.fixture(params=["torch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("equinox", "nnx"))])
def kind(request):
    found = KINDS[request.param]()
    if request.param != "torch":
        yield found
        return
    import torch

    with torch.random.fork_rng():  # modules draw their weights from torch's global generator
        torch.manual_seed(0)
        yield found


def log_likelihood(kind, weights):
    return norm.logpdf(Y, kind.call(weights, X)[:, 0], SCALE).sum()


@pytest.mark.sampled(2)
def test_density_is_that_of_each_chains_module(kind):
    normal = kind.distributions.Normal
    model = kind.posterior(kind.make(), {"*bias": normal(0.0, 3.0), "*": normal(0.0, 1.0)})
    x0 = kind.adaptor.start(kind.maker(), (2, 3), seed=0)
    density = model.target.log_density(model.position(x0), model.data)
    for chain in np.ndindex(2, 3):
        weights = {name: leaf[chain] for name, leaf in x0.items()}
        expected = log_likelihood(kind, weights)
        expected += sum(norm.logpdf(w, 0, 3.0 if "bias" in name else 1.0).sum() for name, w in weights.items())
        np.testing.assert_allclose(density[chain], expected, rtol=1e-5)


def test_names_start_and_predictions_of_a_hundred_chains(kind, tmp_path):
    model, x0 = kind.posterior(kind.make()), kind.adaptor.start(kind.maker(), 100, seed=0)
    assert len(np.unique(x0[kind.weight])) == 400
    trace = xps.sample(model, HMC, x0, 5, seed=1, progress=False)
    assert trace.parameters == kind.names
    predict = kind.adaptor.predict(kind.make(), kind.array(X))
    found = trace.map(predict)
    assert found.shape == (5, 100, 12, 1)
    weights = {name: trace[name][3, 7] for name in trace.parameters}
    np.testing.assert_allclose(found[3, 7], kind.call(weights, X), rtol=1e-4, atol=1e-6)
    trace.save(tmp_path / "trace.npz")
    loaded = xps.load(tmp_path / "trace.npz", like=kind.array(X))
    np.testing.assert_array_equal(loaded.map(predict), found)


def test_a_checkpoint_knows_its_module(kind, tmp_path):
    x0 = kind.adaptor.start(kind.maker(), 3, seed=0)

    def run(draws, module, **settings):
        return xps.sample(kind.posterior(module), HMC, x0, draws, seed=1, progress=False, **settings)

    run(3, kind.make(), checkpoint=tmp_path)
    np.testing.assert_array_equal(run(8, kind.make(), checkpoint=tmp_path).draws, run(8, kind.make()).draws)
    with pytest.raises(CheckpointError, match="another run"):
        run(9, kind.other(), checkpoint=tmp_path)


def test_priors_say_where_parameters_are(kind):
    first, distributions = kind.weight, kind.distributions
    prior = {first: distributions.HalfNormal(1.0), "*": distributions.Normal(0.0, 1.0)}
    if first == "0.weight":
        zeros = kind.array(np.zeros(4, np.float32))
        prior["0.bias"] = distributions.MultivariateNormal(zeros, kind.array(np.eye(4, dtype=np.float32)))
    model = kind.posterior(kind.make(), prior)
    x = model.start(like=kind.array(X), chains=5, seed=0)
    values = dict(zip(model.names, model.values(x), strict=True))
    assert bool((values[first] > 0).all())
    expected = np.asarray(x[:, model.space.coordinates(first)]).sum(-1)  # the Jacobian of exp
    for name, value in values.items():
        law = halfnorm if name == first else norm
        expected = expected + law.logpdf(value).reshape(5, -1).sum(-1)
    expected += [log_likelihood(kind, {name: value[i] for name, value in values.items()}) for i in range(5)]
    np.testing.assert_allclose(model.target.log_density(x, model.data), expected, rtol=1e-4)


def test_runs_have_networks_of_their_own(kind):
    """Particles (*runs, particles, dim) with parameters (*runs, 1, ...), against each run by itself."""
    network = kind.adaptor.network(kind.make(2))
    starts = kind.adaptor.start(kind.maker(2), (2, 1), seed=0)
    particles = kind.array(ROWS[:40].reshape(2, 20, 2))

    def log_density(x, parameters):
        return -network(x, parameters)[..., 0] - 0.5 * (x * x).sum(-1)

    together = log_density(particles, starts)
    for i in range(2):
        alone = log_density(particles[i], {name: leaf[i, 0] for name, leaf in starts.items()})
        np.testing.assert_allclose(together[i], alone, rtol=1e-5)
    kernel = SOSMC(EnergyModel(RowBatches(kind.array(ROWS))), LangevinMove(0.01), SGD(0.01))
    trace = xps.sample(Parametric(log_density, starts), kernel, particles, 3, seed=1, progress=False)
    assert tree.map(np.shape, trace.state.parameters) == tree.map(np.shape, starts)
    with pytest.raises(HyperparameterError, match="must be of one network, or of runs"):
        network(kind.array(ROWS), {name: leaf[:, 0] for name, leaf in starts.items()})
    with pytest.raises(HyperparameterError, match=r"missing, or unknown: \['.*bias'\]"):
        network(kind.array(ROWS), {name: leaf for name, leaf in starts.items() if "bias" not in name or "0" in name})
