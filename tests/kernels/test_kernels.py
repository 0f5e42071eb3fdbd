"""Kernels against loops written by hand, against each other on transformed targets, and in what they spend.

Every kernel is stepped directly, with noise given, so that equal noise must give equal chains.
"""

import math

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample import tree
from xpsample.gradients import FiniteDifference
from xpsample.gradients.choices import Evaluations
from xpsample.kernels import HMC, MALA, PCN, RWM, ULA, IndependentMH, UnderdampedLangevin
from xpsample.noise import Portable
from xpsample.srmc import SRMC, Frozen, PowerLaw
from xpsample.targets import Exact, Shift, Target

PRECISION = np.asarray([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.5]])
COVARIANCE = np.asarray([[1.0, 0.4, 0.1], [0.4, 0.8, 0.0], [0.1, 0.0, 1.2]])
STEPS = 4

# A step for each kernel, as a function of its hyper-parameter of the chain axes and of a covariance.
KERNELS = {
    "RWM": lambda eta, c=None: RWM(eta, covariance=c),
    "ULA": lambda eta, c=None: ULA(eta, preconditioner=c),
    "MALA": lambda eta, c=None: MALA(eta, preconditioner=c),
    "HMC": lambda eta, c=None: HMC(eta, 3, mass=c),
    "PCN": lambda eta, c=None: PCN(eta, covariance=c),
    "UnderdampedLangevin": lambda eta, c=None: UnderdampedLangevin(eta, friction=2.0, mass=c),
    "SR-RWM": lambda eta, c=None: SRMC(RWM(eta, covariance=c), alpha=0.5),
    "SR-MALA": lambda eta, c=None: SRMC(MALA(eta, preconditioner=c), alpha=0.5),
    "SR-HMC": lambda eta, c=None: SRMC(HMC(eta, 3, mass=c), alpha=0.5, tilt=FiniteDifference(1e-3)),
    "SR-ULA": lambda eta, c=None: SRMC(ULA(eta, preconditioner=c), alpha=0.5, tilt=Shift()),
}
ADJUSTED = {
    "RWM": RWM(0.7),
    "MALA": MALA(0.3),
    "HMC": HMC(0.4, 3),
    "PCN": PCN(0.5),
    "IndependentMH": IndependentMH(),
}
UNADJUSTED = {"ULA": ULA(0.1), "UnderdampedLangevin": UnderdampedLangevin(0.2)}
BASES = ADJUSTED | UNADJUSTED
every_kernel = pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
every_base = pytest.mark.parametrize("base", BASES.values(), ids=BASES)


def half_square(x, precision):
    return -0.5 * array_namespace(x).sum(x * (x @ precision), axis=-1)


GAUSSIAN = Target(half_square, score=lambda x, p: -(x @ p), hvp=lambda x, v, p: -(v @ p), data=PRECISION)
QUARTIC = Target(
    lambda x: -0.25 * array_namespace(x).sum(x**4, axis=-1),
    score=lambda x: -(x**3),
    hvp=lambda x, v: -3 * x * x * v,
)


def start(*chains, seed=0):
    return np.random.default_rng(seed).normal(size=(*chains, 3))


def noise_of(kernel, x, steps=STEPS, seed=1):
    """Host noise of `steps` steps for positions x."""
    from xpsample.backend import backend_named

    return Portable(seed).block(backend_named("numpy"), kernel.noise(x), 0, steps, np.asarray(x))


def walk(library, kernel, x, noise, target=GAUSSIAN):
    """Positions after every step, the infos, and the last state."""
    x = library.array(x)
    bound = target.prepare(x, kernel.requires)
    state, positions, infos = kernel.init(bound, x), [], []
    for t in range(len(next(iter(noise.values())))):
        state, info = kernel.step(bound, state, {name: library.array(rows[t]) for name, rows in noise.items()})
        positions.append(library.host(state.point.x))
        infos.append(info)
    return np.stack(positions), infos, state


