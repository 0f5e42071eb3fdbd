"""SRMC against its algorithms written out by hand: steps, history and tilt; and its place among other wrappers."""

from types import SimpleNamespace

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import PRECISION, QUARTIC, NumPy, density, log_normal, noise_of, score, start, walk
from xpsample.gradients import FiniteDifference
from xpsample.kernels import HMC, MALA, RWM, ULA, UnderdampedLangevin
from xpsample.kernels.kernel import Kernel, freeze, with_position
from xpsample.kernels.traits import UNADJUSTED
from xpsample.srmc import SRMC, Frozen, PowerLaw
from xpsample.targets import Capability, Exact, Shift, Target, Untilted
from xpsample.zoo.gaussian import gaussian

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
"""Some tilts are too strong on purpose."""

TARGET = gaussian(np.linalg.inv(PRECISION))
STEPS, ALPHA = 10, 0.8
THETA = xps.Record("theta", lambda state: state.theta)


# ---- by hand ---------------------------------------------------------------------------------------------------------


def by_hand(target, propose, x, noise, rho=1.0, scale=1.0, offset=1.0):
    """Algorithms 1, 2, 4 and 5: a transition on pi_theta (Eqs. 2 and 5), then Eq. 1."""
    theta, xs = np.zeros_like(x), []
    for n in range(STEPS):

        def tilted(z, theta=theta):
            return target.log_density(z) - ALPHA * np.sum(theta * target.score(z), axis=-1)

        def drift(z, theta=theta):
            return target.score(z) - ALPHA * target.hvp(z, theta)

        y, correction = propose(x, drift, {name: rows[n] for name, rows in noise.items()})
        x = np.where((np.log(noise["accept"][n]) < tilted(y) - tilted(x) + correction)[:, None], y, x)
        theta = theta + scale * (n + 1 + offset) ** -rho * (target.score(x) - theta)
        xs.append(x)
    return np.stack(xs), theta


def random_walk(x, drift, z):
    return x + 0.6 * z["proposal"], 0.0


def langevin(x, drift, z, eta=0.1):
    y = x + eta * drift(x) + np.sqrt(2 * eta) * z["proposal"]
    return y, log_normal(x, y + eta * drift(y), 2 * eta) - log_normal(y, x + eta * drift(x), 2 * eta)


def leapfrog(x, drift, z, eta=0.2, length=4):
    p = z["momentum"]
    for _ in range(length):
        p = p + 0.5 * eta * drift(x)
        x = x + eta * p
        p = p + 0.5 * eta * drift(x)
    return x, 0.5 * np.sum(z["momentum"] ** 2 - p**2, axis=-1)


