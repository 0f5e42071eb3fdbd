"""Modules of Equinox and Flax NNX: posteriors of their weights, and networks as functions of their parameters."""

from functools import partial

import numpy as np
import pytest

import xpsample as xps
from xpsample.core import tree
from xpsample.core.errors import CapabilityError, CheckpointError, HyperparameterError
from xpsample.optimize import SGD, Adam, Averaged
from xpsample.particles.batches import RowBatches
from xpsample.particles.pcd import PCD
from xpsample.score_mh import (
    Denoising,
    Learned,
    RandomWalk,
    ScoreBalance,
    Sliced,
    fit,
    load_parameters,
    save_parameters,
)
from xpsample.sosmc import SOSMC, EnergyModel, LangevinMove, SOSMCHistory
from xpsample.targets.parametric import Parametric

eqx, jax = pytest.importorskip("equinox"), pytest.importorskip("jax")
nnx = pytest.importorskip("flax.nnx")
pytest.importorskip("numpyro")

import jax.numpy as jnp  # noqa: E402
from jax.flatten_util import ravel_pytree  # noqa: E402
from numpyro.distributions import HalfNormal, Normal  # noqa: E402
from xpsample_jax import from_module  # noqa: E402

X = jnp.linspace(-1, 1, 12)[:, None]
Y = jnp.sin(3 * X[:, 0])
ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(60, 2)), dtype=jnp.float32)
KEY = jax.random.key(0)
ONE = Normal(0.0, 1.0)

pytestmark = pytest.mark.slow  # most of them compile


def mlp(key, inputs=1, outputs=1):
    return eqx.nn.MLP(inputs, outputs, 4, depth=1, activation=jnp.tanh, key=key, dtype=jnp.float32)


class Net(nnx.Module):
    def __init__(self, inputs, outputs, rngs):
        self.first = nnx.Linear(inputs, 4, rngs=rngs)
        self.last = nnx.List([nnx.Linear(4, outputs, rngs=rngs)])
        self.drop = nnx.Dropout(0.1, deterministic=True, rngs=rngs)

    def __call__(self, x):
        return self.last[0](self.drop(jnp.tanh(self.first(x))))


def flax(key, inputs=1, outputs=1):
    return Net(inputs, outputs, nnx.Rngs(key))


MAKES = {"equinox": mlp, "nnx": flax}
NAMES = {
    "equinox": ("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"),
    "nnx": ("first.bias", "first.kernel", "last.0.bias", "last.0.kernel"),
}


def of_rows(module, x):
    """What a module gives for a batch, by the library's own means."""
    return jax.vmap(module)(x) if isinstance(module, eqx.Module) else module(x)


def log_likelihood(net, data):
    x, y = data
    return Normal(net(x)[..., 0], 0.3).log_prob(y).sum(-1)


def posterior(module, prior=ONE, **settings):
    return from_module.model(module, log_likelihood, prior=prior, data=(X, Y), **settings)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", MAKES)
