"""Optimisers against torch.optim and optax."""

import math

import numpy as np
import pytest

from tests.conftest import open_library, x64
from tests.sosmc.sosmc_support import shifted
from xpsample import sample
from xpsample.core import tree
from xpsample.core.errors import HyperparameterError
from xpsample.optimize.optimizers import SGD, Adam, Averaged, Clipped, CosineDecay, to_use
from xpsample.sosmc import SOSMC, Adaptation, LangevinMove, RewardForwardKL, SOSMCHistory

STEPS = 25
START = {"a": np.asarray([1.0, -2.0, 0.5]), "b": [np.asarray([[0.3, 4.0]]), np.asarray(2.0)]}


def gradients(parameters):
    """Of something curved, with entries of different size."""
    return tree.map(lambda p: 3.0 * p + p**3, parameters)


def path(library, optimizer):
    """All parameters after every step, flattened."""
    parameters = tree.map(library.array, START)
    state, rows = optimizer.init(parameters), []
    for _ in range(STEPS):
        updates, state = optimizer.update(gradients(parameters), state, parameters)
        parameters = tree.map(lambda p, u: p + u, parameters, updates)
        rows.append(np.concatenate([library.host(leaf).ravel() for leaf in tree.leaves(parameters)]))
    return np.stack(rows)


def torch_path(kind, max_norm, **settings):
    import torch

    leaves = [torch.tensor(leaf, requires_grad=True) for leaf in tree.leaves(START)]
    optimizer, rows = getattr(torch.optim, kind)(leaves, **settings), []
    for _ in range(STEPS):
        for leaf in leaves:
            leaf.grad = (3.0 * leaf + leaf**3).detach()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(leaves, max_norm)
        optimizer.step()
        rows.append(np.concatenate([leaf.detach().numpy().ravel() for leaf in leaves]))
    return np.stack(rows)


OF_TORCH = {
    "sgd": (SGD(0.02), "SGD", {"lr": 0.02}, None),
    "momentum": (SGD(0.02, 0.8), "SGD", {"lr": 0.02, "momentum": 0.8}, None),
    "adam": (Adam(0.1), "Adam", {"lr": 0.1}, None),
    "adam-decays": (Adam(0.1, 0.7, 0.9, 1e-3), "Adam", {"lr": 0.1, "betas": (0.7, 0.9), "eps": 1e-3}, None),
    "clipped": (Clipped(SGD(0.1), 2.0), "SGD", {"lr": 0.1}, 2.0),
}


@pytest.mark.parametrize(("ours", "kind", "settings", "max_norm"), OF_TORCH.values(), ids=OF_TORCH)
def test_the_same_steps_as_torch(library, ours, kind, settings, max_norm):
    pytest.importorskip("torch")
    # torch's clipping divides by the norm plus 1e-6
    expected = torch_path(kind, max_norm, **settings)
    np.testing.assert_allclose(path(library, ours), expected, rtol=2e-6 if max_norm else 1e-9)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", ["decayed", "decayed-adam", "clipped"])
def test_the_same_steps_as_optax(name):
    """Of what torch has not."""
    optax = pytest.importorskip("optax")
    pairs = {
        "decayed": (CosineDecay(SGD(0.02), 20), optax.sgd(optax.cosine_decay_schedule(0.02, 20))),
        "decayed-adam": (CosineDecay(Adam(0.1), 30), optax.adam(optax.cosine_decay_schedule(0.1, 30))),
        "clipped": (Clipped(Adam(0.1), 0.7), optax.chain(optax.clip_by_global_norm(0.7), optax.adam(0.1))),
    }
    ours, theirs = pairs[name]
    with x64("jax", "float64"):
        library = open_library("jax", "float64")
        np.testing.assert_allclose(path(library, ours), path(library, theirs), rtol=1e-9)


def test_a_decayed_step_is_a_half_in_the_middle_and_0_at_the_end(library):
    one, optimizer = library.array(np.ones(2)), CosineDecay(SGD(1.0), 4)
    state, steps = optimizer.init(one), []
    for _ in range(6):
        update, state = optimizer.update(one, state, one)
        steps.append(-library.host(update)[0])
    np.testing.assert_allclose(steps, [1.0, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5, 0.0, 0.0], atol=1e-6)


