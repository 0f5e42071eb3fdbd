"""The SRLD paper's limits of many positions (Eqs. 4 to 6), step by step on a grid in one dimension.

The distribution after a step is the one before it, carried by the Gaussian of a step of Langevin dynamics whose score
has the force of the distributions at the steps before. Nothing of the library is in it.
"""

from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace

from xpsample import RBF, ULA, Rolling, Target, sample
from xpsample.kernels import Kernel
from xpsample.kernels.kernel import freeze, none_frozen, normal_like
from xpsample.kernels.traits import UNADJUSTED
from xpsample.kernels.ula import ULAState
from xpsample.srld import SRLD
from xpsample.targets.point import Capability

pytestmark = pytest.mark.slow
GRID = np.linspace(-4.0, 4.0, 201)
WIDTH = GRID[1] - GRID[0]
SIGMA = 0.7


def log_density(x):
    """No normal density, and not symmetric."""
    return -0.25 * x**4 + 0.6 * x


def score(x):
    return 0.6 - x**3


def normalised(density):
    return density / (WIDTH * np.sum(density))


PI = normalised(np.exp(log_density(GRID)))
START = normalised(np.exp(-0.5 * (GRID - 1.5) ** 2 / 0.3**2))
_APART = GRID[None, :] - GRID[:, None]  # y - x
FORCE = np.exp(-(_APART**2) / SIGMA) * (score(GRID) - 2.0 * _APART / SIGMA)
"""g(x; rho) is the row x of this matrix times rho."""


def constant(x):
    """D and its derivative."""
    return np.ones_like(x), np.zeros_like(x)


def varying(x):
    """D and its derivative, where D depends on the position."""
    xp = array_namespace(x)
    return 0.8 + 0.4 * xp.sin(2.0 * x), 0.8 * xp.cos(2.0 * x)


def step(densities, eta, alpha, past, diffusion=constant):
    """The next distribution, (grid,), after those of all steps so far; `past` are how many steps back it sees."""
    drift, (d, slope) = score(GRID), diffusion(GRID)
    if len(densities) > max(past):
        drift = drift + alpha * WIDTH * FORCE @ np.mean([densities[-1 - back] for back in past], axis=0)
    mean, variance = GRID + eta * (d * drift + slope), 2.0 * eta * d
    moved = np.exp(-0.5 * (GRID[:, None] - mean) ** 2 / variance) / np.sqrt(variance)
    return normalised(moved @ densities[-1])


def course(steps, eta, alpha, past, start=START, diffusion=constant):
    densities = [start]
    for _ in range(steps):
        densities.append(step(densities, eta, alpha, past, diffusion))
    return densities


def moments(density):
    return WIDTH * density @ GRID, WIDTH * density @ GRID**2


class StateDependent(Kernel):
    """x + eta (D(x) s(x) + D'(x)) + sqrt(2 eta D(x)) xi: a kernel of one's own that SRLD takes, since it drifts."""

    step_size: float
    requires = Capability.SCORE | Capability.REAL
    traits = UNADJUSTED

    def init(self, target, x):
        return ULAState(target.evaluate(x), none_frozen(target.xp, x))

    def noise(self, x):
        return {"proposal": normal_like(x)}

    def step(self, target, state, noise) -> tuple[Any, Any]:
        xp, eta, current = target.xp, self.step_size, target.refresh(state.point)
        d, slope = varying(current.x)
        x = current.x + eta * (d * current.score + slope) + xp.sqrt(2.0 * eta * d) * noise["proposal"]
        point, frozen, info = freeze(xp, target.evaluate(x), current, state.frozen, target.costs.evaluate)
        return ULAState(point, frozen), info


@pytest.mark.parametrize(
    ("base", "diffusion"), [(ULA, constant), (StateDependent, varying)], ids=["langevin", "state-dependent"]
)
def test_many_chains_with_one_past_follow_the_mean_field(base, diffusion):
    """Eq. 4, and Eq. 6 in steps, with the force on the score: 4 runs of 400 chains, within 4.5 standard errors."""
    eta, alpha, steps, runs, chains = 0.05, 4.0, 12, 4, 400
    x0 = np.random.default_rng(1).normal(1.5, 0.3, size=(runs, chains, 1))
    target = Target(lambda x: np.sum(log_density(x), axis=-1), score=score)
    kernel = SRLD(base(eta), alpha, Rolling(2, 2), RBF(SIGMA), shared=True)
    x = sample(target, kernel, x0, steps, seed=2).draws[..., 0]
    expected = np.array([moments(density) for density in course(steps, eta, alpha, (2, 4), diffusion=diffusion)[1:]])
    found = np.stack([np.mean(x, axis=(1, 2)), np.mean(x**2, axis=(1, 2))], axis=-1)
    error = np.stack([np.std(x, axis=(1, 2)), np.std(x**2, axis=(1, 2))], axis=-1) / (runs * chains) ** 0.5
    assert np.max(np.abs(found - expected) / error) < 4.5
    plain = moments(course(steps, eta, 0.0, (2, 4), diffusion=diffusion)[-1])
    assert np.max(np.abs(found[-1] - plain) / error[-1]) > 15


def far(density):
    """The total variation distance from the target."""
    return 0.5 * WIDTH * np.sum(np.abs(density - PI))


def settled(eta, alpha, diffusion, start=START):
    """The distribution at which the dynamics rests, with a past whose distance in time is the same for each eta."""
    every, steps = round(0.1 / eta), round(6.0 / eta)
    densities = course(steps, eta, alpha, (every, 2 * every), start, diffusion)
    assert far(densities[-1]) > 100 * np.sum(np.abs(densities[-1] - densities[-2]))
    return densities[-1]


@pytest.mark.parametrize("diffusion", [constant, varying])
def test_the_target_is_where_the_mean_field_rests(diffusion):
    """Theorems 4.1 and 5.1: what is left is that of the step, of order eta, and the start plays no part."""
    left = [far(settled(eta, 2.0, diffusion)) for eta in (0.02, 0.01)]
    assert left[1] < 0.05 and left[0] / left[1] == pytest.approx(2.0, abs=0.3)
    elsewhere = normalised(np.exp(-0.5 * (GRID + 2.0) ** 2))
    np.testing.assert_allclose(settled(0.02, 2.0, diffusion, elsewhere), settled(0.02, 2.0, diffusion), atol=1e-4)


def test_the_error_of_the_steps_falls_with_the_step():
    """Theorem 4.2, at the time 1, long after the past has begun: KL(continuous || in steps) is at most of order eta."""

    def at_one(eta):
        every = round(0.16 / eta)
        return course(round(0.96 / eta), eta, 1.0, (every, 2 * every))[-1]

    fine, steps = at_one(0.00125), (0.04, 0.02, 0.01)
    apart = [WIDTH * np.sum(fine * np.log((fine + 1e-300) / (at_one(eta) + 1e-300))) for eta in steps]
    rates = np.log2(np.divide(apart[:-1], apart[1:]))
    assert np.all(rates > 1.0), (apart, rates)