def test_density_is_that_of_each_chains_module(kind):
    make = MAKES[kind]
    model, x0 = posterior(make(KEY), {"*bias": Normal(0.0, 3.0), "*": ONE}), from_module.start(make, (2, 3), seed=0)
    density = model.target.log_density(model.position(x0), (X, Y))
    network = from_module.network(make(KEY))
    for chain in np.ndindex(2, 3):
        weights = {name: leaf[chain] for name, leaf in x0.items()}
        module = network.module(weights)
        expected = Normal(of_rows(module, X)[:, 0], 0.3).log_prob(Y).sum()
        expected += sum(Normal(0.0, 3.0 if "bias" in n else 1.0).log_prob(w).sum() for n, w in weights.items())
        np.testing.assert_allclose(density[chain], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", MAKES)
def test_names_start_and_predictions_of_a_hundred_chains(kind, tmp_path):
    make = MAKES[kind]
    model, x0 = posterior(make(KEY)), from_module.start(make, 100, seed=0)
    assert len(np.unique(x0[NAMES[kind][-1] if kind == "nnx" else NAMES[kind][0]])) == 400
    trace = xps.sample(model, xps.HMC(0.01, steps=3), x0, 5, seed=1, progress=False)
    assert trace.parameters == NAMES[kind]
    found = trace.map(from_module.predict(make(KEY), X))
    assert found.shape == (5, 100, 12, 1)
    module = from_module.network(make(KEY)).module({name: trace[name][3, 7] for name in trace.parameters})
    np.testing.assert_allclose(found[3, 7], of_rows(module, X), rtol=1e-4, atol=1e-6)
    trace.save(tmp_path / "trace.npz")
    loaded = xps.load(tmp_path / "trace.npz", like=X)
    np.testing.assert_array_equal(loaded.map(from_module.predict(make(KEY), X)), found)


@pytest.mark.parametrize("kind", ["equinox", pytest.param("nnx", marks=pytest.mark.slow)])
def test_a_checkpoint_knows_its_module(kind, tmp_path):
    make = MAKES[kind]
    kernel, x0 = xps.HMC(0.01, steps=3), from_module.start(make, 3, seed=0)

    def run(draws, module, **settings):
        return xps.sample(posterior(module), kernel, x0, draws, seed=1, progress=False, **settings)

    run(3, make(KEY), checkpoint=tmp_path)
    np.testing.assert_array_equal(run(8, make(KEY), checkpoint=tmp_path).draws, run(8, make(KEY)).draws)
    other = Deeper(nnx.Rngs(0)) if kind == "nnx" else eqx.tree_at(lambda m: m.activation, make(KEY), jax.nn.relu)
    with pytest.raises(CheckpointError, match="another run"):
        run(9, other, checkpoint=tmp_path)


class Deeper(Net):
    """Of the same parameters, and another activation."""

    def __init__(self, rngs):
        super().__init__(1, 1, rngs)

    def __call__(self, x):
        return self.last[0](jax.nn.relu(self.first(x)))


def test_priors_say_where_parameters_are():
    model = posterior(mlp(KEY), {"layers.0.weight": HalfNormal(1.0), "*": ONE})
    x = model.start(like=X, chains=5, seed=0)
    values = model.values(x)
    assert bool((values[0] > 0).all())
    expected = HalfNormal(1.0).log_prob(values[0]).sum((-1, -2)) + x[:, :4].sum(-1)  # the Jacobian of exp
    expected += sum(ONE.log_prob(value).reshape(5, -1).sum(-1) for value in values[1:])
    network = from_module.network(mlp(KEY))
    for i in range(5):
        weights = dict(zip(model.names, (value[i] for value in values), strict=True))
        expected = expected.at[i].add(Normal(network(X, weights)[:, 0], 0.3).log_prob(Y).sum())
    np.testing.assert_allclose(model.target.log_density(x, (X, Y)), expected, rtol=1e-4)


def partitioned():
    """Equinox's own form: arrays in one half, all else in the other."""
    parameters, static = eqx.partition(mlp(KEY, 2, 2), eqx.is_inexact_array)

    def network(x, parameters):
        one = eqx.combine(parameters, static)
        for _ in range(x.ndim - 1):
            one = jax.vmap(one)
        return one(x)

    return network, parameters


def split():
    """Flax's own form: a graph, and a state."""
    graph, parameters, rest = nnx.split(flax(KEY, 2, 2), nnx.Param, ...)
    return (lambda x, parameters: nnx.merge(graph, parameters, rest)(x)), parameters


def adapted(make):
    module = make(KEY, 2, 2)
    return from_module.network(module), from_module.parameters(module)


FORMS = [
    pytest.param(partitioned, id="partition"),
    pytest.param(split, id="split", marks=pytest.mark.slow),
    *(
        pytest.param(partial(adapted, make), id=f"{name} network", marks=pytest.mark.slow)
        for name, make in MAKES.items()
    ),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMS)
def test_as_networks_of_trainings_targets_and_energy_models(form, tmp_path):
    network, start = form()
    average = Averaged(Adam(0.01), 0.5)
    found = fit(Sliced(1, network), start, ROWS, epochs=5, optimizer=average, validation=ROWS[:10], seed=0)
    assert found.losses[-1] < found.losses[0] and type(found.parameters) is type(start)
    target = xps.Target(None, score=network, data=found.parameters)
    assert xps.sample(target, xps.ULA(0.01), ROWS[:5], 3, seed=1, progress=False).draws.shape == (3, 5, 2)
    pcd = PCD(RowBatches(ROWS), average, step_size=0.01)
    trained = xps.sample(Parametric(energy(network), start), pcd, ROWS, 3, seed=1, progress=False)
    assert type(trained.state.optimizer.average) is type(start)
    save_parameters(tmp_path / "parameters.npz", found.parameters)
    loaded = load_parameters(tmp_path / "parameters.npz", start)
    assert jnp.array_equal(ravel_pytree(loaded)[0], ravel_pytree(found.parameters)[0])


def energy(network):
    return lambda x, parameters: -(network(x, parameters) ** 2).sum(-1) - 0.5 * (x * x).sum(-1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMS)
def test_checkpoints_and_files_keep_trees_of_a_library(form, tmp_path):
    network, start = form()
    kernel, history = SOSMC(EnergyModel(RowBatches(ROWS)), LangevinMove(0.01), SGD(0.01)), SOSMCHistory()
    family = Parametric(energy(network), start)
    run = partial(xps.sample, family, kernel, ROWS[:20], seed=1, recorders=[history], progress=False)
    run(4, checkpoint=tmp_path / "checkpoint")
    resumed, whole = run(9, checkpoint=tmp_path / "checkpoint"), run(9)
    for own, other in zip(tree.leaves(resumed.state), tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(own, other)
    whole.save(tmp_path / "trace.npz")
    kept = xps.load(tmp_path / "trace.npz").recorded["history"]["parameters"]
    assert set(kept) == {path for path, _ in tree.items(start)}


def test_runs_have_networks_of_their_own():
    """Particles (*runs, particles, dim) with parameters (*runs, 1, ...), against each run by itself."""
    network = from_module.network(mlp(KEY, 2))
    starts = from_module.start(lambda key: mlp(key, 2), (2, 1), seed=0)
    particles = jnp.stack([ROWS[:20], ROWS[20:40]])
    both = network(particles, starts)
    for i in range(2):
        alone = network(particles[i], {name: leaf[i, 0] for name, leaf in starts.items()})
        np.testing.assert_allclose(both[i], alone, rtol=1e-5)
    with pytest.raises(HyperparameterError, match="must be of one network, or of runs"):
        network(ROWS, {name: leaf[:, 0] for name, leaf in starts.items()})


@pytest.mark.slow
def test_an_acceptance_network():
    class Accept(eqx.Module):
        inner: eqx.nn.MLP

        def __call__(self, x_new, x):
            return self.inner(jnp.concatenate([x_new, x]))

    module = Accept(eqx.nn.MLP(4, "scalar", 8, depth=1, key=KEY, dtype=jnp.float32))
    network = from_module.network(module)
    loss = ScoreBalance(RandomWalk(0.5), lambda x: -x, network=network)
    found = fit(loss, from_module.parameters(module), ROWS, epochs=2, seed=0)
    acceptance = Learned(network, found.parameters, RandomWalk(0.5))
    target = xps.Target(None, score=lambda x: -x, acceptance=acceptance)
    assert xps.sample(target, xps.RWM(0.5), ROWS, 3, seed=1, progress=False).draws.shape == (3, 60, 2)


@pytest.mark.parametrize(
    "run",
    [
        lambda module: xps.Target(lambda x, p: x[..., 0], data=module).prepare(
            ROWS, xps.targets.Capability.LOG_DENSITY
        ),
        lambda module: fit(Denoising(0.5, lambda x, p: x), module, ROWS, epochs=1, seed=0),
    ],
)
def test_functions_inside_of_a_module_are_refused_by_name(run):
    with pytest.raises(HyperparameterError, match="activation' is a function, such as a module's"):
        run(mlp(KEY))


def test_integers_do_not_move():
    with pytest.raises(HyperparameterError, match="count is an array, int32"):
        fit(Denoising(0.5, lambda x, p: x), {"count": jnp.arange(3, dtype=jnp.int32)}, ROWS, epochs=1, seed=0)


class Holding(eqx.Module):
    """Integers and NumPy arrays stay what they are."""

    weight: jax.Array
    count: jax.Array
    shift: np.ndarray

    def __call__(self, x):
        return self.weight * x + self.shift[self.count]


def test_what_is_held():
    module = Holding(jnp.ones(2), jnp.asarray(1), np.asarray([3.0, 4.0], dtype=np.float32))
    assert list(from_module.parameters(module)) == ["weight"]
    np.testing.assert_allclose(from_module.network(module)(jnp.ones((3, 2)), {"weight": jnp.zeros(2)}), 4.0)


def linear(key):
    return eqx.nn.Linear(1, 1, key=key)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: eqx.nn.Sequential([linear(KEY), eqx.nn.Dropout(0.1)]), r"layers\.1\.inference is False"),
        (lambda: nnx.Sequential(nnx.Linear(1, 2, rngs=nnx.Rngs(0)), nnx.Dropout(0.1, rngs=nnx.Rngs(0))), "Dropout"),
        (lambda: nnx.BatchNorm(1, rngs=nnx.Rngs(0)), r"the module \(BatchNorm\) is in training mode"),
        (lambda: Holding(jnp.ones(2, dtype=jnp.complex64), 0, np.zeros(1)), "weight is complex"),
        (lambda: jnp.tanh, "holds no floating JAX array"),
        (lambda: eqx.nn.Sequential([linear(KEY)] * 2), "layers.0.weight and layers.1.weight are one array"),
    ],
)
def test_modules_that_are_refused(make, message):
    with pytest.raises(CapabilityError, match=message):
        posterior(make())


