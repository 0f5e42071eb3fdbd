"""HiSS: quick runs, and their parts against enumerations, integrals and the definitions."""

import itertools
import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp
from scipy.stats import chi2, logistic, norm

import xpsample as xps
from tests.zoo.enumeration import DENSITY, SCORE, check_between, check_states, slopes
from xpsample import sample
from xpsample.experiments.data import load_dataset
from xpsample.experiments.hiss.bernoulli import random_bits
from xpsample.experiments.hiss.binary_network import binary_network, dimension, fit, predict
from xpsample.experiments.hiss.bnn import ENERGIES, PROBLEMS
from xpsample.experiments.hiss.bridging import DEVIATION, STRIP, between, intermediate_mass, tempered
from xpsample.experiments.hiss.criticality import exact_energy, log_partition
from xpsample.experiments.hiss.criticality import start as lattice_start
from xpsample.experiments.hiss.exact_tours import draw_tours
from xpsample.experiments.hiss.ising import model
from xpsample.experiments.hiss.joint_bernoulli import LOG_OF_ZERO, isolated_modes, joint_bernoulli
from xpsample.experiments.hiss.one_hot_tours import tsp_one_hot
from xpsample.experiments.hiss.samplers import IID, Settings, best_sampler, counts_at, measures, samplers
from xpsample.experiments.hiss.tsp import lengths_of, random_tours
from xpsample.experiments.hiss.tsp import samplers as tour_samplers
from xpsample.experiments.hiss.uniform import UniformProposals
from xpsample.hiss.kernel import HiSS
from xpsample.hiss.smoothed import Gaussian, Logistic
from xpsample.kernels import DMALA
from xpsample.metrics.discrete import exact_probabilities, prominent_states
from xpsample.targets import Capability, Target
from xpsample.zoo.ising import internal_energy
from xpsample.zoo.tsp import tsp

# ---- tables of few states --------------------------------------------------------------------------------------------

SAMPLERS = ["GWG", "DMALA", "ACS", "ACS, tuned", "PT+DMALA, steps", "PT+DMALA, draws", "HiSS"]
SAMPLERS += ["HiSS-GK", "HiSS-GK, 0.9", "HiSS, no MH", "HiSS, L = 0", "single flip", "Gibbs", "uniform proposals", IID]


@pytest.mark.parametrize("name", ["hiss-bernoulli", "hiss-ising"])
def test_table(quick, name):
    rows = {row["sampler"]: row for row in quick(name)[0]}
    assert list(rows) == SAMPLERS
    for row in rows.values():
        assert row["backend"] == "numpy-cpu-float64"
        assert 0 <= row["tvd"] <= 1 and 0 <= row["coverage"] <= 1
        # The mean estimate of all chains is nearer than the mean chain: total variation is convex.
        assert row["pooled"] <= row["tvd"] + 1e-12
    # The modes are isolated: HiSS finds them, DMALA does not, and without MH the target is another.
    assert rows["HiSS"]["tvd"] + 5 * rows["HiSS"]["tvd_se"] < rows["DMALA"]["tvd"]
    assert rows["HiSS"]["pooled"] + 0.1 < rows["HiSS, no MH"]["pooled"]
    assert rows[IID]["tvd"] < rows["HiSS"]["tvd"]
    # Evaluations as the paper counts them: a denoising proposal for every two refinements.
    inner = rows["DMALA"]["score"]
    assert rows["GWG"]["nfe"] == rows["DMALA"]["nfe"] == rows["ACS"]["nfe"] == 4 * inner
    assert rows["PT+DMALA, steps"]["nfe"] == rows["PT+DMALA, draws"]["nfe"] == 5 * 4 * inner
    assert rows["HiSS"]["nfe"] == 4 * inner + 4 * inner / 2
    assert rows["HiSS, L = 0"]["score"] == rows["single flip"]["score"] == rows["uniform proposals"]["score"] == 0


def test_random_bits():
    bits = random_bits(0, 100, 4)
    assert bits.shape == (100, 4) and abs(np.mean(bits) - 0.5) < 5 * 0.5 / 20


def test_the_ising_model_has_32_prominent_states():
    exact = exact_probabilities(model(), 9)
    among = prominent_states(exact)
    assert np.sum(among) == 32 and np.sum(exact[among]) > 0.999