class NumPy:
    """Enough of a Library for host arrays."""

    @staticmethod
    def array(host):
        return np.asarray(host)

    @staticmethod
    def host(array):
        return np.array(array)


# ---- chains are independent, axes are chains -------------------------------------------------------------------------


@every_kernel
def test_a_batch_is_a_loop_over_single_chains(library, make):
    kernel, x = make(0.3), start(2, 3)
    noise = noise_of(kernel, x)
    together, _, _ = walk(library, kernel, x, noise)
    assert not np.array_equal(together[0], x)
    for i, j in [(0, 0), (0, 2), (1, 1)]:
        alone, _, _ = walk(library, kernel, x[i, j], {name: rows[:, i, j] for name, rows in noise.items()})
        np.testing.assert_allclose(together[:, i, j], alone, rtol=1e-10, atol=1e-12)


@every_kernel
def test_chain_axes_may_be_folded(make):
    kernel, x = make(0.3), start(2, 3)
    noise = noise_of(kernel, x)
    folded, _, _ = walk(
        NumPy, kernel, x.reshape(6, 3), {name: a.reshape(STEPS, 6, *a.shape[3:]) for name, a in noise.items()}
    )
    axes, _, _ = walk(NumPy, kernel, x, noise)
    np.testing.assert_allclose(folded, axes.reshape(STEPS, 6, 3), rtol=1e-10, atol=1e-12)


@every_kernel
def test_a_sweep_is_several_runs(library, make):
    """Positions (3, 5, dim) with a step size of shape (3, 1) are three runs with a step size each."""
    sizes, x = [0.1, 0.3, 0.5], start(3, 5)
    sweep = make(library.array(np.asarray(sizes)[:, None]))
    noise = noise_of(sweep, x)
    together, _, _ = walk(library, sweep, x, noise)
    for i, size in enumerate(sizes):
        apart, _, _ = walk(library, make(size), x[i], {name: rows[:, i] for name, rows in noise.items()})
        np.testing.assert_allclose(together[:, i], apart, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda a: UnderdampedLangevin(0.2, friction=a), [0.5, 2.0]),
        (lambda a: SRMC(MALA(0.3), alpha=a), [0.0, 1.0]),
        (lambda a: SRMC(MALA(0.3), alpha=1.0, schedule=PowerLaw(rho=a)), [0.6, 1.0]),
    ],
    ids=["friction", "alpha", "rho"],
)
def test_sweeps_over_other_hyper_parameters(library, make, values):
    x = start(2, 5)
    sweep = make(library.array(np.asarray(values)[:, None]))
    noise = noise_of(sweep, x)
    together, _, _ = walk(library, sweep, x, noise)
    for i, value in enumerate(values):
        apart, _, _ = walk(library, make(value), x[i], {name: rows[:, i] for name, rows in noise.items()})
        np.testing.assert_allclose(together[:, i], apart, rtol=1e-10, atol=1e-12)


@every_kernel
def test_a_step_keeps_the_shapes_dtypes_and_device_of_the_state(typed_library, make):
    kernel, x = make(0.3), start(2, 3).astype(typed_library.dtype)
    bound = GAUSSIAN.prepare(typed_library.array(x), kernel.requires)
    before = kernel.init(bound, typed_library.array(x))
    noise = {name: typed_library.array(rows[0]) for name, rows in noise_of(kernel, x, 1).items()}
    after, info = kernel.step(bound, before, noise)
    assert type(after) is type(before)

    def form(state):
        return [(path, tuple(a.shape), a.dtype, a.device) for path, a in tree.items(state)]

    assert form(after) == form(before)
    probability = info.acceptance_probability
    assert tuple(probability.shape) == (2, 3) and probability.dtype == after.point.x.dtype
    for flag in (info.moved, info.diverged):
        assert tuple(flag.shape) == (2, 3) and typed_library.xp.isdtype(flag.dtype, "bool")


