"""Gibbs sweeps, a color at once: their matrices, colors that are not proper, paths between densities, and lattices."""

import math

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.discrete import discrete_support as exact
from tests.kernels.support import NumPy, walk
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels import greedy_coloring
from xpsample.kernels.discrete import gibbs as module
from xpsample.optimize.optimizers import SGD
from xpsample.zoo.ising import internal_energy, ising_couplings, ising_lattice, lattice_pairs

CHAINS = {
    "bits": (exact.Problem(xps.Binary(), 5, chain=True), (0, 1, 0, 1, 0)),
    "levels": (exact.Problem(xps.Categorical((0, 1, 2)), 4, chain=True), (1, 0, 1, 0)),
    "ragged": (
        exact.Problem(xps.Categorical(((0, 1), (-1.0, 0.5, 2.0), (1,), (0, 1, 2, 3))), 4, chain=True),
        (0, 1, 0, 1),
    ),
    "one-hot": (exact.Problem(xps.OneHot(3), 9, 3, chain=True), (0, 1, 0)),
    "each in turn": (exact.PROBLEMS["levels"], (3, 1, 0, 2)),
}


@pytest.mark.parametrize("chains", [200, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize(("problem", "colors"), CHAINS.values(), ids=CHAINS)
def test_a_step_is_its_matrix(problem, colors, chains):
    matrix = exact.sweep(problem, colors)
    assert exact.invariance_error(matrix, problem.log_pi) < 1e-12
    exact.assert_transitions(problem, xps.ChromaticGibbs(colors), matrix, chains)


@pytest.mark.slow
def test_colors_that_are_not_proper_would_give_another_distribution(monkeypatch):
    problem, colors = exact.PROBLEMS["bits"], (0, 1, 0, 1)
    matrix = exact.sweep(problem, colors)
    assert exact.invariance_error(matrix, problem.log_pi) > 1e-3
    monkeypatch.setattr(module, "check_colors", lambda *args: None)
    found, _ = exact.step_from_every_state(problem, xps.ChromaticGibbs(colors), exact.per_state(problem), seed=1)
    assert exact.misfit(found, matrix) > math.log(1e-9)
    assert exact.misfit(found, exact.sweep(problem, range(4))) < -100


def run(log_density, x0, colors, space=None, **options):
    target = xps.Target(log_density, space=space or xps.Binary(), **options)
    return xps.sample(target, xps.ChromaticGibbs(colors), x0, 2, seed=1)


WEAK = np.zeros((4, 8))
DEPENDENT = {
    "two that attract": lambda x: 0.3 * x[..., 2] * x[..., 6],
    "weak ones, all with all": lambda x: 1e-6 * np.sum(x, axis=-1) ** 2,
    "two whose pulls on a third one cancel": lambda x: x[..., 0] * (x[..., 2] - x[..., 4]),
    "two, where another variable is 1 only": lambda x: x[..., 2] * x[..., 6] * x[..., 1],
    "no two at once": lambda x: np.where(x[..., 2] + x[..., 6] > 1, -np.inf, 0.0),
    "no others, at a start without room": lambda x: np.where(np.sum(x, axis=-1) > 1, -np.inf, 0.0),
}


@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize("log_density", DEPENDENT.values(), ids=DEPENDENT)
def test_variables_of_one_color_that_depend_on_each_other_are_refused(log_density, chains):
    with pytest.raises(HyperparameterError, match=r"depends on others of its color, [01], so"):
        run(log_density, WEAK[:chains], [0, 1] * 4)


def test_a_pair_that_depends_is_found_among_many():
    x0 = np.ones((1, 400))
    colors = greedy_coloring(lattice_pairs((20, 20)), 400)
    colors[7], joined = colors[8], {6, 7, 8, 27, 387}
    with pytest.raises(HyperparameterError, match="depends on others") as caught:
        xps.sample(ising_lattice((20, 20), 1e-3), xps.ChromaticGibbs(colors), x0, 2, seed=1)
    assert int(str(caught.value).split()[1]) in joined


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_is_taken_for_no_dependence(dtype):
    """Log densities of 1e5, and differences that are made of them."""
    colors, field = [0, 1] * 30, np.linspace(-1e4, 1e4, 60)

    def log_density(x):
        return x @ field.astype(x.dtype) + 0.3 * np.sum(x[..., 1:] * x[..., :-1], axis=-1)

    x0 = np.random.default_rng(0).integers(0, 2, (20, 60)).astype(dtype)
    assert run(log_density, x0, colors).draws.dtype == dtype
    lattice, many = ising_lattice((60, 60), 0.44), np.ones((2, 3600), dtype=dtype)
    colors = greedy_coloring(lattice_pairs((60, 60)), 3600)
    xps.sample(lattice, xps.ChromaticGibbs(colors), many, 2, seed=1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_without_a_finite_density_is_never_drawn_and_counts_where_it_is_met(bad, monkeypatch):
    def log_density(x):
        return np.where((x[..., 0] == 1) & (x[..., 1] == 2), bad, 0.0)

    target, kernel = xps.Target(log_density, space=xps.Categorical((0, 1, 2))), xps.ChromaticGibbs([1, 0])
    x = np.repeat([[0.0, 0.0], [1.0, 0.0]], 50, axis=0)
    noise = {"value": np.tile((np.arange(50) + 0.5) / 50, (1, 2, 1)).reshape(1, 100, 1) * np.ones(2)}
    positions, (info,), _ = walk(NumPy, kernel, x, noise, target)
    assert np.all(info.diverged[50:])
    assert set(positions[0][50:, 1].tolist()) == {0, 1}
    assert not np.any((positions[0][:, 0] == 1) & (positions[0][:, 1] == 2))


@pytest.mark.parametrize("kernel", [xps.ChromaticGibbs([0, 1, 0, 1]), xps.SwendsenWang()], ids=["colors", "bonds"])
def test_wrappers_whose_targets_have_other_dependences_are_refused(kernel):
    for wrap in (lambda k: xps.SRMC(k, 0.5), lambda k: xps.SOSMC(lambda x, theta: x, k, SGD(0.1))):
        with pytest.raises(CapabilityError, match="it relies on which variables of the target depend on each other"):
            wrap(kernel)


def couplings(pairs, strength):
    """Spins that attract, whose log normalising constant is that of the states."""
    j, k = np.transpose(pairs)
    target = xps.Target(lambda x: strength * np.sum(x[..., j] * x[..., k], axis=-1), space=xps.Spins())
    return target, np.logaddexp.reduce(target.log_density(xps.Spins().states(4)))


PATHS = {
    "AIS": lambda kernel: xps.AIS(kernel, np.linspace(0, 1, 6)),
    "SMC": lambda kernel: xps.TemperedSMC(kernel, np.linspace(0, 1, 6), threshold=1.0, moves=1),
}
RING, ALONG, ACROSS = [(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1), (2, 3)], [(0, 2), (1, 3)]


@pytest.mark.parametrize("particles", [4, 40])
@pytest.mark.parametrize("bridge", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_on_a_path_between_densities(path, bridge, particles):
    """The mean weight of 4,000 particles, which is unbiased, against the sum over all states."""
    runs = 4000 // particles
    target, log_z = couplings(RING, 0.7)
    first, log_z0 = couplings(ALONG, -0.4) if bridge else (None, 4 * math.log(2))
    rng, states = np.random.default_rng(0), xps.Spins().states(4)
    weights = np.exp(first.log_density(states) - log_z0) if bridge else np.full(16, 1 / 16)
    x0 = states[rng.choice(16, (runs, particles), p=weights)]
    kernel = PATHS[path](xps.ChromaticGibbs([0, 1, 0, 1]))
    on = xps.Bridge(first, target) if bridge else target
    trace = xps.sample(on, kernel, x0, 1, burn_in=4, seed=1)
    if path == "AIS":
        means = np.mean(np.exp(trace.state.log_weight), axis=-1)
    else:
        means = np.exp(trace.state.weights.log_normalizer)
    error = np.std(means) / math.sqrt(runs)
    assert abs(np.mean(means) - math.exp(log_z - log_z0)) < 5 * error  # fails for a right kernel with chance 6e-7


def test_as_many_particles_as_variables_keep_the_colors():
    """Resampling takes every axis as long as the particles for theirs, where it is the first."""
    x0, colors = xps.Spins().states(4)[[0, 3, 9, 6]], [0, 1, 2, 0]
    kernel = PATHS["SMC"](xps.ChromaticGibbs(colors))
    state = xps.sample(couplings([(0, 1), (1, 2)], 2.0)[0], kernel, x0, 1, burn_in=4, seed=1).state
    assert state.resamplings == 5
    np.testing.assert_array_equal(state.base.colors, [colors] * 4)


@pytest.mark.parametrize("path", PATHS)
def test_colors_hold_at_both_ends_of_a_path(path):
    """At the first end alone, of a density to the power 0, any colors would hold."""
    x0, (good, _), (bad, _) = np.ones((50, 4)), couplings(RING, 0.7), couplings(ACROSS, 0.7)
    kernel = PATHS[path](xps.ChromaticGibbs([0, 1, 0, 1]))
    for on in (bad, xps.Bridge(good, bad), xps.Bridge(bad, good)):
        with pytest.raises(HyperparameterError, match="depends on others of its color"):
            xps.sample(on, kernel, x0, 1, burn_in=4, seed=1)


def test_greedy_colors_are_proper_and_few():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        pairs = np.argwhere(np.triu(rng.random((n, n)) < 0.3, 1))
        colors = greedy_coloring(pairs, n)
        assert np.all(colors[pairs[:, 0]] != colors[pairs[:, 1]])
        assert colors.max() <= np.bincount(pairs.ravel(), minlength=n).max()
        assert sorted(set(colors)) == list(range(colors.max() + 1))


def test_an_even_lattice_is_a_checkerboard():
    for shape, periodic in (((4, 6), True), ((5, 3), False), ((2, 4, 2), True)):
        colors = greedy_coloring(lattice_pairs(shape, periodic), math.prod(shape))
        np.testing.assert_array_equal(colors.reshape(shape), np.indices(shape).sum(0) % 2)


@pytest.mark.parametrize("periodic", [True, False])
def test_pairs_are_the_bonds(periodic):
    shape, rng = (3, 2, 4), np.random.default_rng(0)
    x, pairs = rng.choice([-1.0, 1.0], size=(5, 24)), lattice_pairs(shape, periodic)
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs)
    bonds = np.sum(x[:, pairs[:, 0]] * x[:, pairs[:, 1]], axis=-1)
    np.testing.assert_allclose(bonds, -24 * internal_energy(x, shape, periodic))


def sample_blocks():
    """A block of two variables that depend on each other."""
    model = xps.Model(lambda p: p.z[..., 0] * p.z[..., 1] - 0.5 * p.mu**2, z=xps.Binary(2), mu=xps.Real())
    kernel = xps.Blocks({"z": xps.ChromaticGibbs([0, 0]), "mu": xps.RWM(1.0)})
    xps.sample(model, kernel, model.start(np.zeros(0), chains=4, seed=0), 2, seed=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (lambda colors=colors: xps.ChromaticGibbs(colors), "colors must be an integer for each variable")
            for colors in ([[0, 1]], [], [0.0, 1.0], None, "ab", [True, False], 3)
        ),
        *(
            (lambda pairs=pairs: greedy_coloring(pairs, 3), "pairs must")
            for pairs in ([0, 1], [(0, 0)], [(0, 3)], [(-1, 0)], [(0.0, 1.0)], [(0, 1, 2)])
        ),
        (
            lambda: run(lambda x: x[..., 0], np.tile(np.eye(3)[0], (2, 2)), [0, 1, 2], xps.OneHot(3)),
            "there are 3 colors, and the positions have 2 variables",
        ),
        (sample_blocks, "depends on others"),
    ],
)
def test_what_are_no_colors_or_pairs_is_refused(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


CHECKERBOARD = greedy_coloring(lattice_pairs((4, 4)), 16)
ON_A_LATTICE = {
    "colors": (xps.ChromaticGibbs(CHECKERBOARD), (1.0,), 0.3, 100, 50),
    "sweep": (xps.Sweep(), (1.0, 0.7, 0.4), 0.6, 100, 100),
    "heat bath": (xps.Sweep(heat_bath=True), (1.0, 0.7, 0.4), 0.6, 100, 100),
    "clusters": (xps.SwendsenWang(), (1.0, 0.7), 0.6, 50, 50),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "betas", "strength", "draws", "burn_in"), ON_A_LATTICE.values(), ids=ON_A_LATTICE)
def test_the_energy_of_a_lattice(kernel, betas, strength, draws, burn_in):
    """The 4 x 4 lattice, whose 65,536 states are listed; 5 standard errors of 400 independent chains: 6e-7."""
    target = ising_lattice((4, 4), strength)
    states = target.space.states(16)
    log_pi = target.log_density(states, target.data)
    weights = np.exp(log_pi - log_pi.max())
    truth = weights @ internal_energy(states, (4, 4)) / weights.sum()
    x0 = np.random.default_rng(0).choice([-1.0, 1.0], size=(400, 16))
    kernel = kernel if len(betas) == 1 else xps.ParallelTempering(kernel, betas)
    trace = xps.sample(target, kernel, x0, draws, burn_in=burn_in, seed=1)
    means = internal_energy(trace.draws, (4, 4)).mean(axis=0)
    assert abs(means.mean() - truth) < 5 * means.std() / 20


FOUR = ising_couplings([0.25, 0.5, 0.15, 0.4], [0.3, -0.5, 0.0, 0.8], [[0, 1], [1, 2], [2, 3], [0, 2]])
ANNEALED = {
    "sweep": (xps.Sweep(), ising_lattice((2, 3), 0.3), 6, (0.0, 0.25, 0.5, 0.75, 1.0)),
    "clusters": (xps.SwendsenWang(), FOUR, 4, (0.0, 0.3, 0.6, 1.0)),
}


@pytest.mark.parametrize("wrap", [xps.AIS, lambda k, betas: xps.TemperedSMC(k, betas, moves=1)], ids=["AIS", "SMC"])
@pytest.mark.parametrize(("kernel", "target", "dim", "betas"), ANNEALED.values(), ids=ANNEALED)
def test_weights_of_an_annealed_run(wrap, kernel, target, dim, betas, library):
    """log Z from the mean of the weights; 5 standard errors: 6e-7."""
    exact = np.log(np.mean(np.exp(target.log_density(target.space.states(dim), target.data))))
    x0 = library.array(np.random.default_rng(0).choice([-1.0, 1.0], size=(2000, dim)))
    trace = xps.sample(target, wrap(kernel, betas), x0, 1, seed=1, burn_in=len(betas) - 2)
    state = trace.state
    found = xps.log_normalizer(state.log_weight) if hasattr(state, "log_weight") else xps.particle_log_normalizer(state)
    assert abs(found.value - exact) < 5 * found.standard_error
