"""SOSMC: weighted means that are exact in expectation, the rules of its iteration, tuned moves, and broken variants."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from tests.sosmc.sosmc_support import Along, Swapped, noise_of, nothing, scaled, shifted, walk
from xpsample import HMC, MALA, RWM, Portable, sample, sosmc
from xpsample.core.errors import CapabilityError, FunctionError, HyperparameterError
from xpsample.optimize.optimizers import Adam
from xpsample.particles.resampling import Multinomial, Residual, Stratified, Systematic
from xpsample.zoo.gaussian import gaussian

RUNS, PARTICLES, STEPS, VELOCITY = 400, 50, 15, 0.1
BOUND = 5.0
"""Standard errors over the runs that a mean may be off: error probability 6e-7 a comparison, seeds fixed."""


def moved(move, family=shifted, threshold=0.6, resampling=Multinomial(), kind=sosmc.SOSMC, **settings):
    """The state after STEPS iterations in which theta goes VELOCITY further each, of independent runs."""
    target = family((RUNS,))
    dim = target.parameters.shape[-1]
    x0 = np.random.default_rng(1).normal(size=(RUNS, PARTICLES, dim))
    kernel = kind(nothing, move, Along(VELOCITY), threshold, resampling, **settings)
    trace = sample(target, kernel, x0, STEPS, seed=2, recorders=(sosmc.SOSMCHistory(),))
    return trace.state, trace.recorded["history"]


def z_scores(state, theta, exact=1.0):
    """How far, in standard errors, the unnormalised weighted estimates are off: of Z / exact - 1 and of x - theta."""
    z = np.exp(state.weights.log_normalizer) / exact
    weighted = z[:, None] * np.sum(np.exp(state.weights.logs)[..., None] * (state.point.x - theta), axis=1)
    values = np.concatenate([z[:, None] - 1.0, weighted], axis=1)
    error = np.std(values, axis=0, ddof=1) / math.sqrt(RUNS)
    return np.mean(values, axis=0) / np.where(error > 0, error, math.inf)


END = STEPS * VELOCITY
MOVES = [sosmc.LangevinMove(0.1), sosmc.LangevinMove(0.1, 0.7), RWM(0.5), MALA(0.1), HMC(0.3, 2)]
MOVES += [sosmc.UnderdampedMove(0.4), sosmc.UnderdampedMove(0.3, 0.0)]
MOVES += [
    sosmc.LangevinMove(0.1, forward_after=f, backward_before=b) for f, b in ((True, False), (False, True), (True, True))
]  # Remark 2
NAMES = ["langevin", "colder", "RWM", "MALA", "HMC", "underdamped", "deterministic", "K_k", "K_k-1", "K_k, K_k-1"]


@pytest.mark.parametrize("move", MOVES, ids=NAMES)
def test_the_weighted_mean_follows_exactly_in_expectation(move):
    state, history = moved(move)
    assert np.max(np.abs(z_scores(state, END))) < BOUND
    assert 0 < np.mean(history["resampled"]) < 1


@pytest.mark.parametrize("resampling", [Multinomial(), Systematic(), Stratified(), Residual()], ids=repr)
@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_whatever_the_resampling(resampling, threshold):
    state, history = moved(sosmc.LangevinMove(0.1), threshold=threshold, resampling=resampling)
    assert np.max(np.abs(z_scores(state, END))) < BOUND
    np.testing.assert_array_equal(history["resampled"], threshold == 1.0)  # 0 never resamples, 1 always does


@pytest.mark.parametrize("moves", [1, 3])
def test_the_unweighted_mean_lags(moves):
    """With three moves particles are (1 - gamma)^3 of the way behind, after each step of theta."""
    state, _ = moved(sosmc.Unweighted(sosmc.LangevinMove(0.1)), moves=moves)
    left = (1 - 0.1) ** moves
    lag = VELOCITY * (1 - 0.1) ** (moves - 1) * (1 - left**STEPS) / (1 - left)
    per_run = np.mean(END - state.point.x, axis=1)
    error = np.std(per_run, axis=0, ddof=1) / math.sqrt(RUNS)
    assert np.max(np.abs(np.mean(per_run, axis=0) - lag) / error) < BOUND
    if moves == 1:
        assert np.max(np.abs(z_scores(state, END))[1:]) > 50  # forgotten weights are caught


def behind(state, theta):
    """How far the normalised weighted means are behind theta: mean over the runs, and its standard error."""
    gap = np.sum(np.exp(state.weights.logs)[..., None] * (theta - state.point.x), axis=1)
    return np.mean(gap, axis=0), np.std(gap, axis=0, ddof=1) / math.sqrt(RUNS)


@pytest.mark.slow
def test_bias_and_squared_error_fall_as_one_over_the_particles():
    """Remark 3, of normalised means. From 25 to 100 particles a root would make it 2; standard errors are 0.2."""
    found = []
    for particles in (25, 100):
        x0 = np.random.default_rng(1).normal(size=(3200, particles, 2))
        kernel = sosmc.SOSMC(nothing, sosmc.LangevinMove(0.1), Along(VELOCITY), 0.6, Multinomial())
        trace = sample(shifted((3200,)), kernel, x0, STEPS, seed=2, recorders=())
        gap = np.sum(np.exp(trace.state.weights.logs)[..., None] * (END - trace.state.point.x), axis=1)
        found.append([np.mean(gap), np.mean(gap**2)])
    few, many = np.asarray(found)
    assert np.all(few / many > 2.6)
    assert np.all(few / many < 4.6)


def test_swapped_kernels_are_caught():
    """Normalised means of 50 particles are biased, right ones by 0.06 here, those with swapped kernels by 0.38."""
    mean, error = behind(moved(sosmc.LangevinMove(0.1))[0], END)
    assert np.all(mean + BOUND * error < 0.2)
    mean, error = behind(moved(Swapped(0.1))[0], END)
    assert np.all(mean - BOUND * error > 0.3)


@pytest.mark.parametrize("move", MOVES[:4], ids=NAMES[:4])
def test_ratios_of_normalisers(move):
    state, _ = moved(move, scaled)
    assert np.max(np.abs(z_scores(state, 0.0, math.exp(-0.5 * END)))) < BOUND


# ---- several moves at each theta, and particles of another law at the start ------------------------------------------


@pytest.mark.parametrize("move", [sosmc.LangevinMove(0.3), MALA(0.1)], ids=["langevin", "MALA"])
def test_further_moves_leave_it_exact(move):
    state, _ = moved(move, moves=3)
    assert np.max(np.abs(z_scores(state, END))) < BOUND


@dataclass(frozen=True, eq=False)
class Forgetful(sosmc.SOSMC):
    """The weights of further moves forgotten."""

    def _further(self, move, target, base, weights, info, noise):
        base, _, info = super()._further(move, target, base, weights, info, noise)
        return base, weights, info


def test_forgotten_weights_of_further_moves_are_caught():
    state, _ = moved(sosmc.LangevinMove(0.3), kind=Forgetful, moves=3)
    assert np.max(np.abs(z_scores(state, END))) > 2 * BOUND


def wide(x):
    """The log density of N(0.5, 1.5^2), normalised."""
    xp = array_namespace(x)
    return xp.sum(-0.5 * ((x - 0.5) / 1.5) ** 2 - math.log(1.5 * math.sqrt(2 * math.pi)), axis=-1)


@pytest.mark.parametrize("initial", [wide, None], ids=["weighted", "unweighted"])
def test_particles_of_another_law_are_weighted_at_the_start(initial):
    x0 = 0.5 + 1.5 * np.random.default_rng(6).normal(size=(RUNS, PARTICLES, 2))
    kernel = sosmc.SOSMC(nothing, sosmc.LangevinMove(0.1), Along(VELOCITY), 0.6, initial=initial)
    state = sample(shifted((RUNS,)), kernel, x0, STEPS, seed=7, recorders=()).state
    off = np.max(np.abs(z_scores(state, END, 2 * math.pi if initial else 1.0)))
    assert off < BOUND if initial else off > 3 * BOUND


def test_a_reference_reaches_a_compiled_run(library):
    """The reverse KL pulls theta to it."""
    start = (np.zeros((2, 1, 2)), np.full((2, 1, 2), 1.5))
    ends = []
    for reference in start:
        kernel = sosmc.SOSMC(
            sosmc.RewardReverseKL(lambda x: 0 * x[..., 0], 1.0, library.array(reference)),
            sosmc.LangevinMove(0.2),
            Adam(0.1),
        )
        ends.append(np.mean(library.host(tune(library, kernel, steps=60).state.parameters)))
    np.testing.assert_allclose(ends, [0.0, 1.5], atol=0.3)


# ---- the iteration ---------------------------------------------------------------------------------------------------

LOSS = sosmc.RewardForwardKL(lambda x: -((x - 2.0) ** 2)[..., 0])
TUNED = sosmc.SOSMC(
    LOSS, MALA(0.2), Adam(0.1), 0.9, Systematic(), sosmc.Adaptation(least=0.05, most=0.3), sosmc.Adaptation(factor=1.1)
)
HISTORY = sosmc.SOSMCHistory({"first": lambda x: x[..., 0]})


def tune(library, kernel=TUNED, runs=(2,), steps=12, **options):
    x0 = np.random.default_rng(4).normal(size=(*runs, 60, 2))
    options = {"seed": Portable(5), "recorders": (HISTORY,), **options}
    return sample(differentiable(runs), kernel, library.array(x0), steps, **options)


def differentiable(runs):
    """The shifted family, with the parameters' gradient by differences on libraries that have no other."""
    from xpsample import FiniteDifference

    return replace(shifted(runs), gradient=FiniteDifference(1e-4))