@every_kernel
def test_a_step_changes_nothing_that_it_was_given(make):
    """A state, noise and positions marked read-only come through."""
    kernel, x = make(0.3), start(5)
    bound = GAUSSIAN.prepare(x, kernel.requires)
    state = kernel.init(bound, x)
    noise = {name: rows[0] for name, rows in noise_of(kernel, x).items()}
    for leaf in (*tree.leaves(state), *tree.leaves(noise)):
        leaf.flags.writeable = False
    kernel.step(bound, state, noise)


@every_base
def test_moved_says_whether_the_position_changed(base):
    x = start(200)
    positions, infos, _ = walk(NumPy, base, x, noise_of(base, x))
    before = np.concatenate([x[None], positions[:-1]])
    moved = np.stack([info.moved for info in infos])
    np.testing.assert_array_equal(moved, np.any(positions != before, axis=-1))


@pytest.mark.parametrize("kernel", ADJUSTED.values(), ids=ADJUSTED)
def test_a_proposal_is_accepted_where_the_uniform_is_below_its_probability(kernel):
    x = start(500)
    noise = noise_of(kernel, x)
    _, infos, _ = walk(NumPy, kernel, x, noise)
    for uniform, info in zip(noise["accept"], infos, strict=True):
        probability = info.acceptance_probability
        np.testing.assert_array_equal(info.moved, uniform < probability)
        assert np.all((probability >= 0) & (probability <= 1)) and 0.1 < probability.mean() < 1


# ---- by hand ---------------------------------------------------------------------------------------------------------


def log_normal(x, mean, variance):
    return -0.5 * np.sum((x - mean) ** 2, axis=-1) / variance


def test_random_walk_by_hand(library):
    x = start(50)
    noise = noise_of(RWM(0.7), x, 1)
    positions, infos, _ = walk(library, RWM(0.7), x, noise)
    y = x + 0.7 * noise["proposal"][0]
    assert_metropolis(library, infos[0], positions[0], x, y, density(y) - density(x), noise)


def test_mala_by_hand(library):
    """With the Gaussian proposal densities written out."""
    x, eta = start(50), 0.3
    noise = noise_of(MALA(eta), x, 1)
    positions, infos, _ = walk(library, MALA(eta), x, noise)
    y = x + eta * score(x) + np.sqrt(2 * eta) * noise["proposal"][0]
    there, back = log_normal(y, x + eta * score(x), 2 * eta), log_normal(x, y + eta * score(y), 2 * eta)
    assert_metropolis(library, infos[0], positions[0], x, y, density(y) - density(x) + back - there, noise)


def test_pcn_by_hand(library):
    x, beta, mean = start(50), 0.4, np.asarray([0.5, 0.0, -0.5])
    kernel = PCN(beta, mean=library.array(mean), covariance=library.array(COVARIANCE))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    root = np.linalg.cholesky(COVARIANCE)
    y = mean + np.sqrt(1 - beta**2) * (x - mean) + beta * noise["proposal"][0] @ root.T

    def reference(z):
        return -0.5 * np.sum((z - mean) * np.linalg.solve(COVARIANCE, (z - mean).T).T, axis=-1)

    ratio = density(y) - density(x) + reference(x) - reference(y)
    assert_metropolis(library, infos[0], positions[0], x, y, ratio, noise)


def test_independent_proposals_by_hand(library):
    x, mean = start(50), np.asarray([0.5, 0.0, -0.5])
    kernel = IndependentMH(library.array(mean), library.array(COVARIANCE))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    y = mean + noise["proposal"][0] @ np.linalg.cholesky(COVARIANCE).T

    def proposal(z):
        return -0.5 * np.sum((z - mean) * np.linalg.solve(COVARIANCE, (z - mean).T).T, axis=-1)

    ratio = density(y) - density(x) + proposal(x) - proposal(y)
    assert_metropolis(library, infos[0], positions[0], x, y, ratio, noise)