def test_in_evaluation_mode_they_are_not():
    module = eqx.nn.inference_mode(eqx.nn.Sequential([linear(KEY), eqx.nn.Dropout(0.1)]))
    assert posterior(module).start(like=X, chains=3, seed=0).shape == (3, 2)
    module = nnx.Sequential(nnx.Linear(1, 2, rngs=nnx.Rngs(0)), nnx.BatchNorm(2, rngs=nnx.Rngs(0)))
    module.eval()
    assert posterior(module).start(like=X, chains=3, seed=0).shape == (3, 2 + 2 + 4)


def test_the_network_of_torch_is_the_network_of_equinox():
    """With the same weights, the same log density, in float64; the posteriors are compared in the slow test."""
    torch_model, _, model, _ = both(4)
    z = np.random.default_rng(0).normal(size=(50, model.space.dim))
    with jax.enable_x64(True):
        own = np.asarray(evaluated(model, jnp.asarray(z)))
    theirs = evaluated(torch_model, as_torch(z)).numpy()
    np.testing.assert_allclose(own, theirs, rtol=1e-13)


@pytest.mark.slow
def test_the_posterior_of_torch_is_that_of_equinox():
    """The means of 100 independent chains each, so the test is right however long they are; false alarms 1e-4."""
    import torch
    from xpsample_torch import from_module as from_torch

    torch_model, torch_make, model, make = both(3)
    grid, kernel = np.linspace(-1.2, 1.2, 4)[:, None], xps.HMC(0.04, steps=15)
    with jax.enable_x64(True):
        trace = xps.sample(model, kernel, from_module.start(make, 100, seed=0), 100, seed=1, progress=False)
        own = np.asarray(trace.map(from_module.predict(make(KEY), jnp.asarray(grid)))[..., 0])
    with torch.random.fork_rng():
        start, module = from_torch.start(torch_make, 100, seed=2), torch_make()
    trace = xps.sample(torch_model, kernel, start, 100, seed=3, progress=False)
    theirs = trace.map(from_torch.predict(module, torch.tensor(grid)))[..., 0].numpy()
    for power in (1, 2):
        a, b = ((draws[20:] ** power).mean(axis=0) for draws in (own, theirs))
        error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / 100)
        # 8 comparisons; a t distribution with about 198 degrees of freedom is beyond 4.4 with probability 2e-5.
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4.4 * error)


