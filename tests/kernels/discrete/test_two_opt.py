"""Reversals and swaps: steps by hand, exact transition matrices, optima, and rankings as parameters of a model."""

import itertools

import numpy as np
import pytest

from tests.kernels.support import noise_of, walk
from xpsample import RWM, SRMC, Blocks, Gibbs, Model, Permutations, Positive, Swap, TwoOpt, load, sample
from xpsample.core.errors import CapabilityError, HyperparameterError, PositionError
from xpsample.core.registry import namespace
from xpsample.spaces import Binary
from xpsample.targets import Target
from xpsample.zoo.tsp import tsp

CITIES = np.random.default_rng(0).random((5, 2))
TOURS = np.array(list(itertools.permutations(range(5))))
# Lopsided, so that a wrong proposal shows: a weight for every city at every place.
WEIGHTS = np.random.default_rng(1).standard_normal((5, 5))
UNEVEN = Target(lambda x: WEIGHTS[np.arange(5), x.astype(int)].sum(-1), space=Permutations())


def reversed_between(x, low, high):
    return np.concatenate([x[:low], x[low : high + 1][::-1], x[high + 1 :]])


def exchanged(x, low, high):
    x = x.copy()
    x[[low, high]] = x[[high, low]]
    return x


BOTH = pytest.mark.parametrize(
    ("kernel", "moved"), [(TwoOpt(), reversed_between), (Swap(), exchanged)], ids=["TwoOpt", "Swap"]
)


def transition_matrix(kernel, target):
    """Of all tours: the moves of all pairs of places, each accepted with its probability."""
    n, noise = 5, []
    for i, k in itertools.product(range(n), range(n - 1)):
        noise.append(((i + 0.5) / n, (k + 0.5) / (n - 1)))
    start = np.repeat(TOURS[:, None], len(noise), axis=1).astype(float)
    bound = target.prepare(start, kernel.requires)
    first, second = np.broadcast_to(np.array(noise).T[:, None, :], (2, *start.shape[:2]))
    state, info = kernel.step(
        bound, kernel.init(bound, start), {"first": first, "second": second, "accept": np.full(first.shape, 1e-300)}
    )
    place = {tuple(row): k for k, row in enumerate(TOURS)}
    matrix = np.zeros((len(TOURS), len(TOURS)))
    for k, (ends, shares) in enumerate(zip(state.point.x, info.acceptance_probability, strict=True)):
        for end, share in zip(ends, shares, strict=True):
            matrix[k, place[tuple(end.astype(int))]] += share / len(noise)
            matrix[k, k] += (1 - share) / len(noise)
    return matrix


@pytest.mark.parametrize("target", [tsp(CITIES, 0.3), UNEVEN], ids=["tours", "uneven"])
@pytest.mark.parametrize("kernel", [TwoOpt(), Swap()], ids=str)
def test_detailed_balance_on_all_permutations(kernel, target):
    """One uniform a cell of the noise: the matrix is exact."""
    args = () if target.data is None else (target.data,)
    p = np.exp(target.log_density(TOURS.astype(float), *args))
    p /= p.sum()
    matrix = transition_matrix(kernel, target)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
    flow = p[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, atol=1e-15)
    assert np.all(np.linalg.matrix_power(matrix, 40) > 0)  # every permutation is reached


def test_the_check_sees_a_wrong_temperature():
    target = tsp(CITIES, 0.33)
    p = np.exp(target.log_density(TOURS.astype(float), target.data))
    flow = (p / p.sum())[:, None] * transition_matrix(TwoOpt(), tsp(CITIES, 0.3))
    assert np.max(np.abs(flow - flow.T)) > 1e-6


@BOTH
def test_a_step_by_hand(library, kernel, moved):
    x = np.array([np.random.default_rng(k).permutation(5) for k in range(40)])
    noise = noise_of(kernel, x.astype(float))
    positions, infos, state = walk(library, kernel, x, noise, tsp(CITIES, 0.2))
    assert str(state.point.x.dtype).split(".")[-1] == "int64"
    expected, density = [], tsp(CITIES, 0.2)
    for k, tour in enumerate(x.copy()):
        first = int(noise["first"][0, k] * 5)
        second = (first + 1 + int(noise["second"][0, k] * 4)) % 5
        low, high = sorted((first, second))
        other = moved(tour, low, high)
        gain = density.log_density(other, density.data) - density.log_density(tour, density.data)
        expected.append(other if np.log(noise["accept"][0, k]) < gain else tour)
    np.testing.assert_array_equal(positions[0], expected)
    assert 0 < np.mean(library.host(infos[0].moved)) < 1 and infos[0].evaluations.log_density == 1


# ---- a ranking as a parameter ----------------------------------------------------------------------------------------

FOUR = np.array(list(itertools.permutations(range(4))), dtype=float)
JUDGES = np.array([[0, 1, 2, 3], [1, 0, 2, 3], [0, 2, 1, 3], [3, 0, 1, 2], [0, 1, 3, 2]], dtype=float)
FOOTRULES = np.abs(FOUR - FOUR[0]).sum(axis=-1)