def test_the_least_leaves_independent_draws_out():
    rows = [{"backend": "a", "sampler": name, "tvd": tvd} for name, tvd in ((IID, 0.1), ("HiSS", 0.3), ("DMALA", 0.2))]
    rows.append({"backend": "b", "sampler": "Gibbs", "tvd": 0.0})  # the conclusion is about the first backend
    line = best_sampler(rows, "tvd", "TVD")
    assert line == f"least TVD of a sampler: DMALA with 0.200; HiSS 0.300, {IID} 0.100"


def test_all_samplers_make_the_same_inner_steps():
    settings = Settings(step_size=0.2, sweeps=5, refinements=2, scale=4.0, every=4)
    for kernel, thinning in samplers(joint_bernoulli(isolated_modes()), settings).values():
        assert thinning * (kernel.sweeps * 2 if isinstance(kernel, HiSS) else 1) == 10
    assert all(40 % sampler.inner == 0 for sampler in tour_samplers(400).values())


def test_counts():
    states = np.random.default_rng(0).integers(0, 3, (20, 2, 4))
    counts = counts_at(states, [5, 20], 3)
    for i, mark in enumerate((5, 20)):
        for chain in np.ndindex(2, 4):
            np.testing.assert_array_equal(counts[i][chain], np.bincount(states[(slice(mark), *chain)], minlength=3))


def test_measures_of_two_chains_by_hand():
    exact, counts = np.array([0.5, 0.25, 0.25]), np.array([[4, 0, 0], [0, 2, 2]])
    measured = measures(counts, exact)
    np.testing.assert_allclose(measured["tvd"], [0.5, 0.5])
    np.testing.assert_allclose(measured["logmae"], np.log([1 / 3, 1 / 3]))
    np.testing.assert_allclose(measured["kl"], [np.log(2), np.log(2)])
    np.testing.assert_allclose(measured["coverage"], [1 / 3, 2 / 3])
    np.testing.assert_allclose(measured["pooled"], 0, atol=1e-15)


# ---- uniform proposals -----------------------------------------------------------------------------------------------

CHAINS = 20_000


@pytest.mark.parametrize("space", [xps.Binary(), xps.Spins(), xps.OneHot(3)], ids=repr)
def test_proposals_are_uniform_over_all_states(space):
    """One step on a flat density: each state has its share, within 5 standard errors."""
    flat, dim = xps.Target(lambda x: 0.0 * x[..., 0], space=space), 6
    states = space.states(dim)
    x0 = np.broadcast_to(states[0], (CHAINS, dim)).astype(np.float64)
    drawn = xps.sample(flat, UniformProposals(), x0, 1, seed=1, progress=False).draws[0]
    share, p = np.bincount(space.number(numpy_xp, drawn).astype(int), minlength=len(states)) / CHAINS, 1 / len(states)
    np.testing.assert_array_less(np.abs(share - p), 5 * np.sqrt(p * (1 - p) / CHAINS))


def test_it_finds_isolated_modes():
    target = joint_bernoulli(isolated_modes())
    x0 = np.random.default_rng(0).integers(0, 2, (CHAINS, 4)).astype(np.float64)
    drawn = xps.sample(target, UniformProposals(), x0, 1, burn_in=200, seed=1, progress=False).draws[0]
    share = np.bincount(target.space.number(numpy_xp, drawn).astype(int), minlength=16) / CHAINS
    exact = exact_probabilities(target, 4)
    np.testing.assert_array_less(np.abs(share - exact), 5 * np.sqrt(exact * (1 - exact) / CHAINS) + 1e-4)


# ---- joint Bernoulli -------------------------------------------------------------------------------------------------

TABLE = np.random.default_rng(0).random((2, 2, 2))
TABLE /= TABLE.sum()
BETWEEN_BITS = np.random.default_rng(1).random((4, 3))


def energy(x, table):
    """Section 6.1 of the HiSS paper, term by term."""
    return sum(
        np.prod([x[n] ** a[n] * (1 - x[n]) ** (1 - a[n]) for n in range(len(x))]) * np.log(table[a])
        for a in itertools.product((0, 1), repeat=len(x))
    )


