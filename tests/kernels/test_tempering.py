"""Parallel tempering: the law of the whole ladder, swaps by hand, and what moves with a swap."""

from dataclasses import dataclass

import numpy as np
import pytest

from tests.enumerated import CHAINS, chi_square, listed, numbered, quadratic
from tests.kernels.support import BOUND, GAUSSIAN, NumPy, noise_of, start, walk
from xpsample import sample
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import GWG, RWM, ULA, ParallelTempering, UnderdampedLangevin, tempering
from xpsample.kernels.kernel import Kernel, with_position
from xpsample.particles.ladders import geometric_ladder
from xpsample.srmc import SRMC
from xpsample.targets import Target, Tempered
from xpsample.targets.bridge import Bridge, annealed

BETAS = (1.0, 0.5, 0.0)
BAD_LADDERS = [(1.0,), (0.9, 0.5), (1.0, 0.5, 0.5), (1.0, 0.5, -0.1)]


def ladder_walk(target, kernel, x, steps):
    """The states before and after each step of NumPy chains that begin with rung k at x[k], (rungs, *chains, dim)."""
    bound = target.prepare(x[0], kernel.requires)
    state = kernel.init(bound, x[0])
    states = [state._replace(base=kernel.base.init(annealed(bound, state.betas), x))]
    noise = noise_of(kernel, x[0], steps)
    for t in range(steps):
        states.append(kernel.step(bound, states[-1], {name: rows[t] for name, rows in noise.items()})[0])
    return states


def ladder_chi_square(kernel, steps=3):
    """Chi-square of the joint state of all rungs, from exact draws of it."""
    target, dim = quadratic("bits")
    states, pi = listed(target, dim)
    rng = np.random.default_rng(1)
    laws = [pi**beta / np.sum(pi**beta) for beta in kernel.betas]
    x = np.stack([states[rng.choice(len(pi), CHAINS, p=law)] for law in laws])
    state = ladder_walk(target, kernel, x, steps)[-1]
    indices = numbered(states, state.base.point.base.x)
    joint = laws[0]
    index = indices[0]
    for k, law in enumerate(laws[1:], 1):
        joint, index = np.outer(joint, law).ravel(), index * len(law) + indices[k]
    return chi_square(index, joint), chi_square(indices[0], pi)


@pytest.mark.parametrize(("betas", "every", "steps"), [((1.0, 0.4), 1, 3), ((1.0, 0.4), 2, 3), (BETAS, 1, 4)])
def test_the_law_of_the_whole_ladder_is_invariant(betas, every, steps):
    ladder, cold = ladder_chi_square(ParallelTempering(GWG(), betas, every), steps)
    assert betas == BETAS or ladder[0] < ladder[1]  # the joint states of three rungs are too many for their counts
    assert cold[0] < cold[1]


def test_swaps_of_the_wrong_sign_are_caught(monkeypatch):
    right = tempering.swap_log_ratio
    monkeypatch.setattr(tempering, "swap_log_ratio", lambda betas, density: -right(betas, density))
    ladder, cold = ladder_chi_square(ParallelTempering(GWG(), (1.0, 0.4)))
    assert ladder[0] > 10 * ladder[1]
    assert cold[0] > 10 * cold[1]