class Host:
    """NumPy as a library of the fixtures."""

    array = staticmethod(np.asarray)


@pytest.mark.parametrize("kernel", [TUNED, replace(TUNED, moves=3, initial=wide)], ids=["one move", "three"])
def test_the_same_optimisation_on_every_library(library, kernel):
    theirs, ours = tune(library, kernel), tune(Host, kernel)
    found, history = theirs.recorded["history"], ours.recorded["history"]
    assert set(history) == {
        *("weight_ess", "resampled", "log_normalizer", "potential", "step_size", "rate", "parameters", "first")
    }
    assert 0 < np.sum(history["resampled"]) < history["resampled"].size
    for name, expected in history.items():
        assert expected.shape == ((12, 2, 1, 2) if name == "parameters" else (12, 2))
        np.testing.assert_allclose(library.host(found[name]), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(library.host(theirs.state.point.x), ours.state.point.x, rtol=1e-8)


def test_a_batch_of_runs_is_the_runs_by_themselves(library):
    x0 = np.random.default_rng(4).normal(size=(2, 60, 2))
    noise = noise_of(TUNED, x0, 12)
    batch, _ = walk(library, TUNED, differentiable((2,)), x0, noise)
    for run in range(2):
        single = {name: rows[:, run] for name, rows in noise.items()}
        alone, _ = walk(library, TUNED, differentiable(()), x0[run], single)
        np.testing.assert_allclose(
            library.host(batch[-1].point.x)[run], library.host(alone[-1].point.x), rtol=1e-6, atol=1e-8
        )
        np.testing.assert_allclose(library.host(batch[-1].rate)[run], library.host(alone[-1].rate), rtol=1e-9)


def test_an_optimisation_goes_on_from_a_checkpoint(library, tmp_path):
    tune(library, steps=5, checkpoint=tmp_path)
    resumed = tune(library, steps=12, checkpoint=tmp_path)
    whole = tune(library, steps=12)
    for name, expected in whole.recorded["history"].items():
        np.testing.assert_array_equal(library.host(resumed.recorded["history"][name]), library.host(expected))


def test_both_adaptations_follow_the_ess():
    history = tune(Host, steps=40).recorded["history"]
    up = history["weight_ess"] >= 0.95 * 60
    step_size, rate = (np.concatenate([[[s] * 2], history[n]]) for n, s in (("step_size", 0.2), ("rate", 1.0)))
    np.testing.assert_allclose(
        step_size[1:], np.clip(np.where(up, step_size[:-1] * 1.01, step_size[:-1] / 1.01), 0.05, 0.3), rtol=1e-9
    )
    np.testing.assert_allclose(rate[1:], np.where(up, rate[:-1] * 1.1, rate[:-1] / 1.1), rtol=1e-9)
    assert 0 < np.mean(up) < 1


def test_algorithm_1_by_hand():
    """Multinomial resampling of the weighted particles before the move, and an optimiser's step in between."""
    from xpsample.optimize.optimizers import SGD

    x, gamma, rate = np.random.default_rng(6).normal(size=(40, 1)), 0.3, 0.5
    kernel = sosmc.SOSMC(lambda x, theta: x - 3.0 + 0.0 * theta, sosmc.LangevinMove(gamma), SGD(rate), 0.9)
    noise = noise_of(kernel, x, 6)
    states, _ = walk(NumPy, kernel, shifted(dim=1), x, noise)
    theta, log_w, done = 0.0, np.zeros(40), 0
    for k in range(6):
        w = np.exp(log_w) / np.sum(np.exp(log_w))
        new_theta = theta - rate * np.sum(w * (x[:, 0] - 3.0))
        if 1 / np.sum(w**2) <= 0.9 * 40:
            x, log_w, done = (
                x[np.searchsorted(np.cumsum(w), noise["resample"][k], side="right")],
                np.zeros(40),
                done + 1,
            )
        y = x + gamma * (theta - x) + math.sqrt(2 * gamma) * noise["proposal"][k]
        log_w = log_w + eq8(x, y, theta, new_theta, gamma)
        x, theta = y, new_theta
        np.testing.assert_allclose(states[k + 1].point.x, x, rtol=1e-9)
        np.testing.assert_allclose(states[k + 1].parameters, [theta], rtol=1e-9)
        np.testing.assert_allclose(np.exp(states[k + 1].weights.logs), np.exp(log_w) / np.sum(np.exp(log_w)), rtol=1e-8)
    assert 0 < done < 6


def test_weights_that_are_not_reset_are_caught(monkeypatch):
    monkeypatch.setattr("xpsample.particles.weights.Weights.reset", lambda self, xp, where: self)
    with pytest.raises(AssertionError, match=r"Mismatched elements: 40 / 40"):
        test_algorithm_1_by_hand()


class NumPy(Host):
    """The same, there and back."""

    host = staticmethod(np.asarray)


def eq8(x, y, theta, new_theta, gamma):
    forward = -((y - x - gamma * (theta - x)) ** 2) / (4 * gamma) - 0.5 * (x - theta) ** 2
    backward = -((x - y - gamma * (new_theta - y)) ** 2) / (4 * gamma) - 0.5 * (y - new_theta) ** 2
    return (backward - forward)[:, 0]


# ---- bad input -------------------------------------------------------------------------------------------------------


def run(target=shifted(), kernel=TUNED, x0=np.zeros((5, 2))):
    return sample(target, kernel, x0, 1, seed=1)


def started(move, threshold=0.0, initial=wide):
    return sosmc.SOSMC(nothing, move, Along(VELOCITY), threshold, initial=initial)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: run(gaussian(np.eye(2))), CapabilityError, "Parametric"),
        (lambda: run(x0=np.zeros(2)), HyperparameterError, r"particles, \(\*runs, particles, dim\)"),
        (lambda: run(x0=np.zeros((3, 5, 2))), HyperparameterError, r"\(3,\) runs, whose .* have leaves \(3, 1\)"),
        (lambda: replace(TUNED, threshold=1.5), HyperparameterError, "threshold must be at least 0 and at most 1"),
        (lambda: replace(TUNED, move=0.1), HyperparameterError, "move must be a Move or a Kernel"),
        (lambda: replace(TUNED, loss=3), HyperparameterError, "loss must be a Loss or a function"),
        (lambda: sosmc.Adaptation(factor=1.0), HyperparameterError, "factor must be greater than 1"),
        (lambda: started(sosmc.Unweighted(sosmc.LangevinMove(0.1))), HyperparameterError, "initial weighs the start"),
        (lambda: started(sosmc.SingleChain(0.1)), HyperparameterError, "initial weighs the start"),
        (lambda: run(kernel=started(sosmc.LangevinMove(0.1), 0.5, lambda x: x)), FunctionError, "the function initial"),
    ],
)
def test_bad_input_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


