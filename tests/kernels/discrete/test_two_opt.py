"""2-opt Metropolis: the step by hand, its exact transition matrix, and the optimum by Held and Karp's recursion."""

import itertools

import numpy as np
import pytest

from tests.kernels.support import noise_of, walk
from xpsample import sample
from xpsample.core.errors import CapabilityError
from xpsample.kernels.discrete.two_opt import TwoOpt
from xpsample.spaces import Binary
from xpsample.spaces.discrete import Permutations
from xpsample.targets import Target
from xpsample.zoo.tsp import tsp

CITIES = np.random.default_rng(0).random((5, 2))
TOURS = np.array(list(itertools.permutations(range(5))))
# Lopsided, so that a wrong proposal shows: a weight for every city at every place.
WEIGHTS = np.random.default_rng(1).standard_normal((5, 5))
UNEVEN = Target(lambda x: WEIGHTS[np.arange(5), x.astype(int)].sum(-1), space=Permutations())


def transition_matrix(target):
    """Of all tours: the reversals of all pairs of places, each accepted with its probability."""
    n, noise = 5, []
    for i, k in itertools.product(range(n), range(n - 1)):
        noise.append(((i + 0.5) / n, (k + 0.5) / (n - 1)))
    start = np.repeat(TOURS[:, None], len(noise), axis=1).astype(float)
    bound = target.prepare(start, TwoOpt().requires)
    first, second = np.broadcast_to(np.array(noise).T[:, None, :], (2, *start.shape[:2]))
    state, info = TwoOpt().step(
        bound, TwoOpt().init(bound, start), {"first": first, "second": second, "accept": np.full(first.shape, 1e-300)}
    )
    place = {tuple(row): k for k, row in enumerate(TOURS)}
    matrix = np.zeros((len(TOURS), len(TOURS)))
    for k, (ends, shares) in enumerate(zip(state.point.x, info.acceptance_probability, strict=True)):
        for end, share in zip(ends, shares, strict=True):
            matrix[k, place[tuple(end.astype(int))]] += share / len(noise)
            matrix[k, k] += (1 - share) / len(noise)
    return matrix


@pytest.mark.parametrize("target", [tsp(CITIES, 0.3), UNEVEN], ids=["tours", "uneven"])
def test_detailed_balance_on_all_permutations(target):
    """One uniform a cell of the noise: the matrix is exact."""
    args = () if target.data is None else (target.data,)
    p = np.exp(target.log_density(TOURS.astype(float), *args))
    p /= p.sum()
    matrix = transition_matrix(target)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
    flow = p[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, atol=1e-15)
    assert np.all(np.linalg.matrix_power(matrix, 40) > 0)  # every permutation is reached


def test_the_check_sees_a_wrong_temperature():
    target = tsp(CITIES, 0.33)
    p = np.exp(target.log_density(TOURS.astype(float), target.data))
    flow = (p / p.sum())[:, None] * transition_matrix(tsp(CITIES, 0.3))
    assert np.max(np.abs(flow - flow.T)) > 1e-6


def test_a_step_by_hand(library):
    x = np.array([np.random.default_rng(k).permutation(5) for k in range(40)])
    kernel = TwoOpt()
    noise = noise_of(kernel, x.astype(float))
    positions, infos, state = walk(library, kernel, x, noise, tsp(CITIES, 0.2))
    assert str(state.point.x.dtype).split(".")[-1] == "int64"
    expected, density = [], tsp(CITIES, 0.2)
    for k, tour in enumerate(x.copy()):
        first = int(noise["first"][0, k] * 5)
        second = (first + 1 + int(noise["second"][0, k] * 4)) % 5
        low, high = sorted((first, second))
        other = np.concatenate([tour[:low], tour[low : high + 1][::-1], tour[high + 1 :]])
        gain = density.log_density(other, density.data) - density.log_density(tour, density.data)
        expected.append(other if np.log(noise["accept"][0, k]) < gain else tour)
    np.testing.assert_array_equal(positions[0], expected)
    assert 0 < np.mean(library.host(infos[0].moved)) < 1 and infos[0].evaluations.log_density == 1


TEN = np.random.default_rng(2).random((10, 2)) * 60


def held_karp(cities):
    n = len(cities)
    d = np.linalg.norm(cities[:, None] - cities[None], axis=-1)
    best = {(1 << k, k): d[0, k] for k in range(1, n)}
    for size in range(2, n):
        for subset in itertools.combinations(range(1, n), size):
            bits = sum(1 << k for k in subset)
            for k in subset:
                rest = bits & ~(1 << k)
                best[bits, k] = min(best[rest, m] + d[m, k] for m in subset if m != k)
    return min(best[(1 << n) - 2, k] + d[k, 0] for k in range(1, n))


def test_the_optimum_is_found():
    optimum = held_karp(TEN)
    x0 = np.array([np.random.default_rng(k).permutation(10) for k in range(20)])
    trace = sample(tsp(TEN, 4.0), TwoOpt(), x0, 1500, seed=1, progress=False)
    lengths = -4.0 * trace.statistics["log_density"]
    assert lengths.min() == pytest.approx(optimum, abs=1e-6)
    assert np.all(np.sort(trace.draws, axis=-1) == np.arange(10))


def test_other_spaces_are_refused():
    target = Target(lambda x: x.sum(-1), space=Binary())
    with pytest.raises(CapabilityError, match=r"space is Binary\(\)"):
        sample(target, TwoOpt(), np.zeros((2, 5)), 1, seed=1)