def test_swaps_by_hand(library):
    """Rungs on their own for a step, then neighbors exchanged: even pairs first, then odd ones, every second step."""
    kernel = ParallelTempering(RWM(0.7), (1.0, 0.6, 0.3, 0.1), every=2)
    x = start(30)
    noise = noise_of(kernel, x, 8)
    positions, infos, state = walk(library, kernel, x, noise)

    betas = np.asarray(kernel.betas)[:, None]
    rungs, probabilities = np.stack([x] * 4), ([], [], [])
    for t in range(8):
        y = rungs + 0.7 * noise["base/proposal"][t]
        log_ratio = betas * (density(y) - density(rungs))
        accepted = np.log(noise["base/accept"][t]) < log_ratio
        rungs = np.where(accepted[..., None], y, rungs)
        np.testing.assert_allclose(library.host(infos[t].acceptance_probability), np.exp(np.minimum(log_ratio[0], 0)))
        for k in {1: (0, 2), 3: (1,), 5: (0, 2), 7: (1,)}.get(t, ()):
            lower, upper = rungs[k].copy(), rungs[k + 1].copy()
            probability = np.exp(np.minimum(0, (betas[k] - betas[k + 1]) * (density(upper) - density(lower))))
            swap = (noise["swap"][t, k] < probability)[:, None]
            assert 0 < swap.sum() < 30
            rungs[k], rungs[k + 1] = np.where(swap, upper, lower), np.where(swap, lower, upper)
            probabilities[k].append(probability)
        np.testing.assert_allclose(positions[t], rungs[0], rtol=1e-12)
    np.testing.assert_allclose(library.host(state.base.point.base.x), rungs, rtol=1e-12)
    np.testing.assert_allclose(library.host(state.swap_rates), np.mean(probabilities, axis=1), rtol=1e-9)
    assert infos[0].evaluations.log_density == 4


class Still(Kernel):
    """A kernel that stays where it is, with a random walk's state."""

    walk = RWM(0.5)
    requires, traits = walk.requires, walk.traits
    init, noise = walk.init, walk.noise

    def step(self, target, state, noise):
        _, info = self.walk.step(target, state, noise)
        return state._replace(point=target.refresh(state.point)), info


@pytest.mark.parametrize("rungs", [2, 5])
def test_round_trips_are_those_of_positions_that_are_followed(rungs):
    """Positions that only swaps move: each is followed by where it is, from the cold end to the hot one and back."""
    kernel, chains, steps = ParallelTempering(Still(), np.linspace(1.0, 0.5, rungs)), 20, 300
    x = np.stack([np.full((chains, 1), 0.3 * k) for k in range(rungs)])
    target = Target(lambda x: -0.5 * np.sum(x * x, axis=-1))
    states = ladder_walk(target, kernel, x, steps)
    paths = [state.base.point.base.x[..., 0] for state in states]
    for chain in range(chains):
        trips = 0
        for k in range(rungs):
            where = [int(np.flatnonzero(rows[:, chain] == 0.3 * k)[0]) for rows in paths]
            ends = [r for r in where if r in (0, rungs - 1)]
            ends = [a for i, a in enumerate(ends) if i == 0 or a != ends[i - 1]]
            ends = ends[ends.index(0) :] if 0 in ends else []
            trips += (len(ends) - 1) // 2 if ends else 0
        assert trips > 0 and states[-1].round_trips[chain] == trips


def exact_draws(precision=lambda beta: beta):
    """A kernel that draws exactly from N(0, I / precision(beta)) at every step."""

    @dataclass(frozen=True, eq=False)
    class ExactDraws(Still):
        def step(self, target, state, noise):
            _, info = self.walk.step(target, state, noise)
            x = noise["proposal"] / np.sqrt(precision(target.beta))[..., None]
            return state._replace(point=target.evaluate(x)), info

    return ExactDraws()


def walled(x):
    """The Gaussian without a density, and with a log density of nan, right of 1."""
    return np.where(x[..., 0] > 1.0, np.nan, -0.5 * np.sum(x * x, axis=-1))


def test_what_a_step_says_of_itself():
    """moved and diverged are about the cold rung; moved includes swaps."""
    target, kernel = Target(walled), ParallelTempering(RWM(0.7), (1.0, 0.6, 0.3))
    x = np.minimum(start(4, 50), 0.9)
    noise = noise_of(kernel, x, 4)
    positions, infos, _ = walk(NumPy, kernel, x, noise, target)
    before = np.concatenate([x[None], positions[:-1]])
    moved = np.stack([info.moved for info in infos])
    np.testing.assert_array_equal(moved, np.any(positions != before, axis=-1))
    assert 0.1 < moved.mean() < 0.95
    proposals = x + 0.7 * noise["base/proposal"][0]
    diverged = proposals[..., 0] > 1.0
    np.testing.assert_array_equal(infos[0].diverged, diverged[0])
    assert 0.1 < diverged[0].mean() < 0.9


