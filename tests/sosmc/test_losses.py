"""Estimated gradients against numerical ones of losses by quadrature: the particles are the nodes, weighted exactly."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import array_namespace

from xpsample import FiniteDifference, Via, sample, sosmc
from xpsample.core.errors import DivergenceWarning, HyperparameterError
from xpsample.core.specs import Normal, Uniform
from xpsample.gradients import Auto
from xpsample.optimize.optimizers import Adam
from xpsample.particles.batches import DrawnBatches, RowBatches
from xpsample.particles.resampling import Systematic
from xpsample.targets import Capability, Parametric

H = 0.01
NODES = np.arange(-6.0, 6.0, H) + 0.5 * H  # no node at 0, where the reward jumps
START = {"a": np.asarray([0.2]), "b": np.asarray([0.4, -0.3])}
ELSEWHERE = {"a": np.asarray([0.3]), "b": np.asarray([-0.5, 0.1])}
NOW = {"a": np.asarray([-0.1]), "b": np.asarray([0.7, 0.2])}
DATA = np.asarray([[-1.0], [0.3], [0.5], [1.7]])


def log_density(x, p):
    """exp(a) x^4 / 4 - b0 x - b1 sin(3 x), negative: neither normalised nor symmetric."""
    xp, a, b = array_namespace(x), p["a"], p["b"]
    one = x[..., 0]
    return b[0] * one + b[1] * xp.sin(3.0 * one) - 0.25 * xp.exp(a[0]) * one**4


def reward(x):
    one = x[..., 0]
    return array_namespace(x).astype(one >= 0.0, one.dtype) + 0.3 * one


def density(p):
    """The member at p at the nodes, normalised so that it sums to 1; and log Z."""
    values = np.exp(log_density(NODES[:, None], p))
    return values / np.sum(values), math.log(np.sum(values) * H)


def numerical(loss, eps=1e-5):
    """Central differences of a loss at NOW, flattened: a, b0, b1."""

    def evaluate(i, step):
        flat = np.concatenate([NOW["a"], NOW["b"]])
        flat[i] += step
        return loss({"a": flat[:1], "b": flat[1:]})

    return np.asarray([(evaluate(i, eps) - evaluate(i, -eps)) / (2 * eps) for i in range(3)])


def expected_reward(p):
    return density(p)[0] @ reward(NODES[:, None])


def kl(p, q):
    one, other = density(p)[0], density(q)[0]
    return np.sum(one * np.log(one / other))


QUADRATURE_OF_START = np.random.default_rng(0).choice(NODES, 50_000, p=density(START)[0])[:, None]
CASES = {
    "marginal": (sosmc.MarginalLikelihood(), lambda p: -density(p)[1]),
    "reward": (sosmc.RewardForwardKL(reward), lambda p: -expected_reward(p)),
    "reverse": (sosmc.RewardReverseKL(reward, 0.6), lambda p: -expected_reward(p) + 0.6 * kl(p, START)),
    "elsewhere": (
        sosmc.RewardReverseKL(reward, 0.6, ELSEWHERE),
        lambda p: -expected_reward(p) + 0.6 * kl(p, ELSEWHERE),
    ),
}


def estimated(library, loss, gradient, noise=None):
    family = Parametric(log_density, START, gradient=gradient)
    x = library.array(NODES[:, None])
    bound = family.prepare(x, Capability.LOG_DENSITY)
    now = {name: library.array(value) for name, value in NOW.items()}
    if getattr(loss, "beta", None) and isinstance(loss.reference, dict):
        loss = replace(loss, reference={name: library.array(value) for name, value in loss.reference.items()})
    point = bound.member(now).evaluate(x)
    found = loss.gradient(bound, now, point, library.array(density(NOW)[0]), noise or {})
    return np.concatenate([library.host(found[name]) for name in ("a", "b")])


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_automatic_differentiation(differentiating, name):
    loss, truth = CASES[name]
    np.testing.assert_allclose(estimated(differentiating, loss, Auto()), numerical(truth), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_differences(library, name):
    loss, truth = CASES[name]
    found = estimated(library, loss, FiniteDifference(1e-5))
    np.testing.assert_allclose(found, numerical(truth), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_gradients_borrowed(borrowing, name):
    pytest.importorskip("torch")
    loss, truth = CASES[name]
    np.testing.assert_allclose(estimated(borrowing[0], loss, Via("torch")), numerical(truth), rtol=1e-6, atol=1e-8)


def test_the_data_term_of_an_energy_model(library):
    found = estimated(library, sosmc.EnergyModel(RowBatches(library.array(DATA))), FiniteDifference(1e-5))

    def negative_log_likelihood(p):
        return density(p)[1] - np.mean(log_density(DATA, p))

    np.testing.assert_allclose(found, numerical(negative_log_likelihood), rtol=1e-5, atol=1e-7)


def test_the_forward_kl_with_draws_of_the_reference(library):
    """The reference term is a mean over the batch, here of 50,000 draws, all of them: exact for their distribution."""
    batch = RowBatches(library.array(QUADRATURE_OF_START))
    found = estimated(library, sosmc.RewardForwardKL(reward, 0.6, batch), FiniteDifference(1e-5))

    def loss(p):  # the entropy of the reference is a constant
        return -expected_reward(p) + 0.6 * (density(p)[1] - np.mean(log_density(QUADRATURE_OF_START, p)))

    np.testing.assert_allclose(found, numerical(loss), rtol=1e-5, atol=1e-7)
    # ... and within 5 standard errors of the term, of that of the true KL (Eq. 24).
    truth = numerical(lambda p: -expected_reward(p) + 0.6 * kl(START, p))
    assert np.all(np.abs(found - truth) < 0.6 * 5 * np.asarray([3.0, 2.0, 1.0]) / math.sqrt(50_000))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_wrong_sign_of_the_kl_is_caught(sign):
    from tests.conftest import open_library

    library = open_library("numpy", "float64")
    found = estimated(library, sosmc.RewardReverseKL(reward, 0.6), FiniteDifference(1e-5))
    wrong = numerical(lambda p: -expected_reward(p) + sign * 0.6 * kl(p, START))
    assert (np.max(np.abs(found - wrong)) < 1e-5) == (sign > 0)


def test_a_users_own_h_and_a_users_own_surrogate(library):
    def h(x, p):
        xp, one = array_namespace(x), x[..., 0]
        return {"a": (0.25 * xp.exp(p["a"][0]) * one**4)[..., None], "b": xp.stack([-one, -xp.sin(3.0 * one)], axis=-1)}

    def surrogate(p, x, weights):
        return -array_namespace(x).sum(weights * log_density(x, p))

    truth = numerical(lambda p: -density(p)[1])
    np.testing.assert_allclose(estimated(library, sosmc.Expectation(h), FiniteDifference(1e-5)), truth, rtol=1e-6)
    np.testing.assert_allclose(estimated(library, sosmc.Surrogate(surrogate), FiniteDifference(1e-5)), truth, rtol=1e-5)


def test_batches(library):
    xp, x = library.xp, library.array(np.zeros((3, 5, 2)))
    rows = library.array(np.arange(8.0).reshape(4, 2))
    uniforms = library.array(np.asarray([[0.0, 0.999], [0.26, 0.5], [0.74, 0.75]]))
    assert RowBatches(rows, 2).noise(x) == {"row": Uniform((3, 2))}
    drawn = library.host(RowBatches(rows, 2).draw(xp, x, {"row": uniforms}))
    np.testing.assert_array_equal(drawn[..., 0], 2.0 * np.asarray([[0, 3], [1, 2], [2, 3]]))
    assert library.host(RowBatches(rows).draw(xp, x, {})).shape == (3, 4, 2)
    draws = DrawnBatches({"z": Normal((7, 2))}, lambda z: 2.0 * z)
    assert draws.noise(x) == {"z": Normal((3, 7, 2))}
    np.testing.assert_array_equal(library.host(draws.draw(xp, x, {"z": x})), np.zeros((3, 5, 2)))


# ---- the optimum -----------------------------------------------------------------------------------------------------

RUNS, PARTICLES, STEPS = 8, 1000, 300


def below(x):
    """The reward of the lower half-plane."""
    return array_namespace(x).astype(x[..., 1] < 0.0, x.dtype)


def half_plane():
    """U = |x|^2 / 2 - theta 1{x2 < 0}: a family that holds pi_0 exp(R / beta), at theta = 1 / beta."""

    def log_density(x, theta):
        return theta[..., 0] * below(x) - 0.5 * array_namespace(x).sum(x * x, axis=-1)

    start = np.zeros((RUNS, 1, 1))
    return Parametric(log_density, start, score=lambda x, theta: -x + 0.0 * theta, gradient=FiniteDifference(1e-3))


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("beta", [0.25, 1.0, 4.0])
def test_a_half_plane_reward_reaches_the_closed_form(beta):
    """Eq. 39: mass sigmoid(1 / beta) on the half-plane, within 5 standard errors over the runs, and theta = 1 / beta.

    There the multiplier of Eq. 25 is the same everywhere, so theta has no noise left, only the optimiser's last steps.
    ULA's weights are exact although the score knows nothing of the jump.
    """
    x0 = np.random.default_rng(0).normal(size=(RUNS, PARTICLES, 2))
    kernel = sosmc.SOSMC(sosmc.RewardReverseKL(below, beta), sosmc.LangevinMove(0.3), Adam(0.2), 0.5, Systematic())
    trace = sample(half_plane(), kernel, x0, STEPS, seed=1, recorders=(sosmc.SOSMCHistory({"mass": below}),))
    history = trace.recorded["history"]
    np.testing.assert_allclose(history["parameters"][-1].ravel(), 1 / beta, rtol=0.01)
    per_run = np.mean(history["mass"][2 * STEPS // 3 :], axis=0)
    error = np.std(per_run, ddof=1) / math.sqrt(RUNS)
    assert abs(np.mean(per_run) - 1 / (1 + math.exp(-1 / beta))) < 5 * error
    assert error < 0.01


def test_the_densities_of_the_reference_are_counted():
    x0 = np.zeros((RUNS, 4, 2))
    spent = []
    for loss in (sosmc.MarginalLikelihood(), sosmc.RewardReverseKL(below, 1.0)):
        trace = sample(half_plane(), sosmc.SOSMC(loss, sosmc.LangevinMove(0.3), Adam(0.2)), x0, 3, seed=1)
        spent.append(trace.run_statistics.evaluations)
    assert spent[1]["log_density"] == spent[0]["log_density"] + 1
    assert spent[1]["score"] == spent[0]["score"]


@pytest.mark.parametrize("gradient", [FiniteDifference(1e-3), FiniteDifference(1e-3, "forward")], ids=str)
def test_a_run_that_diverges_leaves_the_others_alone(gradient):
    """Its loss was part of the sum whose differences are the gradients of all runs, which became nan as well."""
    family = replace(half_plane(), gradient=gradient, parameters=np.zeros((3, 1, 1)))
    x0 = np.random.default_rng(0).normal(size=(3, 20, 2))
    spoilt = x0.copy()
    spoilt[1] = 1e3

    def reward(x):
        return np.where(x[..., 0] < 1e2, below(x), np.nan)

    kernel = sosmc.SOSMC(sosmc.RewardReverseKL(reward, 1.0), sosmc.LangevinMove(0.3), Adam(0.2), 0.0)

    def end(x):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)
            return sample(family, kernel, x, 5, seed=1).state

    with np.errstate(all="ignore"):
        whole, broken = end(x0), end(spoilt)
    for run in (0, 2):
        np.testing.assert_array_equal(broken.parameters[run], whole.parameters[run])
        np.testing.assert_array_equal(broken.point.x[run], whole.point.x[run])
    assert not np.all(np.isfinite(broken.parameters[1]))


def of_reference(reference):
    """The gradient of a reverse KL to it."""
    bound = Parametric(log_density, START, gradient=FiniteDifference()).prepare(NODES[:, None], Capability.LOG_DENSITY)
    point = bound.member(NOW).evaluate(NODES[:, None])
    return sosmc.RewardReverseKL(reward, 0.6, reference).gradient(bound, NOW, point, density(NOW)[0], {})


SHAPES = "reference must have the shapes of the parameters"  # others would broadcast against the particles


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: of_reference({"a": np.zeros(1)}), SHAPES),
        (lambda: of_reference({"a": np.zeros(1), "b": np.zeros((5, 2))}), SHAPES),
        (lambda: of_reference({"a": np.zeros(1), "b": np.zeros(())}), SHAPES),
        (lambda: sosmc.RewardForwardKL(reward, 0.1), "beta > 0 needs draws of the reference"),
        (lambda: sosmc.RewardReverseKL(reward, -1.0), "beta must be at least 0"),
        (lambda: RowBatches(np.zeros(3)), r"rows have shape \(rows, dim\)"),
        (lambda: RowBatches(DATA, 0), "size must be a positive integer"),
    ],
)
def test_bad_losses_are_refused(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
