"""The no-U-turn sampler: against trees built leaf by leaf, its warm-up, divergences, what it refuses."""

import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.kernels.support import COVARIANCE, density, kinetic, leapfrog, noise_of, start, walk
from xpsample.adaptation import Doublings
from xpsample.core.errors import CapabilityError, DivergenceWarning, HyperparameterError
from xpsample.kernels import NUTS
from xpsample.kernels.nuts import split
from xpsample.kernels.schedules import with_field
from xpsample.targets import LineIntegral


def turned(leaves, mass):
    """Whether an end of these leaves, in the order of time, moves towards the other."""
    momenta = np.stack([p for _, p in leaves])
    rho = momenta.sum(axis=0) - 0.5 * (momenta[0] + momenta[-1])
    velocity = np.linalg.solve(mass, rho)
    return velocity @ momenta[0] <= 0 or velocity @ momenta[-1] <= 0


def by_hand(x, momentum, uniforms, step_size, max_depth, mass):
    """One step of one chain: the new position, the doublings and the leaves that were evaluated."""
    p = np.linalg.cholesky(mass) @ momentum
    energy = kinetic(p[None], mass)[0] - density(x[None])[0]
    trajectory, weight, draw, evaluated = [(x, p)], 1.0, x, 0
    for depth in range(max_depth):
        u, sign = (2 * uniforms[depth], 1) if uniforms[depth] < 0.5 else (2 * uniforms[depth] - 1, -1)
        end, new, new_weight, new_draw = trajectory[-1 if sign > 0 else 0], [], 0.0, None
        for n in range(2**depth):
            end = tuple(a[0] for a in leapfrog(end[0][None], end[1][None], sign * step_size, 1, mass))
            new.append(end)
            leaf_weight = math.exp(energy + density(end[0][None])[0] - kinetic(end[1][None], mass)[0])
            new_weight += leaf_weight
            share = leaf_weight / new_weight
            if u < share:
                new_draw, u = end[0], u / share
            else:
                u = (u - share) / (1 - share)
            evaluated += 1
            sizes = [2**k for k in range(1, depth + 1) if (n + 1) % 2**k == 0]
            if any(turned(new[-size:][::sign], mass) for size in sizes):
                return draw, depth + 1, evaluated
        trajectory = trajectory + new if sign > 0 else new[::-1] + trajectory
        if u < min(1.0, new_weight / weight):
            draw = new_draw
        weight += new_weight
        if turned(trajectory, mass):
            return draw, depth + 1, evaluated
    return draw, max_depth, evaluated


@pytest.mark.parametrize(("step_size", "least"), [(0.15, 5), (0.7, 5), (0.15, 1)])
def test_nuts_by_hand(library, step_size, least):
    """With a dense mass, for each chain alone; chains end at different depths.

    In a warm-up chains may double less often than the kernel has noise for: in one case half of them once at most.
    """
    x, mass, most = start(30), COVARIANCE, np.where(np.arange(30) % 2, 5, least)
    kernel = NUTS(step_size, library.array(mass), 5)
    noise = noise_of(kernel, x, 1)
    if least < 5:
        limit = library.backend.from_host(most.astype(np.int32), library.array(x))
        kernel = with_field(kernel, "max_depth", limit)
    positions, infos, _ = walk(library, kernel, x, noise)
    chains = zip(x, noise["momentum"][0], noise["doubling"][0], most, strict=True)
    expected = [by_hand(at, p, u, step_size, int(depth), mass) for at, p, u, depth in chains]
    draws, depths, leaves = (np.asarray(column) for column in zip(*expected, strict=True))
    np.testing.assert_allclose(positions[0], draws, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(library.host(infos[0].depth), depths)
    np.testing.assert_array_equal(library.host(infos[0].evaluations.score), leaves)
    np.testing.assert_array_equal(library.host(infos[0].moved), np.any(draws != x, axis=-1))
    assert len(set(depths)) > 1


@pytest.mark.slow
def test_a_warm_up_begins_with_few_doublings():
    """Scales of 1, 30 and 1,000: a trajectory that turns takes more than 31 leaves, until they are known."""
    scale = np.asarray([1.0, 30.0, 1000.0])
    target = xps.Target(lambda x: -0.5 * ((x / scale) ** 2).sum(-1), score=lambda x: -x / scale**2)
    x0 = scale * start(4)
    few, many = (xps.sample(target, k, x0, 2, seed=1) for k in (NUTS(), NUTS(max_depth=10)))
    third = few.metadata["warmup"] // 3
    assert np.all(few.warmup["NUTS.max_depth"][:third] == 5) and np.all(few.warmup["NUTS.max_depth"][third + 1 :] == 10)
    assert few.warmup["scores"][:third].max() <= 31 < many.warmup["scores"][:third].max()
    assert few.kernel.max_depth == 10 and "NUTS.max_depth" not in many.warmup


def test_the_numbers_of_doublings_may_be_others():
    trace = xps.sample(QUARTIC, NUTS(max_depth=Doublings(1, 3)), start(4), 50, seed=1)
    assert trace.warmup["NUTS.max_depth"].min() == 1 and trace.kernel.max_depth == 3
    assert trace.run_statistics.evaluations["score"] <= 7
    for first, most in ((0, 5), (6, 5), (5, 31), (1.5, 5)):
        with pytest.raises(HyperparameterError, match="must be"):
            Doublings(first, most)


QUARTIC = xps.Target(lambda x: -0.25 * (x * x * x * x).sum(-1), score=lambda x: -(x * x * x))


def test_what_a_choice_leaves_of_a_uniform_is_uniform_and_independent_of_it():
    u = np.random.default_rng(3).random(200_000)
    for probability in (0.5, 0.9, 1e-3):
        below, rest = split(numpy_xp, u, np.full(u.shape, probability))
        for part in (rest[below], rest[~below]):
            counts = np.histogram(part, bins=10, range=(0, 1))[0]
            expected = len(part) / 10
            assert np.sum((counts - expected) ** 2 / expected) < 49.0  # error probability 1.7e-7
    assert split(numpy_xp, u, np.ones_like(u))[0].all() and not split(numpy_xp, u, np.zeros_like(u))[0].any()


def test_a_divergence_ends_the_trajectory_and_is_counted():
    x = start(20)
    target = xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x)
    with pytest.warns(DivergenceWarning, match="100 of 100 steps diverged"):
        trace = xps.sample(target, NUTS(80.0), x, 5, seed=1)
    np.testing.assert_array_equal(trace.run_statistics.diverged, np.full(20, 5))
    np.testing.assert_array_equal(trace.draws, np.broadcast_to(x, trace.draws.shape))
    assert trace.run_statistics.evaluations["score"] == 1


def test_estimated_ratios_are_refused():
    """Every leaf's weight needs the density; a ratio of two points, or of a batch of rows, will not do."""
    for log_density in (None, QUARTIC.log_density):
        target = xps.Target(log_density, score=QUARTIC.score, acceptance=LineIntegral(2))
        with pytest.raises(CapabilityError, match="needs log densities, and LineIntegral gives their ratios only"):
            xps.sample(target, NUTS(0.3), np.zeros((2, 1)), 3, seed=1)
    with pytest.raises(CapabilityError, match="Minibatch cannot go around NUTS"):
        xps.Minibatch(NUTS(0.3), 10)