def test_joint_bernoulli_on_every_state(typed_library):
    check_states(joint_bernoulli(3 * TABLE), 3, lambda x: np.log(TABLE[tuple(x.astype(int))]), typed_library)


def test_between_the_states_it_is_the_papers_energy(library):
    target = joint_bernoulli(TABLE)
    expected = [energy(x, TABLE) for x in BETWEEN_BITS]
    np.testing.assert_allclose(target.log_density(BETWEEN_BITS, target.data), expected, rtol=1e-12)
    check_between(target, BETWEEN_BITS, library)


def test_the_papers_table():
    table = isolated_modes()
    assert table.shape == (2, 2, 2, 2) and np.isclose(table.sum(), 1) and np.sum(table > 1e-3) == 3
    np.testing.assert_allclose(exact_probabilities(joint_bernoulli(table), 4), table.ravel(), rtol=1e-12)
    assert table.ravel()[0b1110] / table.ravel()[0b0000] == pytest.approx(0.294102 / 0.588204)


def test_impossible_states(library):
    table = TABLE.copy()
    table[1, 0, 1] = 0.0
    target, states = joint_bernoulli(table), library.array(np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    point = target.prepare(states, DENSITY | Capability.SCORE | Capability.DIFFERENCES).evaluate(states)
    differences, score = library.host(point.differences)[..., 0], library.host(point.score)
    assert differences[0, 0] == -np.inf and np.all(np.isfinite(differences[0, 1:])) and np.all(np.isfinite(score))
    here = np.log(table[0, 0, 1] / table.sum())
    np.testing.assert_allclose(score[0, 0], LOG_OF_ZERO - here, rtol=1e-12)
    np.testing.assert_allclose(differences[0, 1], np.log(table[0, 1, 1]) - np.log(table[0, 0, 1]), rtol=1e-12)
    assert exact_probabilities(target, 3)[0b101] == 0.0


# ---- binary networks -------------------------------------------------------------------------------------------------

SHAPES = {
    "breast-cancer": (455, 114, 30),
    "compas": (4937, 1235, 13),
    "hiv": (1300, 325, 160),
    "blog": (4498, 1384, 280),
}


NETWORK_SAMPLERS = "GWG, DMALA, ACS, PT+DMALA, HiSS, single flip, uniform proposals, random networks"


def test_binary_networks(quick):
    rows, _ = quick("hiss-bnn")
    both = [{row["sampler"]: row for row in rows if row["energy"] == energy} for energy in ("code", "printed")]
    rows, steeper = both
    assert sum(map(len, both)) == 16
    assert ", ".join(rows) == ", ".join(steeper) == NETWORK_SAMPLERS
    for row in rows.values():
        assert row["rmse"] ** 2 <= -row["log_likelihood"] + 1e-6  # of a mean over networks
        assert 0.1 < row["rmse"] < 1.0
    assert rows["single flip"]["changed"] < 0.02  # 50 flips of 3,201 weights
    assert rows["DMALA"]["changed"] > rows["GWG"]["changed"]
    # 4.55 times steeper: another chain from the same networks.
    assert steeper["DMALA"]["changed"] != rows["DMALA"]["changed"]
    same = [{key: energy["random networks"][key] for key in ("rmse", "train_rmse")} for energy in both]
    assert same[0] == same[1]


@pytest.mark.parametrize("name", PROBLEMS)
def test_data_have_the_shapes_and_ranges_of_the_paper(data_folder, name):
    split, (known, tested, features) = PROBLEMS[name].load(), SHAPES[name]
    assert (split.train_x.shape, split.test_x.shape) == ((known, features), (tested, features))
    for array in split:
        assert array.dtype == np.float64 and array.min() >= 0.0 and array.max() <= 1.0
    assert len(split.train_y) == len(split.train_x) and len(split.test_y) == len(split.test_x)
    if name == "breast-cancer":  # 212 of 569 tumors are malignant
        assert np.sum(split.train_y) + np.sum(split.test_y) == 212


def test_the_papers_figures_on_hiv_are_those_of_a_constant(data_folder):
    """Its RMSE on the training rows, 0.7746 in Table 5, is the mean squared error of networks that say 1 throughout."""
    split = PROBLEMS["hiv"].load()
    assert -np.mean(split.test_y**2) == pytest.approx(-0.2554, abs=5e-5)  # HiSS: -0.2551
    assert -np.mean((split.test_y - 1.0) ** 2) == pytest.approx(-0.7446, abs=5e-5)  # DMALA, ACS, PT
    assert np.mean((1.0 - split.train_y) ** 2) == pytest.approx(0.7746, abs=2e-3)


RNG = np.random.default_rng(0)
INPUTS, OUTPUTS, HIDDEN = RNG.standard_normal((7, 2)), RNG.random(7), 2
WEIGHTS = 9


def output(x, row, squashed):
    """One network, one row, unit by unit."""
    total = x[8]
    for j in range(HIDDEN):
        total += x[6 + j] * math.tanh(row[0] * x[j] + row[1] * x[2 + j] + x[4 + j])
    return 1 / (1 + math.exp(-total)) if squashed else total


@pytest.mark.parametrize("squashed", [True, False])
def test_binary_networks_on_every_state(squashed, typed_library):
    def direct(x):
        return -3.0 * np.mean([(output(x, row, squashed) - y) ** 2 for row, y in zip(INPUTS, OUTPUTS, strict=True)])

    target = binary_network(INPUTS, OUTPUTS, HIDDEN, 3.0, squashed)
    check_states(target, WEIGHTS, direct, typed_library)
    check_between(target, np.random.default_rng(3).standard_normal((4, WEIGHTS)), typed_library)


def test_rows_with_equal_inputs_are_computed_once():
    """COMPAS has 2,169 different inputs in 4,937 rows. The density is that of all rows, outputs equal or not."""
    x, inputs = np.random.default_rng(2).choice([-1.0, 1.0], size=(5, WEIGHTS)), INPUTS[[0, 1, 0, 2, 1, 0]]
    outputs = np.array([0.0, 1.0, 1.0, 0.5, 1.0, 0.0])
    target = binary_network(inputs, outputs, HIDDEN, 6.0)
    assert target.data["inputs"].shape == (3, 2)
    errors = np.array([[output(n, row, True) for row in inputs] for n in x]) - outputs
    values = target.log_density(x, target.data)
    np.testing.assert_allclose(values, -np.sum(errors**2, axis=-1), rtol=1e-12)


def test_predictions(library):
    x = np.random.default_rng(1).choice([-1.0, 1.0], size=(2, 3, WEIGHTS))
    expected = [[[output(n, row, True) for row in INPUTS] for n in networks] for networks in x]
    predictions = predict(library.array(x), library.array(INPUTS), HIDDEN)
    np.testing.assert_allclose(library.host(predictions), expected, rtol=1e-12)
    measured = fit(predictions, library.array(OUTPUTS))
    rmse = np.sqrt(np.mean((np.array(expected) - OUTPUTS) ** 2, axis=-1))
    np.testing.assert_allclose(library.host(measured.rmse), rmse, rtol=1e-12)
    np.testing.assert_allclose(library.host(measured.log_likelihood), -(rmse**2), rtol=1e-12)


def test_the_papers_dimensions_and_scales():
    """Appendix D.5; Section 6.4 prints the sum of squared errors, the public code has 100 times their mean."""
    assert [dimension(features) for features in (30, 13, 160, 280)] == [3201, 1501, 16201, 28201]
    assert (ENERGIES["code"](455), ENERGIES["printed"](455)) == (100.0, 455.0)


# ---- tours -----------------------------------------------------------------------------------------------------------


def test_tours(quick):
    rows, _ = quick("hiss-tsp")
    rows = {row["sampler"]: row for row in rows}
    local, free = "GWG, DMALA, ACS, PT+DMALA, HiSS, single flip", "uniform proposals, 2-opt"
    assert ", ".join(rows) == f"{local}, {free}, independent draws, uniform tours"
    # A change of one place leaves a city out, so these two cannot leave the start.
    for name in ("GWG", "single flip"):
        assert (rows[name]["moved"], rows[name]["unique"]) == (0.0, 3)
    two_opt = rows["2-opt"]
    assert two_opt["moved"] > 0.1 and two_opt["unique"] > 3
    assert 191.85 - 1e-6 < two_opt["best"] < two_opt["final"] + 1e-9
    assert rows["independent draws"]["best"] < 191.86 and 350 < rows["uniform tours"]["cost"] < 440
    assert all(row["best"] <= row["cost"] for row in rows.values())


def test_other_cities_have_no_figures_of_the_paper(rows_of, data_folder):
    rows, text = rows_of("hiss-tsp", "--cities", "eil10", "--samples", "2")
    assert "eil10: 3 chains" in text and all(row["paper"] == "" for row in rows)


def test_lengths_are_of_closed_tours(data_folder):
    data = np.load(data_folder / "tsp_eil.npz", allow_pickle=False)
    length = lengths_of(data["eil14_opt_tour"].astype(int), data["eil14"].astype(float))
    assert length == pytest.approx(float(data["eil14_opt_length"]), rel=1e-12)


def test_refinements_of_fig_17_change_nothing(data_folder):
    """A change costs 1 / alpha = 10,000 in the exponent. So 4,000 of them change no draw, and they are left out."""
    cities = load_dataset("tsp_eil")["eil14"].astype(np.float64)
    x0 = np.eye(14)[random_tours(0, 50, 14)].reshape(50, 196)
    target = tsp_one_hot(cities, relaxation="coordinates", standardized=True)
    with_them, without = (
        sample(target, HiSS(DMALA(1e-4), np.full(50, 0.3), 2, count), x0, 10, seed=1, progress=False)
        for count in (4, 0)
    )
    np.testing.assert_array_equal(with_them.draws, without.draws)


CITIES = np.random.default_rng(0).random((5, 2)) * 10
ORDERS = np.array(list(itertools.permutations(range(5))))


def one_hot(orders):
    return (orders[..., None] == np.arange(5)).astype(float).reshape(*orders.shape[:-1], -1)


def test_every_tour(typed_library):
    x = typed_library.array(one_hot(ORDERS))
    found = tsp_one_hot(CITIES, 2.0).prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density
    lengths = np.sum(np.linalg.norm(CITIES[ORDERS] - CITIES[np.roll(ORDERS, -1, axis=1)], axis=-1), axis=1)
    rtol = 1e-5 if typed_library.dtype == "float32" else 1e-12
    np.testing.assert_allclose(typed_library.host(found), lengths / -2, rtol=rtol)


def test_a_missing_city_is_impossible(library):
    x = library.array(one_hot(np.array([[0, 1, 2, 3, 4], [0, 1, 2, 3, 3]])))
    target = tsp_one_hot(CITIES)
    values = library.host(target.prepare(x[:1, ...], SCORE).evaluate(x).log_density)
    assert np.isfinite(values[0]) and values[1] == -np.inf


def test_the_score_of_lengths_tells_every_change_of_one_row():
    """With the rows before and after as they are, to write city c at place k costs score[k, c]."""
    target, order = tsp_one_hot(CITIES, 2.0), ORDERS[37]
    score = target.score(one_hot(order), target.data).reshape(5, 5)
    for k, c in itertools.product(range(5), range(5)):
        before, after = order[k - 1], order[(k + 1) % 5]
        legs = np.hypot(*(CITIES[before] - CITIES[c])) + np.hypot(*(CITIES[c] - CITIES[after]))
        assert score[k, c] == pytest.approx(-legs / 2)


def test_the_score_of_coordinates_is_the_gradient_of_the_length():
    target, x = tsp_one_hot(CITIES, 2.0, "coordinates"), one_hot(ORDERS[[0, 50]])

    def through(x):
        points = x.reshape(*x.shape[:-1], 5, 5) @ CITIES
        return -np.sum(np.linalg.norm(points - np.roll(points, -1, axis=-2), axis=-1), axis=-1) / 2

    np.testing.assert_allclose(target.score(x, target.data), slopes(Target(through), x), rtol=1e-5, atol=1e-7)
    twice = one_hot(np.array([0, 0, 1, 2, 3]))
    assert np.all(np.isfinite(target.score(twice, target.data)))


@pytest.mark.parametrize("relaxation", ["lengths", "coordinates"])
def test_standardised_scores(relaxation, library):
    x = library.array(one_hot(ORDERS[:4]))
    bound = (tsp_one_hot(CITIES, 2.0, relaxation, scaled).prepare(x, SCORE) for scaled in (False, True))
    plain, scaled = (library.host(target.evaluate(x).score) for target in bound)
    np.testing.assert_allclose(np.std(scaled, axis=-1), 1, rtol=1e-12)
    ratio = plain / scaled
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape), rtol=1e-9)