LONG = 80


def narrowing(runs, particles, **options):
    """N(0, exp(-theta)), theta from 0 to 8: the scale falls to 1 / 55 of that of the start."""
    kernel = sosmc.SOSMC(nothing, xps.MALA(), Along(VELOCITY), **options)
    x0 = np.random.default_rng(0).normal(size=(runs, particles, 1))
    return xps.sample(scaled((runs,)), kernel, x0, LONG, seed=1, recorders=())


def test_weights_and_values_of_a_target_that_narrows():
    trace = narrowing(50, 100)
    whole = xps.log_normalizer(trace.state.weights.log_normalizer)
    assert whole.standard_error < 0.1
    # Within 5 errors; tuning biases by the order of one over the particles, 1 %.
    assert abs(whole.value + 0.5 * LONG * VELOCITY) < 5 * whole.standard_error + 0.01
    accepted = trace.warmup["acceptance_probability"]
    np.testing.assert_allclose(np.mean(accepted[40:], axis=0), 0.574, atol=0.1)
    step = trace.warmup["MALA.step_size"] * trace.warmup["MALA.preconditioner"][..., 0]
    assert step.shape == (LONG, 50, 1)
    # The step size in units of x squared goes with the variance.
    np.testing.assert_allclose(np.mean(np.log(step[-1] / step[39])), -VELOCITY * 40, atol=0.5)


def test_moves_that_do_not_follow_are_caught(monkeypatch):
    monkeypatch.setattr("xpsample.adaptation.metric.Metric.follow", lambda self, xp, memory, point, pooled: memory)
    monkeypatch.setattr("xpsample.adaptation.step_size.GAIN", 0.0)
    assert np.all(np.mean(narrowing(5, 100).warmup["acceptance_probability"][40:], axis=0) < 0.4)


def test_what_is_left_out_is_not_adapted_by_weights():
    with pytest.raises(HyperparameterError, match="adapt_move needs a step_size"):
        sosmc.SOSMC(nothing, xps.MALA(), Along(0.1), adapt_move=sosmc.Adaptation())
