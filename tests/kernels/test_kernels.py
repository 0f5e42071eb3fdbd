"""What holds for every kernel: chains are independent, sweeps, linear maps, costs, stationary laws.

Every kernel is stepped directly, with noise given, so that equal noise must give equal chains.
"""

import math

import numpy as np
import pytest
from array_api_compat import device

import xpsample as xps
from tests.kernels.support import (
    ADJUSTED,
    CHAINS,
    COVARIANCE,
    GAUSSIAN,
    KERNELS,
    NARROW,
    QUARTIC,
    STEPS,
    NumPy,
    assert_variance,
    every_base,
    every_kernel,
    noise_of,
    start,
    walk,
)
from xpsample.core import tree
from xpsample.gradients import FiniteDifference
from xpsample.gradients.choices import Evaluations
from xpsample.kernels import HMC, MALA, PCN, RWM, SGNHT, ULA, IndependentMH, UnderdampedLangevin
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Exact, Shift, Target

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


def assert_a_sweep_is_several_runs(library, make, values):
    x = start(len(values), 5)
    sweep = make(library.array(np.asarray(values)[:, None]))
    noise = noise_of(sweep, x)
    together, _, _ = walk(library, sweep, x, noise)
    for i, value in enumerate(values):
        apart, _, _ = walk(library, make(value), x[i], {name: rows[:, i] for name, rows in noise.items()})
        np.testing.assert_allclose(together[:, i], apart, rtol=1e-10, atol=1e-12)


@every_kernel
def test_a_sweep_is_several_runs(library, make):
    """Positions (3, 5, dim) with a step size of shape (3, 1) are three runs with a step size each."""
    assert_a_sweep_is_several_runs(library, make, [0.1, 0.3, 0.5])


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda a: UnderdampedLangevin(0.2, friction=a), [0.5, 2.0]),
        (lambda a: SRMC(MALA(0.3), alpha=a, tilt=Exact()), [0.0, 1.0]),
        (lambda a: SRMC(MALA(0.3), alpha=1.0, schedule=PowerLaw(rho=a), tilt=Exact()), [0.6, 1.0]),
    ],
    ids=["friction", "alpha", "rho"],
)
def test_sweeps_over_other_hyper_parameters(library, make, values):
    assert_a_sweep_is_several_runs(library, make, values)


@every_kernel
def test_a_step_keeps_the_shapes_dtypes_and_device_of_the_state(typed_library, make):
    kernel, x = make(0.3), start(2, 3).astype(typed_library.dtype)
    bound = GAUSSIAN.prepare(typed_library.array(x), kernel.requires)
    before = kernel.init(bound, typed_library.array(x))
    noise = {name: typed_library.array(rows[0]) for name, rows in noise_of(kernel, x, 1).items()}
    after, info = kernel.step(bound, before, noise)
    assert type(after) is type(before)

    def form(state):
        return [(path, tuple(a.shape), a.dtype, device(a)) for path, a in tree.items(state)]

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
    (IndependentMH(0.0), (1, 0, 0)),
    (ULA(0.1), (0, 1, 0)),
    (UnderdampedLangevin(0.1), (0, 1, 0)),
    (SGNHT(0.1), (0, 1, 0)),
    (MALA(0.1), (1, 1, 0)),
    (HMC(0.1, 1), (1, 1, 0)),
    (HMC(0.1, 5), (1, 5, 0)),
    # SRMC: a kernel without a score needs the score for the tilt of its density, and never an hvp.
    (SRMC(RWM(0.5), alpha=0.5), (1, 1, 0)),
    (SRMC(PCN(0.5), alpha=0.5), (1, 1, 0)),
    (SRMC(IndependentMH(0.0), alpha=0.5), (1, 1, 0)),
    # One hvp re-tilts the point, one tilts the proposal, at which ULA does not look.
    (SRMC(MALA(0.1), alpha=0.5, tilt=Exact()), (1, 1, 2)),
    (SRMC(ULA(0.1), alpha=0.5), (0, 1, 1)),
    (SRMC(UnderdampedLangevin(0.1), alpha=0.5), (0, 1, 2)),
    (SRMC(HMC(0.1, 5), alpha=0.5, tilt=Exact()), (1, 5, 6)),
    (SRMC(MALA(0.1), alpha=0.5, tilt=Shift()), (1, 3, 0)),
    (SRMC(HMC(0.1, 4), alpha=0.5, tilt=Shift()), (1, 6, 0)),
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
    assert trace.run_statistics.evaluations == dict(zip(Evaluations._fields, expected, strict=True))


def test_differentiation_by_differences_is_counted_in_densities():
    target = Target(QUARTIC.log_density, gradient=FiniteDifference())
    trace = xps.sample(target, MALA(0.1), start(4), 5, seed=0)
    assert trace.run_statistics.evaluations == {"log_density": 1 + 2 * 3, "score": 0, "hvp": 0}


# ---- stationary distributions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ADJUSTED.values(), ids=ADJUSTED)
def test_an_exact_start_stays_exact(kernel):
    x0 = math.sqrt(0.5) * np.random.default_rng(4).normal(size=(CHAINS, 1))
    assert_variance(xps.sample(NARROW, kernel, x0, 1, burn_in=9, seed=5).draws[-1], 0.5)


@pytest.mark.parametrize("kernel", ADJUSTED.values(), ids=ADJUSTED)
def test_a_wide_start_is_forgotten(kernel):
    x0 = 1.2 * np.random.default_rng(4).normal(size=(CHAINS, 1))
    assert_variance(xps.sample(NARROW, kernel, x0, 1, burn_in=149, seed=5).draws[-1], 0.5)