@pytest.mark.slow
def test_sosmc_takes_an_optax_optimiser():
    optax = pytest.importorskip("optax")
    library = open_library("jax", "float32")
    x0 = library.array(np.random.default_rng(0).normal(size=(2, 200, 2)))
    loss = RewardForwardKL(lambda x: -((x - 2.0) ** 2).sum(-1))

    def tuned(optimizer):
        kernel = SOSMC(loss, LangevinMove(0.1), optimizer)
        trace = sample(shifted((2,)), kernel, x0, 20, seed=1, recorders=(SOSMCHistory(),), progress=False)
        return library.host(trace.recorded["history"]["parameters"])

    ours = tuned(Adam(0.1))
    np.testing.assert_allclose(tuned(optax.adam(0.1)), ours, atol=1e-4)
    assert np.all(ours[-1] > 0.5)


def test_clipping_has_one_norm_for_each_run(library):
    gradient = {"w": np.asarray([[[3.0, 0.0]], [[0.3, 0.0]]]), "b": np.asarray([[4.0], [0.4]])}
    updates, _ = Clipped(SGD(1.0), 1.0, runs=1).update(tree.map(library.array, gradient), None, None)
    np.testing.assert_allclose(library.host(updates["w"])[:, 0, 0], [-0.6, -0.3], rtol=1e-12)
    np.testing.assert_allclose(library.host(updates["b"])[:, 0], [-0.8, -0.4], rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(0.0), "learning_rate must be greater than 0"),
        (lambda: SGD(0.1, 1.0), "momentum must be at least 0"),
        (lambda: Adam(0.1, 1.0), "beta1 must be at least 0"),
        (lambda: Adam(0.1, epsilon=0.0), "epsilon must be greater than 0"),
        (lambda: Clipped(SGD(0.1), -math.inf), "max_norm must be greater than 0"),
        (lambda: CosineDecay(Clipped(Averaged(SGD(0.1)), 1.0), 10), "put it around CosineDecay"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


@pytest.mark.first_tier
@pytest.mark.parametrize("wrap", [lambda own: own, lambda own: Clipped(own, 1e9)], ids=["alone", "inside Clipped"])
def test_an_average_of_the_parameters_by_hand(library, wrap):
    """``sum_k decay^(n - k) theta_k`` divided by the weights; the steps are those of the optimiser inside."""
    optimizer, parameters = wrap(Averaged(Adam(0.1), 0.8)), tree.map(library.array, START)
    state = optimizer.init(parameters)
    for step in path(library, Adam(0.1)):
        updates, state = optimizer.update(gradients(parameters), state, parameters)
        parameters = tree.map(lambda p, u: p + u, parameters, updates)
        np.testing.assert_allclose(flat(library, parameters), step, rtol=1e-14)
    rows, weights = path(library, Adam(0.1)), 0.8 ** np.arange(STEPS)[::-1]
    np.testing.assert_allclose(flat(library, to_use(parameters, state)), weights @ rows / weights.sum(), rtol=1e-12)


def flat(library, parameters):
    return np.concatenate([library.host(leaf).ravel() for leaf in tree.leaves(parameters)])


def test_an_average_does_not_see_updates_that_are_scaled_afterwards():
    optimizer = Clipped(Averaged(SGD(0.1)), 1.0)
    kernel = SOSMC(RewardForwardKL(lambda x: x[..., 0]), LangevinMove(0.1), optimizer, adapt_optimizer=Adaptation())
    with pytest.raises(HyperparameterError, match="adapt_optimizer scales the updates after Averaged"):
        sample(shifted(dim=1), kernel, np.zeros((8, 1)), 2, seed=0)


def test_an_average_goes_around_a_decay():

    outside = Averaged(CosineDecay(SGD(1.0), 2), decay=0.0)  # the last parameters are the average
    theta = np.asarray([1.0])
    state = outside.init(theta)
    for _ in range(2):
        step, state = outside.update(np.asarray([1.0]), state, theta)
        theta = theta + step
    assert theta == state.average == pytest.approx(1.0 - 1.0 - 0.5)