@pytest.mark.parametrize(("rho", "scale", "offset"), [(1.0, 1.0, 1.0), (0.7, 0.5, 3.0)])
@pytest.mark.parametrize(
    ("base", "propose"),
    [(RWM(0.6), random_walk), (MALA(0.1), langevin), (HMC(0.2, 4), leapfrog)],
    ids=["sr-rwm", "sr-mala", "sr-hmc"],
)
def test_equals_the_algorithm_by_hand(base, propose, rho, scale, offset, library):
    """Also the history, of untilted scores; and the state's point is that of the target which SRMC was given."""
    x, kernel = start(20), SRMC(base, ALPHA, PowerLaw(rho, scale, offset), Exact())
    noise = noise_of(kernel, x, STEPS)
    expected, theta = by_hand(QUARTIC, propose, x, noise, rho, scale, offset)
    positions, _, state = walk(library, kernel, x, noise, QUARTIC)
    np.testing.assert_allclose(positions, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(library.host(state.theta), theta, rtol=1e-9, atol=1e-11)
    assert int(state.n) == STEPS
    for name in ("log_density", "score"):
        own = getattr(state.point, name)
        if own is not None:
            np.testing.assert_allclose(library.host(own), getattr(QUARTIC, name)(positions[-1]), rtol=1e-12)


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


NORMAL = Target(density, score=score, hvp=lambda x, v: -(v @ PRECISION))


def test_the_complete_recipe_with_the_tilted_score():
    """Footnote 2: also with matrices that depend on x, the surrogate's score in the place of the target's."""
    x, kernel = start(20), SRMC(Recipe(), ALPHA, PowerLaw())
    noise = noise_of(kernel, x, STEPS)
    always = noise | {"accept": np.full((STEPS, 20), 1e-300)}
    expected, theta = by_hand(NORMAL, lambda x, drift, z: (recipe(x, drift(x), z["proposal"]), 0.0), x, always)
    positions, _, state = walk(NumPy, kernel, x, noise, NORMAL)
    np.testing.assert_allclose(positions, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(state.theta, theta, rtol=1e-9, atol=1e-11)


# ---- histories and tilts ---------------------------------------------------------------------------------------------


def test_a_frozen_history_samples_the_tilted_target(library):
    """SRMC with theta fixed, where it starts from, is the base kernel on the density that Eq. 2 writes down."""
    x, theta = start(5)[:, None, :], 0.3 * start(5, seed=9)[:, None, :]  # groups of one chain, each with its theta
    there = library.array(theta)
    xp = library.xp
    plain = Target(
        lambda z: QUARTIC.log_density(z) + 0.8 * xp.sum(there * z**3, axis=-1),
        score=lambda z: -(z**3) + 0.8 * 3 * there * z * z,
    )
    kernel = SRMC(MALA(0.1), alpha=0.8, schedule=Frozen(), theta=there, tilt=Exact())
    noise = noise_of(kernel, x)
    tilted, _, state = walk(library, kernel, x, noise, QUARTIC)
    expected, _, _ = walk(library, MALA(0.1), x, noise, plain)
    np.testing.assert_allclose(tilted, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(library.host(state.theta), theta)


@pytest.mark.parametrize("base", [RWM(0.6), MALA(0.3), HMC(0.3, 4), ULA(0.1)])
def test_wrapped_twice_each_history_follows_its_own_target(base):
    """The outer history averages the scores of the target itself, not those that the other tilt made of them."""
    kernel = SRMC(SRMC(base, 0.4, PowerLaw(), Exact()), 0.3, PowerLaw())
    recorders = (xps.Draws(), THETA, xps.Record("inner", lambda state: state.base.theta))
    trace = xps.sample(TARGET, kernel, np.ones((5, 3)), 40, seed=3, recorders=recorders)
    outer, inner = np.zeros((5, 3)), np.zeros((5, 3))
    for n in range(40):
        own = score(trace.draws[n])
        seen_by_inner = own + 0.3 * outer @ PRECISION  # the score under the outer tilt during this step
        inner = inner + (seen_by_inner - inner) / (n + 2)
        outer = outer + (own - outer) / (n + 2)
        np.testing.assert_allclose(trace.recorded["theta"][n], outer, atol=1e-12)
        np.testing.assert_allclose(trace.recorded["inner"][n], inner, atol=1e-12)


def repelled(base, tilt, x0=np.ones((5, 3))):
    return xps.sample(TARGET, SRMC(base, 0.7, tilt=tilt), x0, 40, seed=2).draws


def test_on_a_gaussian_all_tilts_agree():
    """Its score is linear, so a difference quotient is the derivative, and so is a shift."""
    exact = repelled(MALA(0.3), Exact())
    for tilt in (Shift(), FiniteDifference(0.1), FiniteDifference(0.5, "forward")):
        np.testing.assert_allclose(repelled(MALA(0.3), tilt), exact, atol=1e-9)


@pytest.mark.parametrize("base", [RWM(0.6), MALA(0.3), HMC(0.3, 4)], ids=lambda base: type(base).__name__)
def test_the_default_tilt_leaves_the_proposals_of_a_base_that_accepts_or_rejects(library, base):
    assert Capability.HVP not in SRMC(base, 0.7).requires
    x0 = library.array(np.ones((5, 3)))
    default = library.host(repelled(base, None, x0))
    np.testing.assert_array_equal(default, library.host(repelled(base, Untilted(), x0)))
    plain = xps.sample(TARGET, base, x0, 40, seed=2)
    assert np.any(default != library.host(plain.draws))  # the accept step sees it


@pytest.mark.parametrize("base", [ULA(0.3), UnderdampedLangevin(0.3)], ids=lambda base: type(base).__name__)
def test_the_default_tilt_is_exact_where_nothing_is_rejected(base):
    assert Capability.HVP in SRMC(base, 0.7).requires
    np.testing.assert_array_equal(repelled(base, None), repelled(base, Exact()))


@pytest.mark.parametrize("base", [RWM(0.1), MALA(0.3), ULA(0.1)])
def test_moved_to_another_position_the_histories_stay(base):
    """A step from there is that of chains that were there all the time, with those histories."""
    kernel, x0, there = SRMC(SRMC(base, 0.4, PowerLaw(), Exact()), 0.3, PowerLaw()), np.ones((5, 3)), start(5, seed=2)
    state = xps.sample(TARGET, kernel, x0, 6, seed=3).state
    bound = TARGET.prepare(x0, kernel.requires)
    moved, fresh = with_position(state, bound.evaluate(there)), kernel.init(bound, there)
    np.testing.assert_array_equal(moved.point.x, there)
    inner = fresh.base._replace(theta=state.base.theta, n=state.base.n)
    fresh = fresh._replace(theta=state.theta, n=state.n, base=inner)
    drawn = {name: rows[0] for name, rows in noise_of(kernel, x0, 1).items()}
    ours, theirs = (kernel.step(bound, at, drawn)[0] for at in (moved, fresh))
    assert np.any(ours.point.x != there)
    for find in (lambda at: at.point.x, lambda at: at.theta, lambda at: at.base.theta):
        np.testing.assert_allclose(find(ours), find(theirs), rtol=1e-12)


def test_power_law_values(library):
    def gamma(n, **settings):
        target = SimpleNamespace(xp=library.xp)
        return library.host(PowerLaw(**settings).gamma(target, library.array(float(n)), None, None, None)[0])

    assert gamma(1) == 0.5 and gamma(3) == 0.25
    assert gamma(2, offset=0.0) == 0.5
    np.testing.assert_allclose(gamma(3, rho=0.75, scale=2.0), 2 * 4**-0.75, rtol=1e-14)
    rho = np.asarray([[0.6], [1.0]])
    np.testing.assert_allclose(gamma(4, rho=library.array(rho)), 5.0**-rho, rtol=1e-14)
