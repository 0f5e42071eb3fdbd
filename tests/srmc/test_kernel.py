"""SRMC against its algorithms written out by hand, and its place among other wrappers."""

import numpy as np
import pytest

from xpsample import (
    HMC,
    MALA,
    RWM,
    SRMC,
    ULA,
    Exact,
    FiniteDifference,
    PowerLaw,
    Record,
    Replay,
    Shift,
    UnderdampedLangevin,
    Untilted,
    sample,
)
from xpsample.core.errors import HyperparameterError
from xpsample.kernels.kernel import Kernel, freeze, with_position
from xpsample.kernels.traits import UNADJUSTED
from xpsample.targets.point import Capability
from xpsample.zoo.gaussian import gaussian

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
"""Some tilts are too strong on purpose."""

COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]])
PRECISION = np.linalg.inv(COVARIANCE)
TARGET = gaussian(COVARIANCE)
STEPS, CHAINS, DIM = 40, 5, 3
ALPHA, RHO = 0.7, 0.8


def noise(names):
    generator = np.random.default_rng(1)
    shapes = {"accept": (STEPS, CHAINS)}
    draw = {"accept": generator.random}
    return {n: draw.get(n, generator.standard_normal)(shapes.get(n, (STEPS, CHAINS, DIM))) for n in names}


def by_hand(propose, z):
    """Algorithms 2, 4 and 5: a transition on pi_theta_n with theta_n fixed, then the history with gamma_{n+1}."""

    def score(x):
        return -x @ PRECISION

    def density(x, theta):
        return -0.5 * np.sum(x * (x @ PRECISION), axis=-1) - ALPHA * np.sum(theta * score(x), axis=-1)

    def tilted(x, theta):
        return score(x) + ALPHA * theta @ PRECISION  # s - alpha H theta with H = -P

    x, theta, xs, thetas = np.ones((CHAINS, DIM)), np.zeros((CHAINS, DIM)), [], []
    for n in range(STEPS):
        y, correction = propose(x, theta, tilted, {name: rows[n] for name, rows in z.items()})
        ratio = density(y, theta) - density(x, theta) + correction
        accept = np.log(z["accept"][n]) < ratio
        x = np.where(accept[:, None], y, x)
        theta = theta + (n + 2.0) ** -RHO * (score(x) - theta)
        xs.append(x)
        thetas.append(theta)
    return np.array(xs), np.array(thetas)


def random_walk(x, theta, tilted, z):
    return x + 0.6 * z["proposal"], 0.0


def langevin(x, theta, tilted, z, eta=0.3):
    y = x + eta * tilted(x, theta) + np.sqrt(2 * eta) * z["proposal"]

    def log_q(b, a):  # of b from a
        return -np.sum((b - a - eta * tilted(a, theta)) ** 2, axis=-1) / (4 * eta)

    return y, log_q(x, y) - log_q(y, x)


def leapfrog(x, theta, tilted, z, eta=0.3, length=4):
    p = p0 = z["momentum"]
    for _ in range(length):
        p = p + 0.5 * eta * tilted(x, theta)
        x = x + eta * p
        p = p + 0.5 * eta * tilted(x, theta)
    return x, 0.5 * np.sum(p0**2 - p**2, axis=-1)


@pytest.mark.parametrize(
    ("base", "propose", "names"),
    [
        (RWM(0.6), random_walk, ("proposal", "accept")),
        (MALA(0.3), langevin, ("proposal", "accept")),
        (HMC(0.3, 4), leapfrog, ("momentum", "accept")),
    ],
    ids=["sr-rwm", "sr-mala", "sr-hmc"],
)
def test_equals_the_algorithm_by_hand(base, propose, names, library):
    z = noise(names)
    x, theta = by_hand(propose, z)
    trace = sample(
        TARGET,
        SRMC(base, ALPHA, PowerLaw(RHO), tilt=Exact()),
        library.array(np.ones((CHAINS, DIM))),
        STEPS,
        seed=Replay({name: library.array(rows) for name, rows in z.items()}),
        recorders=(*sample.__kwdefaults__["recorders"], Record("theta", lambda state: state.theta)),
        progress=False,
    )
    np.testing.assert_allclose(library.host(trace.draws), x, atol=1e-11)
    np.testing.assert_allclose(library.host(trace.recorded["theta"]), theta, atol=1e-11)