def test_a_frozen_chain_of_any_rung_is_counted():
    """Without an accept step a rung stops where the score is no number, and never moves again."""
    target = Target(walled, score=lambda x: np.where(x[..., :1] > 1.0, np.nan, -x))
    kernel, x = ParallelTempering(ULA(0.5), (1.0, 0.6, 0.3)), np.minimum(start(4, 50), 0.9)
    _, infos, state = walk(NumPy, kernel, x, noise_of(kernel, x, 1), target)
    frozen = state.base.frozen
    np.testing.assert_array_equal(infos[0].diverged, np.any(frozen, axis=0))
    assert np.sum(np.any(frozen, axis=0)) > np.sum(frozen[0])


class Uneven(Kernel):
    """A random walk that says that its chains spend 1, 2, 3, ... evaluations."""

    walk = RWM(0.5)
    requires = walk.requires
    init, noise = walk.init, walk.noise

    def step(self, target, state, noise):
        state, info = self.walk.step(target, state, noise)
        spent = np.broadcast_to(1 + np.arange(state.point.x.shape[-2]), state.point.x.shape[:-1])
        return state, info._replace(evaluations=info.evaluations._replace(log_density=spent))


def test_evaluations_are_those_of_all_rungs_of_a_chain():
    kernel, x = ParallelTempering(Uneven(), (1.0, 0.6, 0.3)), start(5)
    _, infos, _ = walk(NumPy, kernel, x, noise_of(kernel, x, 1))
    np.testing.assert_array_equal(infos[0].evaluations.log_density, 3 * (1 + np.arange(5)))
    assert infos[0].evaluations.score == 0


def test_a_rung_without_a_finite_density_does_not_swap():
    kernel = ParallelTempering(RWM(1e-6), (1.0, 0.5))
    x = np.stack([np.zeros((50, 3)), np.full((50, 3), 2.0)])
    state = ladder_walk(Target(walled), kernel, x, 3)[-1]
    assert np.all(np.isnan(state.base.point.base.log_density[1]))
    assert np.all(np.abs(state.point.x) < 1e-3) and np.all(state.swap_rates == 0)


def density(x):
    return -0.5 * np.sum(x * (x @ GAUSSIAN.data), axis=-1)


def test_hyperparameters_by_rung_and_by_chain(library):
    """Rungs that do not swap are chains at their temperatures, each with the step size of its own."""
    step_size = np.asarray([[0.3], [0.6], [1.2]])
    betas, x = (1.0, 0.5, 0.2), start(9)
    noise = noise_of(ParallelTempering(RWM(1.0), betas), x)
    noise["swap"] = np.ones_like(noise["swap"])
    kernel = ParallelTempering(RWM(library.array(step_size)), betas, every=1000)
    _, _, state = walk(library, kernel, x, noise)
    for k, beta in enumerate(betas):
        own = {name.removeprefix("base/"): rows[:, k] for name, rows in noise.items() if name != "swap"}
        alone, _, _ = walk(NumPy, RWM(step_size[k, 0]), x, own, Tempered(GAUSSIAN, beta))
        np.testing.assert_allclose(library.host(state.base.point.base.x)[k], alone[-1], rtol=1e-12)
    trace = sample(GAUSSIAN, kernel, library.array(x), 2, seed=1)
    assert trace.draws.shape == (2, 9, 3)


def test_hyperparameters_that_fit_no_rungs_are_refused():
    kernel = ParallelTempering(RWM(np.ones((2, 1))), (1.0, 0.5, 0.2))
    message = r"base\.step_size of shape \(2, 1\) does not broadcast against the chain axes \(3, 9\)"
    with pytest.raises(HyperparameterError, match=message):
        sample(GAUSSIAN, kernel, start(9), 1, seed=1)


