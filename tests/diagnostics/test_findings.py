"""The rules, one by one: what each finds, and what it leaves alone."""

import re

import numpy as np
import pytest

from xpsample.diagnostics import chains, coordinates, findings, steps, target, temperatures
from xpsample.diagnostics.advice import Advice
from xpsample.diagnostics.convergence import Mixing
from xpsample.diagnostics.findings import Finding

RNG = np.random.default_rng(0)
ONE = [((), "x[0]")]


def test_a_finding_is_one_line_with_the_first_places():
    names = tuple(f"x[{i}]" for i in range(5))
    found = Finding("rhat", "R-hat above 1.01", 1.5, "run longer", names, ((0, 3), (1, 2)), ((0,), (1,)))
    assert (
        str(found) == "R-hat above 1.01 in x[0], x[1], x[2] and 2 more (chains (0, 3), (1, 2)), groups 0, 1: run longer"
    )
    assert Finding.from_json(found.to_json()) == found


def test_the_least_ess():
    """100 a chain, and 400 for more chains than four."""
    assert [findings.least_ess(chains) for chains in (1, 2, 4, 100)] == [100, 200, 400, 400]


def normal(*means, n=500):
    """Chains about different means, the same in whatever order the tests run."""
    return np.random.default_rng(0).normal(size=(n, len(means), 1)) + np.asarray(means)[:, None]


def modes(draws, names=ONE):
    settled = np.zeros(draws.shape[-1], dtype=bool)
    return chains.judge_modes(names, draws, settled, np.ones(draws.shape[1:], dtype=bool))


def test_chains_in_two_modes_or_one():
    found = modes(normal(-2.0, 2.1, -2.1, 2.0))
    assert found.kind == "modes" and found.value == pytest.approx(4.0, rel=0.1)
    assert "2 near -2" in found.what and "2 near 2" in found.what
    assert "1 near 5" in modes(normal(0, 0, 0, 5)).what
    for means in ((0, 0, 0, 0), (0.5, -0.5, 0.0, 1.0), (3.0,)):
        assert modes(normal(*means)) is None


def test_labels_of_three_components():
    """Every chain has the same three means, in an order of its own; not if one chain has another mean."""
    names = [((), f"mu[{i}]") for i in range(3)]
    noise, means = np.random.default_rng(0).normal(size=(500, 4, 3)), 10.0 * np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])

    def found(means):
        return modes(noise + means, names)

    labels = found(means[[0, 1, 2, 0]])
    assert labels.kind == "labels" and "mu[0], mu[1] and mu[2]: their means are near" in labels.what
    assert found(means[[0, 1, 2, 0]] + np.array([0, 0, 0, 15.0])[:, None]).kind == "modes"
    pair = found(np.array([[0, 10.0, 20], [10, 0, 20], [0, 10, 20], [10, 0, 20]]))
    assert pair.kind == "labels" and "mu[0] and mu[1]:" in pair.what


def test_chains_that_grow():
    def growth(factor):
        walk = np.exp(np.linspace(0, np.log(factor), 400))[:, None, None]
        return chains.judge_growth(ONE, RNG.normal(size=(400, 4, 1)) * walk)

    assert growth(1e200).value > 1e100
    assert growth(1e3).kind == "growth"
    assert growth(1.0) is None and growth(3.0) is None
    assert chains.judge_growth(ONE, RNG.normal(size=(4000, 4, 1)).cumsum(axis=0)) is None


def start(first, later=None, tilted=False):
    return chains.judge_start(ONE, first, RNG.normal(size=(200, 4, 1)) if later is None else later, tilted)


def test_draws_that_begin_far_out():
    """Cauchy: a median of eight is above 63 in 2 of 10,000 runs of 4 chains (less than 1e-6 each)."""
    first = RNG.normal(size=(64, 4, 1))
    assert start(first) is None
    first[:12, 2] += 1e3
    assert start(first).kind == "transient" and start(first).value == pytest.approx(600, rel=0.2)
    assert start(first, tilted=True).kind == "tilt"
    first[3:12, 2] -= 1e3  # three draws are too few to matter
    assert start(first) is None
    assert start(RNG.standard_cauchy((64, 4, 1)), RNG.standard_cauchy((2000, 4, 1))) is None


def settling(draws):
    return chains.judge_settling([((), f"x[{i}]") for i in range(draws.shape[-1])], draws)


def autoregressions(count, start):
    """AR(1) chains of unit variance that begin with the standard deviation `start`, in three coordinates, cubed."""
    rng, rows = np.random.default_rng(3), [None]
    rows[0] = start * rng.normal(size=(count, 3))
    for _ in range(99):
        rows.append(0.97 * rows[-1] + np.sqrt(1 - 0.97**2) * rng.normal(size=(count, 3)))
    return np.stack(rows) ** 3


def test_many_chains_that_come_in_together():
    """Each is too short to tell. Of chains that stay, cubed for a heavy tail, one run in 100,000 may be found."""
    wide, narrow = settling(autoregressions(200, 3.0)), settling(autoregressions(200, 0.1))
    assert wide.kind == "transient" and wide.value > 5
    assert "-" in wide.what and "-" not in narrow.what  # from within
    # The last two: the split R-hat sees them; and a group that never moved.
    for count, start in ((200, 1.0), (1000, 1.0), (16, 3.0)):
        assert settling(autoregressions(count, start)) is None
    assert settling(np.zeros((40, 64, 0))) is None