def test_hmc_by_hand(library):
    """With a dense mass: momentum p = M^{1/2} u, velocity M^{-1} p."""
    x, mass = start(50), COVARIANCE
    kernel = HMC(0.6, 5, mass=library.array(mass))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    p = noise["momentum"][0] @ np.linalg.cholesky(mass).T
    y, q = leapfrog(x, p, 0.6, 5, mass)
    ratio = density(y) - density(x) + kinetic(p, mass) - kinetic(q, mass)
    assert_metropolis(library, infos[0], positions[0], x, y, ratio, noise)


def test_ula_by_hand(library):
    x = start(50)
    noise = noise_of(ULA(0.1), x, 1)
    positions, _, _ = walk(library, ULA(0.1), x, noise)
    y = x + 0.1 * score(x) + np.sqrt(0.2) * noise["proposal"][0]
    np.testing.assert_allclose(positions[0], y, rtol=1e-12)


def test_underdamped_langevin_by_hand(library):
    """BAOAB with the mass written out, over three steps from rest."""
    x, h, friction, mass = start(50), 0.2, 1.5, COVARIANCE
    kernel = UnderdampedLangevin(h, friction, library.array(mass))
    noise = noise_of(kernel, x, 3)
    positions, _, _ = walk(library, kernel, x, noise)
    p, root, decay = np.zeros_like(x), np.linalg.cholesky(mass), math.exp(-h * friction)
    for t in range(3):
        p = p + h / 2 * score(x)
        x = x + h / 2 * np.linalg.solve(mass, p.T).T
        p = decay * p + math.sqrt(1 - decay**2) * noise["momentum"][t] @ root.T
        x = x + h / 2 * np.linalg.solve(mass, p.T).T
        p = p + h / 2 * score(x)
        np.testing.assert_allclose(positions[t], x, rtol=1e-10, atol=1e-12)


def density(x):
    return half_square(x, PRECISION)


def score(x):
    return -(x @ PRECISION)


def leapfrog(x, p, h, steps, mass):
    for _ in range(steps):
        p = p + h / 2 * score(x)
        x = x + h * np.linalg.solve(mass, p.T).T
        p = p + h / 2 * score(x)
    return x, p


def kinetic(p, mass):
    return 0.5 * np.sum(p * np.linalg.solve(mass, p.T).T, axis=-1)


def assert_metropolis(library, info, after, x, y, log_ratio, noise):
    probability = np.exp(np.minimum(log_ratio, 0))
    np.testing.assert_allclose(library.host(info.acceptance_probability), probability, rtol=1e-9)
    accepted = noise["accept"][0] < probability
    assert 0 < accepted.sum() < len(x)
    np.testing.assert_allclose(after, np.where(accepted[:, None], y, x), rtol=1e-10, atol=1e-12)


def test_the_leapfrog_is_reversible(library):
    """From the end with the momentum turned round, HMC comes back to where it was."""
    x, mass = start(50), COVARIANCE
    root = np.linalg.cholesky(mass)
    kernel = HMC(0.3, 7, mass=library.array(mass))
    u = noise_of(kernel, x, 1)["momentum"]
    always = np.full((1, 50), 1e-300)
    there, _, _ = walk(library, kernel, x, {"momentum": u, "accept": always})
    _, q = leapfrog(x, u[0] @ root.T, 0.3, 7, mass)
    turned = np.linalg.solve(root, -q.T).T
    back, _, _ = walk(library, kernel, there[0], {"momentum": turned[None], "accept": always})
    assert np.min(np.max(np.abs(there[0] - x), axis=-1)) > 0.1
    np.testing.assert_allclose(back[0], x, rtol=1e-10, atol=1e-12)


# ---- invariance that needs no statistics -----------------------------------------------------------------------------


def test_pcn_accepts_everything_where_the_target_is_its_reference(library):
    kernel = PCN(0.7, covariance=library.array(np.linalg.inv(PRECISION)))
    x = start(50)
    _, infos, _ = walk(library, kernel, x, noise_of(kernel, x))
    for info in infos:
        np.testing.assert_allclose(library.host(info.acceptance_probability), 1, rtol=1e-12)


