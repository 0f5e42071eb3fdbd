"""What holds for every kernel: chains are independent, sweeps, linear maps, stationary laws.

Every kernel is stepped directly, with noise given, so that equal noise must give equal chains.
"""

import numpy as np
import pytest
from array_api_compat import device

from tests.kernels.support import (
    ADJUSTED,
    COVARIANCE,
    GAUSSIAN,
    KERNELS,
    QUARTIC,
    NumPy,
    every_base,
    every_kernel,
    noise_of,
    start,
    walk,
)
from xpsample.core import tree
from xpsample.kernels import MALA, UnderdampedLangevin
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Exact, Target

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


SWEPT = {name: (make, [0.1, 0.3, 0.5]) for name, make in KERNELS.items()} | {
    "friction": (lambda a: UnderdampedLangevin(0.2, friction=a), [0.5, 2.0]),
    "alpha": (lambda a: SRMC(MALA(0.3), alpha=a, tilt=Exact()), [0.0, 1.0]),
    "rho": (lambda a: SRMC(MALA(0.3), alpha=1.0, schedule=PowerLaw(rho=a), tilt=Exact()), [0.6, 1.0]),
}


@pytest.mark.parametrize(("make", "values"), SWEPT.values(), ids=SWEPT)
def test_a_sweep_is_several_runs(library, make, values):
    """Positions (3, 5, dim) with a step size of shape (3, 1) are three runs with a step size each."""
    x = start(len(values), 5)
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


# ---- stationary distributions ----------------------------------------------------------------------------------------