def test_hvp_of_lengths():
    target, x = tsp_one_hot(CITIES, 2.0), np.random.default_rng(1).random((2, 25))
    v, data = np.random.default_rng(2).random((2, 25)), target.data
    curved = target.score(x + v, data) - target.score(x, data)  # the score is linear
    np.testing.assert_allclose(target.hvp(x, v, data), curved, rtol=1e-10)
    assert tsp_one_hot(CITIES, standardized=True).hvp is None


def test_exact_draws_have_the_law_of_all_orders():
    """5 cities, all 120 orders; a chi-squared statistic of 119 degrees of freedom, false alarm 1e-4."""
    orders = np.array(list(itertools.permutations(range(5))))
    length = np.sum(np.linalg.norm(CITIES[orders] - CITIES[np.roll(orders, -1, axis=1)], axis=-1), axis=1)
    tours, log_normalizer = draw_tours(CITIES, 100_000, 2.0, seed=1)
    np.testing.assert_allclose(log_normalizer, np.log(np.sum(np.exp(-length / 2.0))), rtol=1e-12)
    expected = 100_000 * np.exp(-length / 2.0 - log_normalizer)
    key = 5 ** np.arange(5)
    found = np.sum((tours @ key)[:, None] == (orders @ key)[None, :], axis=0)
    assert found.sum() == 100_000
    assert np.sum((found - expected) ** 2 / expected) < chi2.ppf(1 - 1e-4, 119)
    cold, _ = draw_tours(CITIES, 10, 1e-3)
    np.testing.assert_allclose(
        tsp(CITIES).log_density(cold, np.linalg.norm(CITIES[:, None] - CITIES, axis=-1).ravel()), -np.min(length)
    )