def test_independent_proposals_from_the_target_are_accepted(library):
    kernel = IndependentMH(covariance=library.array(np.linalg.inv(PRECISION)))
    x = start(50)
    _, infos, _ = walk(library, kernel, x, noise_of(kernel, x))
    for info in infos:
        np.testing.assert_allclose(library.host(info.acceptance_probability), 1, rtol=1e-12)


def test_the_energy_error_of_hmc_falls_with_the_cube_of_one_step():
    """1 - acceptance, on average over the sign of the error, goes with the local error of one leapfrog step."""
    x = start(2000)

    def error(step_size):
        kernel = HMC(step_size, 1)
        _, infos, _ = walk(NumPy, kernel, x, noise_of(kernel, x, 1))
        return np.mean(1 - infos[0].acceptance_probability)

    assert error(0.02) / error(0.01) == pytest.approx(8, rel=0.1)


# ---- linear maps -----------------------------------------------------------------------------------------------------


def transformed(matrix):
    """The quartic density of x = A u, in u."""
    return Target(
        lambda u: QUARTIC.log_density(u @ matrix.T),
        score=lambda u: QUARTIC.score(u @ matrix.T) @ matrix,
        hvp=lambda u, v: QUARTIC.hvp(u @ matrix.T, v @ matrix.T) @ matrix,
    )


def root_of(name, matrix):
    """A with A A^T the covariance; a mass is an inverse covariance."""
    if "HMC" in name or "Underdamped" in name:
        return np.linalg.inv(np.linalg.cholesky(matrix)).T
    return np.linalg.cholesky(matrix)


@pytest.mark.parametrize("name", [name for name in KERNELS if not name.startswith("SR-")])
def test_a_covariance_is_a_linear_change_of_coordinates(library, name):
    """A kernel with covariance A A^T on pi(x) is the kernel without on pi(A u), under the same noise."""
    u, a = start(5), root_of(name, COVARIANCE)
    plain, dense = KERNELS[name](0.2), KERNELS[name](0.2, library.array(COVARIANCE))
    noise = noise_of(plain, u)
    there, _, _ = walk(library, plain, u, noise, transformed(library.array(a)))
    here, _, _ = walk(library, dense, u @ a.T, noise, QUARTIC)
    np.testing.assert_allclose(here, there @ a.T, rtol=1e-9, atol=1e-10)
    unchanged, _, _ = walk(library, plain, u @ a.T, noise, QUARTIC)
    assert np.max(np.abs(unchanged - here)) > 1e-3


@every_kernel
def test_a_vector_is_a_diagonal_matrix(library, make):
    x, scales = start(5), np.asarray([0.5, 1.0, 2.0])
    diagonal, dense = make(0.2, library.array(scales)), make(0.2, library.array(np.diag(scales)))
    noise = noise_of(dense, x)
    first, second = (walk(library, kernel, x, noise)[0] for kernel in (diagonal, dense))
    np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-12)


@every_kernel
def test_ones_are_the_identity(make):
    x = start(5)
    noise = noise_of(make(0.2), x)
    first, second = (walk(NumPy, kernel, x, noise)[0] for kernel in (make(0.2), make(0.2, np.ones(3))))
    np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-14)


# ---- what a step costs -----------------------------------------------------------------------------------------------


class Counting:
    """The quartic density, counting evaluations by chain."""

    def __init__(self):
        self.spent = dict.fromkeys(Evaluations._fields, 0)
        self.target = Target(
            self._counted("log_density", QUARTIC.log_density),
            score=self._counted("score", QUARTIC.score),
            hvp=self._counted("hvp", QUARTIC.hvp),
        )

    def _counted(self, name, function):
        def counted(x, *rest):
            self.spent[name] += math.prod(x.shape[:-1])
            return function(x, *rest)

        return counted