def test_what_no_column_tells_alone():
    """Forty columns that begin a little too wide, in 64 chains: only their mean is beyond chance."""
    draws = np.random.default_rng(5).normal(size=(40, 64, 40))
    assert settling(draws) is None
    draws[:10] *= 1.1
    assert settling(draws).kind == "transient"
    assert [settling(draws[..., i : i + 1]) for i in range(40)] == [None] * 40
    one = np.random.default_rng(6).normal(size=(40, 64, 40))
    one[:10, :, 7] *= 2.0
    assert settling(one).coordinates == ("x[7]",)


def test_chains_that_never_moved():
    assert steps.judge_stuck(np.array([0.3, 0.4]), 100) is None
    assert steps.judge_stuck(np.array([0.0, 0.4]), 9) is None
    some = steps.judge_stuck(np.array([[0.0, 0.4], [0.1, 0.0]]), 100)
    assert some.value == 2 and some.chains == ((0, 0), (1, 1))
    assert steps.judge_stuck(np.zeros(3), 100).chains == ()


def test_acceptance_is_judged_by_group_and_optimum():
    slow = np.array([True, False, True])
    rates = np.array([[0.99, 0.999], [0.99, 0.999], [0.5, 0.6]])
    found = steps.judge_acceptance(rates, 0.574, slow)
    assert found.groups == ((0,),) and "larger" in found.advice
    assert steps.judge_acceptance(rates, 0.574, ~slow).groups == ((1,),)
    assert steps.judge_acceptance(rates, 0.574, np.zeros(3, bool)) is None
    assert steps.judge_acceptance(rates, None, slow) is None
    low = steps.judge_acceptance(np.array([0.01, 0.02]), 0.574, np.array(False))
    assert low.value == pytest.approx(0.015) and "smaller" in low.advice


def test_energy():
    independent = RNG.normal(size=(1000, 4))
    assert steps.judge_energy(independent) is None
    slow = independent.copy()
    slow[:, 1] = np.cumsum(slow[:, 1])
    assert steps.judge_energy(slow).chains == ((1,),)
    assert steps.judge_energy(slow[:5]) is None


def test_very_small_large_and_infinite_draws():
    draws = RNG.normal(size=(200, 4, 2))
    for scale in (1e-200, 1.0, 1e200):
        found = coordinates.spread(scale * draws)
        np.testing.assert_allclose(found, scale * np.std(draws, axis=(0, 1)), rtol=1e-12)
    for value in (np.nan, np.inf):
        draws[3, 1, 0] = value
        assert chains.judge_crossings([((), "x")], draws[..., :1], [0], np.ones((4, 1), dtype=bool)) is None


def test_hot_particles_say_how_many_sets_there_are():
    x = 10.0 * RNG.normal(size=(3, 200, 2))
    (found,) = temperatures.judge_particles(x, -x)
    assert "in the worst of 3 sets" in found.what
    (found,) = temperatures.judge_particles(x[0], -x[0])
    assert "worst" not in found.what


def test_divergences_and_their_region():
    """A coordinate that never moves is no region."""
    draws = RNG.normal(size=(500, 4, 3))
    region = steps.region_of(["a", "b", "c"], draws, draws[..., 1] < -1.5)
    assert re.search(r"near b = -(1\.[89]|2)", region)
    assert steps.region_of(["a", "b", "c"], draws, RNG.random((500, 4)) < 0.05) == ""
    found = steps.judge_divergences(np.array([0, 3, 1]), 50, region)
    assert found.value == 4 and found.chains == ((1,), (2,)) and region in str(found)
    assert steps.judge_divergences(np.zeros(3), 50) is None
    draws[..., 0] = 1.0
    there = (draws[..., 1] < 1.0) & (RNG.random((500, 4)) < 0.5)
    assert "near" not in steps.region_of(["a", "b"], draws[..., :1].repeat(2, axis=-1), there)
    assert steps.region_of(["a", "b"], draws, draws[..., 1] > 0.5).startswith(", near b")


def test_momenta_that_chains_share_heat_no_coordinate():
    """A batch for all chains moves them together, which tells nothing of one coordinate (an error below 1e-5)."""
    momenta = np.random.default_rng(0).normal(size=(20, 4))
    for shift in (0.0, 6.0):
        assert temperatures.judge_uneven_heat(momenta + np.asarray([shift, 0, 0, 0])) == []
    (found,) = temperatures.judge_uneven_heat(momenta * np.asarray([6.0, 1, 1, 1]))
    assert "coordinate 0" in found.what


def test_zeros_count_where_values_underflow_and_nowhere_else():
    draws = np.ones((1000, 4, 2))
    draws[:3, :, 0] = 1e-308
    draws[3:100] = 0.0
    finding = target.judge_underflow([((), "a"), ((), "b")], draws, draws.dtype)
    assert finding.value == 0.1 and finding.coordinates == ("a",)


def test_chains_of_a_discrete_variable_that_differ_a_little_are_no_modes():
    """Means of 0.50 to 0.59, the same in both halves: sure, and a fifth of a standard deviation."""
    draws = (np.arange(1000)[:, None] % 100 < 50 + 3 * np.arange(4)).astype(float)[..., None]
    others = np.zeros(1, bool), np.ones((4, 1), bool), Advice("Gibbs", discrete=True)
    assert chains.judge_modes(ONE, draws, *others) is None
    draws[:] = np.arange(4)[:, None] >= 2
    assert chains.judge_modes(ONE, draws, *others).kind == "modes"


@pytest.mark.parametrize("blocks", [[], [["a"]], [["a"], ["b"]]])
def test_slow_blocks_have_their_own_advice(blocks):
    advice = Advice("HMC", blocks=blocks)
    [finding] = findings.judge_figures(ONE, np.ones(1), Mixing(*np.asarray([[900.0], [900.0], [1.5]])), 1000, 4, advice)
    assert (advice.further in finding.advice) == (len(blocks) > 1)