# ---- the critical lattice, and bridges -------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.2, 0.4407, 0.7])
def test_kaufman_is_the_sum_over_states(k):
    spins = np.array(list(itertools.product((-1.0, 1.0), repeat=12)))
    energies = 12 * internal_energy(spins, (3, 4))
    weights = np.exp(-k * energies)
    np.testing.assert_allclose(log_partition(k, 3, 4), np.log(np.sum(weights)), rtol=1e-10)
    np.testing.assert_allclose(exact_energy(k, 3, 4), np.sum(weights * energies) / np.sum(weights) / 12, rtol=1e-6)


def test_start_is_half_cold():
    energy = internal_energy(lattice_start(0), (24, 24))
    np.testing.assert_array_equal(energy[:4], -2.0)
    assert np.all(np.abs(energy[4:]) < 5 * np.sqrt(2 / 576))


MU = np.array([0.0, 1.0, 2.0, 5.0])


@pytest.mark.parametrize(("smoothing", "scale", "known"), [(Logistic(), 0.6, logistic), (Gaussian(), 1.3, norm)])
def test_the_mass_between_two_modes_is_a_difference_of_distribution_functions(smoothing, scale, known):
    expected = known.cdf((MU + STRIP) / scale) - known.cdf((MU - STRIP) / scale)
    np.testing.assert_allclose(intermediate_mass(smoothing, scale, MU), expected, rtol=1e-9)


def test_far_modes_have_more_between_them_under_logistic_noise_of_the_same_variance():
    by_logistic, by_gaussian = intermediate_mass(Logistic(), 1 / DEVIATION, MU), intermediate_mass(Gaussian(), 1.0, MU)
    assert list(by_logistic > by_gaussian) == [True, False, False, True]


def test_a_bit_under_noise_and_tempered():
    x = np.linspace(-30, 30, 6001)
    for smoothing, known in ((Logistic(), logistic), (Gaussian(), norm)):
        expected = 0.3 * known.pdf(x / 0.8) / 0.8 + 0.7 * known.pdf((x - 0.5) / 0.8) / 0.8
        np.testing.assert_allclose(between(smoothing, 0.8, 0.7, x, 0.5), expected, atol=1e-12)
    np.testing.assert_allclose(tempered(np.array([0.64, 0.36]), 0.5), [4 / 7, 3 / 7])