COSTS = [
    (RWM(0.5), (1, 0, 0)),
    (PCN(0.5), (1, 0, 0)),
    (IndependentMH(), (1, 0, 0)),
    (ULA(0.1), (0, 1, 0)),
    (UnderdampedLangevin(0.1), (0, 1, 0)),
    (MALA(0.1), (1, 1, 0)),
    (HMC(0.1, 1), (1, 1, 0)),
    (HMC(0.1, 5), (1, 5, 0)),
    # SRMC: a kernel without a score needs the score for the tilt of its density, and never an hvp.
    (SRMC(RWM(0.5), alpha=0.5), (1, 1, 0)),
    (SRMC(PCN(0.5), alpha=0.5), (1, 1, 0)),
    (SRMC(IndependentMH(), alpha=0.5), (1, 1, 0)),
    # One hvp re-tilts the point, one tilts the proposal.
    (SRMC(MALA(0.1), alpha=0.5), (1, 1, 2)),
    (SRMC(ULA(0.1), alpha=0.5), (0, 1, 2)),
    (SRMC(UnderdampedLangevin(0.1), alpha=0.5), (0, 1, 2)),
    (SRMC(HMC(0.1, 5), alpha=0.5), (1, 5, 6)),
    (SRMC(MALA(0.1), alpha=0.5, tilt=Shift()), (1, 3, 0)),
    (SRMC(MALA(0.1), alpha=0.5, tilt=FiniteDifference(1e-3, "forward")), (1, 3, 0)),
    (SRMC(MALA(0.1), alpha=0.5, tilt=FiniteDifference(1e-3, "central")), (1, 5, 0)),
]


@pytest.mark.parametrize(("kernel", "expected"), COSTS, ids=lambda value: repr(value)[:60])
def test_a_step_spends_what_it_says(kernel, expected):
    counting, x = Counting(), start(4)
    bound = counting.target.prepare(x, kernel.requires)
    state = kernel.init(bound, x)
    for t in range(3):
        counting.spent = dict.fromkeys(counting.spent, 0)
        noise = {name: rows[t] for name, rows in noise_of(kernel, x).items()}
        state, info = kernel.step(bound, state, noise)
        assert tuple(count / 4 for count in counting.spent.values()) == expected
        assert info.evaluations == Evaluations(*expected)


@pytest.mark.parametrize(("kernel", "expected"), COSTS, ids=lambda value: repr(value)[:60])
def test_a_run_reports_the_costs_of_its_steps(kernel, expected):
    trace = xps.sample(QUARTIC, kernel, start(4), 5, seed=0)
    assert trace.tally.evaluations == dict(zip(Evaluations._fields, expected, strict=True))


def test_differentiation_by_differences_is_counted_in_densities():
    target = Target(QUARTIC.log_density, gradient=FiniteDifference())
    trace = xps.sample(target, MALA(0.1), start(4), 5, seed=0)
    assert trace.tally.evaluations == {"log_density": 1 + 2 * 3, "score": 0, "hvp": 0}


# ---- SRMC ------------------------------------------------------------------------------------------------------------

TILTS = {
    "exact": Exact(),
    "shift": Shift(),
    "central": FiniteDifference(1e-3),
    "forward": FiniteDifference(1e-3, "forward"),
}


@every_base
@pytest.mark.parametrize("tilt", TILTS.values(), ids=TILTS)
def test_no_repellence_is_the_base_kernel_bit_for_bit(library, base, tilt):
    x = start(5)
    noise = noise_of(base, x)
    plain, plain_infos, _ = walk(library, base, x, noise, QUARTIC)
    tilted, tilted_infos, state = walk(library, SRMC(base, alpha=0.0, tilt=tilt), x, noise, QUARTIC)
    np.testing.assert_array_equal(tilted, plain)
    for mine, theirs in zip(tilted_infos, plain_infos, strict=True):
        np.testing.assert_array_equal(
            library.host(mine.acceptance_probability), library.host(theirs.acceptance_probability)
        )
    assert np.all(library.host(state.theta) != 0)