def test_histories_stay_with_their_rungs():
    x, states = start(50), {}
    for name, every in (("always", 1), ("never", 2)):
        kernel = ParallelTempering(UnderdampedLangevin(0.3), (1.0, 0.3), every)
        noise = noise_of(kernel, x, 1)
        noise["swap"] = np.full_like(noise["swap"], 1e-300)
        _, _, states[name] = walk(NumPy, kernel, x, noise)
    never, always = states["never"].base, states["always"].base
    np.testing.assert_array_equal(always.momentum, never.momentum)
    assert np.any(never.momentum[0] != never.momentum[1])
    np.testing.assert_array_equal(always.point.base.x, never.point.base.x[::-1])
    np.testing.assert_array_equal(states["always"].point.x, never.point.base.x[1])


def test_moved_to_another_position_the_hot_rungs_stay_where_they_are(library):
    """A step from there is one from a ladder whose cold rung was there before."""
    kernel, x = ParallelTempering(UnderdampedLangevin(0.3), BETAS[:2], every=5), start(6)
    _, _, state = walk(library, kernel, x, noise_of(kernel, x, 2))
    bound = GAUSSIAN.prepare(library.array(x), kernel.requires)
    there = library.array(start(6, seed=9))
    moved = with_position(state, bound.evaluate(there))
    np.testing.assert_array_equal(library.host(moved.point.x), library.host(there))
    rungs = [library.host(s.base.point.base.x) for s in (state, moved)]
    np.testing.assert_array_equal(rungs[1], np.stack([library.host(there), rungs[0][1]]))
    np.testing.assert_array_equal(library.host(moved.base.momentum), library.host(state.base.momentum))
    np.testing.assert_array_equal(library.host(moved.base.point.x), rungs[1])
    kernel = SRMC(kernel, 0.5)
    bound = GAUSSIAN.prepare(library.array(x), kernel.requires)
    moved = with_position(kernel.init(bound, library.array(x)), bound.evaluate(there))
    np.testing.assert_array_equal(library.host(moved.point.x), library.host(there))


def test_on_a_bridge_the_hot_rung_is_the_initial_target():
    """Exact draws of all rungs stay such: chi-squared variances of N(0, 1 / precision), 20,000 of each."""
    wide, chains = Target(lambda x: -0.25 * np.sum(x * x, axis=-1)), 20_000
    narrow = Target(lambda x: -0.5 * np.sum(x * x, axis=-1))
    kernel = ParallelTempering(RWM(1.0), (1.0, 0.3, 0.0))
    precision = np.asarray([1.0, 0.3 + 0.7 * 0.5, 0.5])
    x = np.random.default_rng(6).normal(size=(3, chains, 3)) / np.sqrt(precision)[:, None, None]
    state = ladder_walk(Bridge(wide, narrow), kernel, x, 6)[-1]
    assert 0.3 < np.mean(state.swap_rates) < 0.95
    variances = np.mean(state.base.point.base.x**2, axis=1) * precision[:, None]
    assert np.all(np.abs(variances - 1) < BOUND * np.sqrt(2 / chains))


def test_integer_positions():
    target, dim = quadratic("bits")
    x0 = np.zeros((6, dim), dtype=np.int32)
    trace = sample(target, ParallelTempering(GWG(), BETAS), x0, 20, seed=1)
    floating = sample(target, ParallelTempering(GWG(), BETAS), x0.astype(float), 20, seed=1)
    assert trace.draws.dtype == np.int32
    np.testing.assert_array_equal(trace.draws, floating.draws)


def test_ladders_are_numbers():
    betas = ParallelTempering(GWG(), np.asarray([1, 0], dtype=np.int64)).betas
    assert betas == (1.0, 0.0) and all(type(beta) is float for beta in betas)
    np.testing.assert_allclose(geometric_ladder(5, 1e-4), [1, 0.1, 0.01, 0.001, 0.0001])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: geometric_ladder(1, 0.5), "rungs must be"),
        (lambda: geometric_ladder(3, 0.0), "hottest must be"),
        (lambda: geometric_ladder(3, 1.0), "hottest must be"),
        *((lambda b=b: ParallelTempering(GWG(), b), "betas must decrease from 1") for b in BAD_LADDERS),
        *((lambda e=e: ParallelTempering(GWG(), BETAS, e), "every must be a positive int") for e in (0, 1.5, True)),
    ],
)
def test_a_bad_ladder_is_refused(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