MIX = np.array([[0.0, 1.0, -0.5], [-1.0, 0.0, 0.3], [0.5, -0.3, 0.0]])
"""A skew Q of the complete recipe; D is diag(1 / (1 + x_i^2)), and its correction is -2 x_i / (1 + x_i^2)^2."""


def recipe(x, score, z, eta=0.05):
    d = 1 / (1 + x**2)
    return x + eta * (d * score + score @ MIX - 2 * x * d**2) + np.sqrt(2 * eta * d) * z


class Recipe(Kernel):
    """Euler steps of Langevin dynamics with matrices that depend on x (Ma et al. 2015), such as a user writes."""

    requires = Capability.SCORE
    traits = UNADJUSTED

    def init(self, target, x):
        return ULA(1.0).init(target, x)

    def noise(self, x):
        return ULA(1.0).noise(x)

    def step(self, target, state, noise):
        current = target.refresh(state.point)
        new = target.evaluate(recipe(current.x, current.score, noise["proposal"]))
        point, frozen, info = freeze(target.xp, new, current, state.frozen, target.costs.evaluate)
        return state._replace(point=point, frozen=frozen), info


def test_the_complete_recipe_with_the_tilted_score():
    """Footnote 2: also with matrices that depend on x, the surrogate's score in the place of the target's."""
    z = noise(("proposal",)) | {"accept": np.full((STEPS, CHAINS), 1e-300)}
    x, theta = by_hand(lambda x, theta, tilted, z: (recipe(x, tilted(x, theta), z["proposal"]), 0.0), z)
    kernel, x0 = SRMC(Recipe(), ALPHA, PowerLaw(RHO)), np.ones((CHAINS, DIM))
    trace = sample(TARGET, kernel, x0, STEPS, seed=Replay({"proposal": z["proposal"]}), progress=False)
    np.testing.assert_allclose(trace.draws, x, atol=1e-11)
    np.testing.assert_allclose(trace.state.theta, theta[-1], atol=1e-11)


@pytest.mark.parametrize("base", [RWM(0.6), MALA(0.3), HMC(0.3, 4), ULA(0.1)])
def test_wrapped_twice_each_history_follows_its_own_target(base):
    # The outer history averages the scores of the target itself, not those that the other tilt made of them.
    x0 = np.ones((CHAINS, DIM))
    kernel = SRMC(SRMC(base, 0.4, PowerLaw(), Exact()), 0.3, PowerLaw())
    trace = sample(
        TARGET,
        kernel,
        x0,
        STEPS,
        seed=3,
        recorders=(
            *sample.__kwdefaults__["recorders"],
            Record("outer", lambda state: state.theta),
            Record("inner", lambda state: state.base.theta),
        ),
        progress=False,
    )
    outer, inner = np.zeros((CHAINS, DIM)), np.zeros((CHAINS, DIM))
    for n in range(STEPS):
        score = -trace.draws[n] @ PRECISION
        seen_by_inner = score + 0.3 * outer @ PRECISION  # the score under the outer tilt during this step
        inner = inner + (seen_by_inner - inner) / (n + 2)
        outer = outer + (score - outer) / (n + 2)
        np.testing.assert_allclose(trace.recorded["outer"][n], outer, atol=1e-12)
        np.testing.assert_allclose(trace.recorded["inner"][n], inner, atol=1e-12)


def test_on_a_gaussian_all_tilts_agree():
    # Its score is linear, so a difference quotient is the derivative, and so is a shift.
    x0 = np.ones((CHAINS, DIM))
    runs = [
        sample(TARGET, SRMC(MALA(0.3), ALPHA, tilt=tilt), x0, 50, seed=2, progress=False).draws
        for tilt in (Exact(), Shift(), FiniteDifference(0.1), FiniteDifference(0.5, "forward"))
    ]
    for run in runs[1:]:
        np.testing.assert_allclose(run, runs[0], atol=1e-9)