def test_no_repellence_is_the_base_kernel_bit_for_bit_in_whole_runs(library):
    base = MALA(0.3)
    x0 = library.array(start(5))
    plain = xps.sample(QUARTIC, base, x0, 40, seed=Portable(3)).draws
    tilted = xps.sample(QUARTIC, SRMC(base, alpha=0.0), x0, 40, seed=Portable(3)).draws
    np.testing.assert_array_equal(library.host(tilted), library.host(plain))


def test_repellence_changes_the_chain(library):
    x = start(5)
    noise = noise_of(MALA(0.1), x)
    plain, tilted = (walk(library, kernel, x, noise, QUARTIC)[0] for kernel in (MALA(0.1), SRMC(MALA(0.1), alpha=0.5)))
    assert np.max(np.abs(plain - tilted)) > 1e-3


@pytest.mark.parametrize(("rho", "scale", "offset"), [(1.0, 1.0, 1.0), (0.7, 0.5, 3.0)])
def test_the_history_is_the_recursion_of_equation_1(library, rho, scale, offset):
    """theta_n = theta_{n-1} + gamma_n (s(x_n) - theta_{n-1}) with the untilted score of the positions drawn."""
    x = start(5)
    kernel = SRMC(MALA(0.1), alpha=0.8, schedule=PowerLaw(rho, scale, offset))
    noise = noise_of(kernel, x, 8)
    positions, _, state = walk(library, kernel, x, noise, QUARTIC)
    theta = np.zeros_like(x)
    for n, position in enumerate(positions, start=1):
        theta = theta + scale * (n + offset) ** -rho * (QUARTIC.score(position) - theta)
    np.testing.assert_allclose(library.host(state.theta), theta, rtol=1e-10)
    assert int(state.n) == 8


def test_algorithm_1_by_hand(library):
    """SR-MALA over eight steps, with the surrogate's density and score (Eqs. 2 and 5) written out."""
    x, eta, alpha = start(20), 0.1, 0.8
    kernel = SRMC(MALA(eta), alpha=alpha)
    noise = noise_of(kernel, x, 8)
    positions, _, _ = walk(library, kernel, x, noise, QUARTIC)
    theta = np.zeros_like(x)
    for t in range(8):

        def tilted(z, theta=theta):
            return QUARTIC.log_density(z) - alpha * np.sum(theta * QUARTIC.score(z), axis=-1)

        def drift(z, theta=theta):
            return QUARTIC.score(z) - alpha * QUARTIC.hvp(z, theta)

        y = x + eta * drift(x) + np.sqrt(2 * eta) * noise["proposal"][t]
        ratio = tilted(y) - tilted(x)
        ratio += log_normal(x, y + eta * drift(y), 2 * eta) - log_normal(y, x + eta * drift(x), 2 * eta)
        x = np.where((np.log(noise["accept"][t]) < ratio)[:, None], y, x)
        np.testing.assert_allclose(positions[t], x, rtol=1e-9, atol=1e-11)
        theta = theta + (QUARTIC.score(x) - theta) / (t + 2)


def test_a_history_to_start_from(library):
    x, theta = start(5), start(5, seed=9)
    kernel = SRMC(MALA(0.1), alpha=0.8, schedule=Frozen(), theta=library.array(theta))
    _, _, state = walk(library, kernel, x, noise_of(kernel, x), QUARTIC)
    np.testing.assert_array_equal(library.host(state.theta), theta)


