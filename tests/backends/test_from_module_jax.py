"""Modules of Equinox and Flax NNX: their own forms as networks, and what is refused."""

from functools import partial

import numpy as np
import pytest

import xpsample as xps
from tests.backends.modules_support import equinox_modules, nnx_modules
from xpsample.core import tree
from xpsample.core.errors import CapabilityError, HyperparameterError
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

import jax.numpy as jnp  # noqa: E402
from jax.flatten_util import ravel_pytree  # noqa: E402
from xpsample_jax import from_module  # noqa: E402

ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(60, 2)), dtype=jnp.float32)
KEY = jax.random.key(0)
EQUINOX, NNX = equinox_modules(), nnx_modules()

pytestmark = pytest.mark.slow  # most of them compile


def partitioned():
    """Equinox's own form: arrays in one half, all else in the other."""
    parameters, static = eqx.partition(EQUINOX.make(2, 2), eqx.is_inexact_array)

    def network(x, parameters):
        one = eqx.combine(parameters, static)
        for _ in range(x.ndim - 1):
            one = jax.vmap(one)
        return one(x)

    return network, parameters


def split():
    """Flax's own form: a graph, and a state."""
    graph, parameters, rest = nnx.split(NNX.make(2, 2), nnx.Param, ...)
    return (lambda x, parameters: nnx.merge(graph, parameters, rest)(x)), parameters


def adapted(kind):
    module = kind.make(2, 2)
    return from_module.network(module), from_module.parameters(module)


FORMS = {
    "partition": partitioned,
    "split": split,
    "equinox network": partial(adapted, EQUINOX),
    "nnx network": partial(adapted, NNX),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.mark.sampled(2)
@forms
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
@forms
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
        run(EQUINOX.make())


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
        EQUINOX.posterior(make())


def test_in_evaluation_mode_they_are_not():
    batches = nnx.Sequential(nnx.Linear(1, 2, rngs=nnx.Rngs(0)), nnx.BatchNorm(2, rngs=nnx.Rngs(0)))
    batches.eval()
    drop = eqx.nn.inference_mode(eqx.nn.Sequential([linear(KEY), eqx.nn.Dropout(0.1)]))
    for module, dim in ((drop, 2), (batches, 2 + 2 + 4)):
        assert EQUINOX.posterior(module).start(like=ROWS, chains=3, seed=0).shape == (3, dim)


def test_a_number_among_the_inputs_is_the_same_for_all():
    """Such as the noise level of a score network, beside rows."""

    class Scaled(eqx.Module):
        inner: eqx.nn.Linear

        def __call__(self, x, level=1.0):
            return level * self.inner(x)

    module = Scaled(eqx.nn.Linear(2, 1, key=KEY, dtype=jnp.float32))
    network, parameters = from_module.network(module), from_module.parameters(module)
    expected = 0.5 * (ROWS @ module.inner.weight.T + module.inner.bias)
    for level in (jnp.asarray(0.5), jnp.full(len(ROWS), 0.5)):
        np.testing.assert_allclose(network(ROWS, level, parameters), expected, rtol=1e-5)