def mallows_density(p, data):
    """Ranks by judges: exp(-scale * distance) / Z(scale), with an exponential prior of the scale."""
    xp = namespace(p.scale)
    distance = xp.sum(xp.abs(data["judges"] - p.ranking[..., None, :]), axis=(-2, -1))
    log_z = xp.log(xp.sum(xp.exp(-p.scale[..., None] * data["footrules"]), axis=-1))
    return -p.scale * (distance + 1) - data["judges"].shape[0] * log_z


def mallows(**spaces):
    data = {"judges": JUDGES, "footrules": FOOTRULES}
    return Model(mallows_density, data=data, **({"ranking": Permutations(4), "scale": Positive()} | spaces))


def exact():
    """Probabilities of all rankings, and the mean of the scale, on a grid of its logarithm."""
    scale = np.exp(np.linspace(-10, 4, 5001))
    distance = np.abs(JUDGES - FOUR[:, None]).sum(axis=(-2, -1))
    log_z = np.log(np.exp(-scale[:, None] * FOOTRULES).sum(axis=-1))
    log = -scale * (distance[:, None] + 1) - 5 * log_z + np.log(scale)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    return weights.sum(axis=1), (weights.sum(axis=0) * scale).sum()


@pytest.mark.parametrize("kernel", [Swap(), TwoOpt()], ids=str)
def test_the_posterior_of_a_ranking_and_its_scale(library, kernel):
    """Against enumeration: within 5 standard errors from independent chains, 24 + 1 values, error below 1e-4."""
    model = mallows()
    x0 = model.start(like=library.array(np.zeros(0)), chains=100, seed=0)
    trace = sample(model, Blocks({"ranking": kernel, "scale": RWM(0.8)}), x0, 600, seed=1, burn_in=100)
    ranking, scale = library.host(trace["ranking"]), library.host(trace["scale"])
    assert ranking.shape == (600, 100, 4) and np.all(np.sort(ranking, axis=-1) == np.arange(4))
    probabilities, mean = exact()
    shares = np.all(ranking[..., None, :] == FOUR, axis=-1).mean(axis=0)  # (chains, rankings)
    for found, expected in ((shares, probabilities), (scale.mean(axis=0), mean)):
        error = found.std(axis=0) / 10
        assert np.all(np.abs(found.mean(axis=0) - expected) < 5 * error + 1e-3)


def test_a_ranking_is_saved_and_loaded(tmp_path):
    model, kernel = mallows(), Blocks({"ranking": Swap(), "scale": RWM(0.8)})
    x0 = model.start(like=np.zeros(0), chains=4, seed=0)
    whole = sample(model, kernel, x0, 30, seed=1)
    for steps in (20, 30):
        resumed = sample(model, kernel, x0, steps, seed=1, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed["ranking"], whole["ranking"])
    resumed.save(tmp_path / "trace.npz")
    np.testing.assert_array_equal(load(tmp_path / "trace.npz")["ranking"], whole["ranking"])
    assert "ranking[3]" in str(whole.summary())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: sample(Target(lambda x: x.sum(-1), space=Binary()), TwoOpt(), np.zeros((2, 5)), 1, seed=1),
            CapabilityError,
            r"TwoOpt moves permutations, but the space is Binary\(shape=None\)",
        ),
        (lambda: mallows(ranking=Permutations()), HyperparameterError, r"such as Permutations\(5\)"),
        (lambda: Permutations(0), HyperparameterError, "n must be"),
        (lambda: sample(mallows(), Swap(), X0, 2, seed=1), CapabilityError, "use Blocks for the param"),
        (
            lambda: sample(mallows(), Blocks({"ranking": Gibbs(), "scale": RWM(0.8)}), X0, 2, seed=1),
            CapabilityError,
            r"Gibbs cannot move ranking, which is Permutations\(n=4\). Use a kernel such as Swap\(\)",
        ),
        (
            lambda: sample(mallows(), Blocks({"ranking": RWM(0.8), "scale": RWM(0.8)}), X0, 2, seed=1),
            CapabilityError,
            "RWM moves real numbers",
        ),
        (
            lambda: sample(mallows(), Blocks({"ranking": Swap(), "scale": Swap()}), X0, 2, seed=1),
            CapabilityError,
            r"Swap moves permutations, but the space is Real\(\)",
        ),
        (
            lambda: sample(mallows(), SRMC(Blocks({"ranking": Swap(), "scale": RWM(0.8)}), 0.1), X0, 2, seed=1),
            CapabilityError,
            "SRMC",
        ),
        (
            lambda: sample(mallows(), Blocks({"ranking": Swap(), "scale": RWM(0.8)}), X0 + 1, 2, seed=1),
            PositionError,
            "each of 0 .. 3 once",
        ),
        (
            lambda: sample(Target(lambda x: x[..., 0], space=Permutations(5)), Swap(), FOUR, 2, seed=1),
            PositionError,
            r"Permutations\(n=5\) have shape \(\*chains, 5\); got \(24, 4\)",
        ),
    ],
)
def test_what_cannot_be_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


X0 = np.array([[0.0, 1, 2, 3, 0.5]] * 4)