def test_a_frozen_history_samples_the_tilted_target(library):
    """SRMC with theta fixed is the base kernel on the density that Eq. 2 writes down."""
    x, theta = start(5), 0.3 * start(5, seed=9)
    there = library.array(theta)
    xp = library.xp
    plain = Target(
        lambda z: QUARTIC.log_density(z) + 0.8 * xp.sum(there * z**3, axis=-1),
        score=lambda z: -(z**3) + 0.8 * 3 * there * z * z,
    )
    kernel = SRMC(MALA(0.1), alpha=0.8, schedule=Frozen(), theta=there)
    noise = noise_of(kernel, x)
    tilted, _, _ = walk(library, kernel, x, noise, QUARTIC)
    expected, _, _ = walk(library, MALA(0.1), x, noise, plain)
    np.testing.assert_allclose(tilted, expected, rtol=1e-10, atol=1e-12)


def test_power_law_values(library):
    xp = library.xp

    def gamma(n, **settings):
        return library.host(PowerLaw(**settings).gamma(xp, library.array(float(n))))

    assert gamma(1) == 0.5 and gamma(3) == 0.25
    assert gamma(2, offset=0.0) == 0.5
    np.testing.assert_allclose(gamma(3, rho=0.75, scale=2.0), 2 * 4**-0.75, rtol=1e-14)
    rho = np.asarray([[0.6], [1.0]])
    np.testing.assert_allclose(gamma(4, rho=library.array(rho)), 5.0**-rho, rtol=1e-14)


def test_the_point_of_srmc_is_without_the_tilt():
    """So that what wraps or records SRMC sees the target that SRMC was given."""
    x = start(5)
    kernel = SRMC(MALA(0.1), alpha=0.8)
    positions, _, state = walk(NumPy, kernel, x, noise_of(kernel, x), QUARTIC)
    np.testing.assert_array_equal(state.point.x, positions[-1])
    np.testing.assert_array_equal(state.point.log_density, QUARTIC.log_density(positions[-1]))
    np.testing.assert_array_equal(state.point.score, QUARTIC.score(positions[-1]))
    assert np.all(state.base.point.log_density != state.point.log_density)


# ---- stationary distributions ----------------------------------------------------------------------------------------

CHAINS = 40_000
BOUND = 5.0
"""Standard errors that a mean of `CHAINS` chains may be off: error probability 6e-7 a comparison, seeds fixed."""


def assert_variance(x, variance):
    """Mean 0 and the given variance in the one coordinate of independent Gaussian chains."""
    assert abs(np.mean(x)) < BOUND * math.sqrt(variance / CHAINS)
    assert abs(np.mean(x * x) - variance) < BOUND * variance * math.sqrt(2 / CHAINS)


NARROW = Target(lambda x: -0.5 * np.sum(x * x, axis=-1) / 0.5, score=lambda x: -x / 0.5, hvp=lambda x, v: -v / 0.5)


@pytest.mark.parametrize("kernel", ADJUSTED.values(), ids=ADJUSTED)
def test_an_exact_start_stays_exact(kernel):
    x0 = math.sqrt(0.5) * np.random.default_rng(4).normal(size=(CHAINS, 1))
    assert_variance(xps.sample(NARROW, kernel, x0, 1, burn_in=9, seed=5).draws[-1], 0.5)


@pytest.mark.parametrize("kernel", ADJUSTED.values(), ids=ADJUSTED)
def test_a_wide_start_is_forgotten(kernel):
    x0 = 1.2 * np.random.default_rng(4).normal(size=(CHAINS, 1))
    assert_variance(xps.sample(NARROW, kernel, x0, 1, burn_in=149, seed=5).draws[-1], 0.5)


def test_the_bias_of_ula_is_as_documented():
    """v / (1 - eta / (2 v)) on N(0, v)."""
    x0 = np.zeros((CHAINS, 1))
    draws = xps.sample(NARROW, ULA(0.3), x0, 1, burn_in=30, seed=5).draws
    assert_variance(draws[-1], 0.5 / (1 - 0.3 / (2 * 0.5)))


def test_baoab_is_unbiased_on_gaussians():
    x0 = np.zeros((CHAINS, 1))
    draws = xps.sample(NARROW, UnderdampedLangevin(0.8, friction=2.0), x0, 1, burn_in=60, seed=5).draws
    assert_variance(draws[-1], 0.5)