def as_torch(array):
    return pytest.importorskip("torch").tensor(np.asarray(array))


def evaluated(model, x):
    return model.prepare(x, xps.targets.Capability.LOG_DENSITY).evaluate(x).log_density


def both(hidden):
    """A model of torch and of JAX, in float64, and what makes their modules."""
    torch = pytest.importorskip("torch")
    from xpsample_torch import from_module as from_torch

    x = np.linspace(-1, 1, 12)[:, None]
    y = np.sin(3 * x[:, 0])

    def torch_make():
        layers = torch.nn.Linear(1, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1)
        return torch.nn.Sequential(*layers).double()

    def torch_likelihood(net, data):
        return torch.distributions.Normal(net(data[0])[..., 0], 0.3).log_prob(data[1]).sum(-1)

    def make(key):
        return eqx.nn.MLP(1, 1, hidden, depth=1, activation=jnp.tanh, key=key, dtype=jnp.float64)

    zero = torch.zeros((), dtype=torch.float64)
    with torch.random.fork_rng():
        module = torch_make()
    torch_model = from_torch.model(
        module, torch_likelihood, prior=torch.distributions.Normal(zero, zero + 1), data=(as_torch(x), as_torch(y))
    )
    with jax.enable_x64(True):
        model = from_module.model(make(KEY), log_likelihood, prior=ONE, data=(jnp.asarray(x), jnp.asarray(y)))
    return torch_model, torch_make, model, make