def test_a_sweep_of_strengths_is_one_run():
    strengths = np.array([0.0, 0.5, 2.0])
    x0 = np.broadcast_to(np.ones((CHAINS, DIM)), (3, CHAINS, DIM)).copy()
    z = {"proposal": np.random.default_rng(5).standard_normal((STEPS, 3, CHAINS, DIM))}
    z["accept"] = np.random.default_rng(6).random((STEPS, 3, CHAINS))
    sweep = sample(TARGET, SRMC(MALA(0.3), strengths[:, None], tilt=Exact()), x0, STEPS, seed=Replay(z), progress=False)
    for i, alpha in enumerate(strengths):
        one = {name: rows[:, i] for name, rows in z.items()}
        alone = sample(
            TARGET, SRMC(MALA(0.3), float(alpha), tilt=Exact()), x0[i], STEPS, seed=Replay(one), progress=False
        )
        np.testing.assert_allclose(sweep.draws[:, i], alone.draws, atol=1e-12)


def test_decays_can_be_swept_too():
    rho = np.array([[0.6], [1.0]])
    x0 = np.ones((2, CHAINS, DIM))
    trace = sample(
        TARGET,
        SRMC(MALA(0.3), 0.5, PowerLaw(rho), tilt=Exact()),
        x0,
        3,
        seed=1,
        recorders=(*sample.__kwdefaults__["recorders"], Record("theta", lambda state: state.theta)),
        progress=False,
    )
    first = -trace.draws[0] @ PRECISION * 2.0 ** -rho[..., None]
    np.testing.assert_allclose(trace.recorded["theta"][0], first, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: SRMC(RWM(1.0), -0.1), lambda: PowerLaw(0.5), lambda: PowerLaw(1.1)])
def test_out_of_range(make):
    with pytest.raises(HyperparameterError):
        make()


@pytest.mark.parametrize("base", [RWM(0.1), MALA(0.3), ULA(0.1)])
def test_moved_to_another_position_the_histories_stay(base):
    """A step from there is that of chains that were there all the time, with those histories."""
    kernel = SRMC(SRMC(base, 0.4, PowerLaw(), Exact()), 0.3, PowerLaw())
    x0, there = np.ones((CHAINS, DIM)), np.random.default_rng(2).standard_normal((CHAINS, DIM))
    state = sample(TARGET, kernel, x0, 6, seed=3, progress=False).state
    bound = TARGET.prepare(x0, kernel.requires)
    moved, fresh = with_position(state, bound.evaluate(there)), kernel.init(bound, there)
    np.testing.assert_array_equal(moved.point.x, there)
    inner = fresh.base._replace(theta=state.base.theta, n=state.base.n)
    fresh = fresh._replace(theta=state.theta, n=state.n, base=inner)
    drawn = {name: rows[0] for name, rows in noise(kernel.noise(x0)).items()}
    ours, theirs = (kernel.step(bound, at, drawn)[0] for at in (moved, fresh))
    assert np.any(ours.point.x != there)
    for find in (lambda at: at.point.x, lambda at: at.theta, lambda at: at.base.theta):
        np.testing.assert_allclose(find(ours), find(theirs), rtol=1e-12)


@pytest.mark.parametrize("base", [RWM(0.6), MALA(0.3), HMC(0.3, 4)], ids=lambda base: type(base).__name__)
def test_the_default_tilt_leaves_the_proposals_of_a_base_that_accepts_or_rejects(library, base):
    assert Capability.HVP not in SRMC(base, ALPHA).requires
    x0 = library.array(np.ones((CHAINS, DIM)))
    default, untilted = (
        sample(TARGET, SRMC(base, ALPHA, tilt=tilt), x0, STEPS, seed=3, progress=False) for tilt in (None, Untilted())
    )
    np.testing.assert_array_equal(library.host(default.draws), library.host(untilted.draws))
    plain = sample(TARGET, base, x0, STEPS, seed=3, progress=False)
    assert np.any(library.host(default.draws) != library.host(plain.draws))  # the accept step sees it


@pytest.mark.parametrize("base", [ULA(0.3), UnderdampedLangevin(0.3)], ids=lambda base: type(base).__name__)
def test_the_default_tilt_is_exact_where_nothing_is_rejected(base):
    assert Capability.HVP in SRMC(base, ALPHA).requires
    x0 = np.ones((CHAINS, DIM))
    default, exact = (
        sample(TARGET, SRMC(base, ALPHA, tilt=tilt), x0, STEPS, seed=3, progress=False) for tilt in (None, Exact())
    )
    np.testing.assert_array_equal(default.draws, exact.draws)
