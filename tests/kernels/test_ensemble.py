"""Ensembles of walkers: stretch moves and differential evolution, and what a run says of walkers that depend."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import GAUSSIAN, NumPy, noise_of, walk
from xpsample.conformance import invariance, reference, scenarios
from xpsample.conformance.distributions import gaussian_distribution
from xpsample.core import tree
from xpsample.core.errors import CapabilityError, PositionError, TraceError
from xpsample.diagnostics.convergence import ensemble_ess, mixing
from xpsample.kernels import ChainState, Info
from xpsample.zoo.gaussian import gaussian

SCENARIO = next(scenario for scenario in scenarios() if scenario.name == "ensemble")
ONE = replace(SCENARIO, target=lambda a: gaussian(np.eye(1)), stationary=gaussian_distribution(np.eye(1)), walkers=4)
NORMAL = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))


def walkers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def log_density(x):
    return -0.5 * np.sum((x @ GAUSSIAN.data) * x, axis=-1)


def test_stretch_by_hand(library):
    x, kernel = walkers(2, 8, 3), xps.Ensemble(xps.Stretch(3.0))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    u = {name: rows[0] for name, rows in noise.items()}
    for e in range(2):
        new = x[e].copy()
        for k in range(8):  # the second half sees where the first one is by now
            others = new[4:] if k < 4 else new[:4]
            partner, z = others[int(4 * u["partner"][e, k])], (1 + 2 * u["stretch"][e, k]) ** 2 / 3
            y = partner + z * (new[k] - partner)
            probability = min(1.0, z**2 * np.exp(log_density(y) - log_density(new[k])))
            assert float(infos[0].acceptance_probability[e, k]) == pytest.approx(probability, rel=1e-9)
            new[k] = y if u["accept"][e, k] < probability else new[k]
        np.testing.assert_allclose(positions[0, e], new, rtol=1e-9)
        assert np.any(new != x[e])


def test_differential_evolution_by_hand():
    x, kernel = walkers(8, 3), xps.Ensemble(xps.DifferentialEvolution())
    noise = noise_of(kernel, x, 1)
    noise["jump"][0, 2] = 0.05
    positions, _, _ = walk(NumPy, kernel, x, noise)
    u, new = {name: rows[0] for name, rows in noise.items()}, x.copy()
    for k in range(8):
        others = new[4:] if k < 4 else new[:4]
        i = int(4 * u["first"][k])
        j = (*range(i + 1, 4), *range(i))[int(3 * u["second"][k])]
        gamma = (1.0 if u["jump"][k] < 0.1 else 2.38 / 6**0.5) * (1 + 1e-5 * u["jitter"][k])
        y = new[k] + gamma * (others[i] - others[j])
        new[k] = y if u["accept"][k] < np.exp(log_density(y) - log_density(new[k])) else new[k]
    np.testing.assert_allclose(positions[0], new, rtol=1e-9)


# ---- wrong on purpose ------------------------------------------------------------------------------------------------


class WithoutVolume(xps.Stretch):
    """Leaves out z^(dim - 1)."""

    def propose(self, xp, x, others, noise):
        return super().propose(xp, x, others, noise)[0], 0.0


class EvenStretch(xps.Stretch):
    """z is uniform."""

    def propose(self, xp, x, others, noise):
        z = 0.5 + 1.5 * noise["stretch"]
        return super().propose(xp, x, others, noise | {"stretch": (2 * z) ** 0.5 - 1})


@dataclass(frozen=True, eq=False)
class AllAtOnce(xps.Ensemble):
    """The second half moves by where the first one was."""

    def step(self, target, state, noise):
        xp, (first, second) = target.xp, self.halves(state.point, state.point.x.ndim - 2)
        of_first, of_second = self.halves(noise, state.point.x.ndim - 2)
        moved = self._moved(target, first, second.x, of_first), self._moved(target, second, first.x, of_second)
        point = tree.map(lambda *a: xp.concat(a, axis=state.point.x.ndim - 2), moved[0][0], moved[1][0])
        infos = (xp.concat(a, axis=-1) for a in zip(moved[0][1][:3], moved[1][1][:3], strict=True))
        return ChainState(point), Info(*infos, moved[0][1].evaluations)


@pytest.mark.parametrize("move", [WithoutVolume(), EvenStretch()], ids=["volume", "even"])
def test_a_wrong_stretch_is_caught(move):
    assert not invariance(replace(SCENARIO, kernel=lambda a: xps.Ensemble(move)), reference(), 20_000).passed


@pytest.mark.slow
def test_walkers_that_move_all_at_once_are_caught():
    """Their bias is small: 12 standard errors of 100,000 draws in one dimension, and less with stretch moves."""
    found = {
        kind: invariance(
            replace(ONE, kernel=lambda a, k=kind: k(xps.DifferentialEvolution(0.7))), reference(), steps=10
        )
        for kind in (xps.Ensemble, AllAtOnce)
    }
    assert found[xps.Ensemble].passed and not found[AllAtOnce].passed


# ---- what a run says -------------------------------------------------------------------------------------------------


def correlated(draws=400, ensembles=3, members=10, dim=2, seed=0):
    """Walkers (draw, ensembles, members, dim) of one variance, with a common part that is AR(1)."""
    rng = np.random.default_rng(seed)
    common = np.zeros((draws, ensembles, 1, dim))
    for t in range(1, draws):
        common[t] = 0.8 * common[t - 1] + 0.6 * rng.normal(size=(ensembles, 1, dim))
    return common + rng.normal(size=(draws, ensembles, members, dim))


@pytest.mark.slow
def test_the_ess_of_an_ensemble_tells_the_error_of_its_mean():
    means = np.stack([correlated(seed=seed).mean(axis=(0, 1, 2)) for seed in range(100)])
    draws = correlated(seed=1000)
    flat = draws.reshape(400, 30, 2)
    error = np.sqrt(flat.var(axis=(0, 1)) / ensemble_ess(flat, 10))
    assert np.all(np.abs(np.log(error / means.std(axis=0))) < 0.4)  # 0.07 is the error of 100 means
    assert np.all(mixing(flat).ess_bulk > 1.5 * mixing(flat, walkers=10).ess_bulk)  # as if walkers were independent


def test_one_walker_is_one_chain():
    draws = correlated(members=1).reshape(400, 3, 2)
    for own, usual in zip(mixing(draws, walkers=1), mixing(draws), strict=True):
        np.testing.assert_array_equal(own, usual)


def test_an_ensemble_is_one_chain_in_the_table():
    trace = xps.sample(NORMAL, xps.Ensemble(), walkers(4, 8, 2), 500, seed=1, burn_in=50)
    table = trace.summary()
    assert table.mean.shape == (2,) and (table.chains, table.walkers) == (4, 8)
    assert "500 draws of 4 ensembles of 8 walkers" in str(table)
    flat = trace.draws.reshape(500, 32, 2)
    found = mixing(flat, walkers=8)
    np.testing.assert_array_equal(table.ess_bulk, found.ess_bulk)
    np.testing.assert_array_equal(table.rhat, found.rhat)
    np.testing.assert_allclose(table.mcse, np.sqrt(flat.var(axis=(0, 1)) / ensemble_ess(flat, 8)), rtol=1e-2)
    assert trace.summary(by=0).mean.shape == (4, 2)
    assert trace.summary(by=()).chains == 4
    with pytest.raises(TraceError, match="by names the walkers of an ensemble, axis 1"):
        trace.summary(by=1)


def test_ensembles_in_different_places_are_found_and_walkers_of_one_are_not_compared():
    """Ensembles that have not met have an R-hat; the walkers of one, each on its own slow way, have none."""
    apart = xps.sample(NORMAL, xps.Ensemble(), walkers(2, 6, 2) + 1e3 * walkers(2, 1, 1, seed=1), 30, seed=1)
    assert {"rhat"} & {finding.kind for finding in apart.diagnose()}
    slow = xps.sample(NORMAL, xps.Ensemble(xps.Stretch(1.05)), walkers(200, 2), 100, seed=1)
    assert mixing(slow.draws).rhat.max() > 1.05
    assert slow.summary().rhat.max() < 1.05


@pytest.mark.slow
def test_running_moments_give_no_ess_of_an_ensemble():
    recorders = [xps.Moments(), xps.BatchMeans(10)]
    table = xps.sample(NORMAL, xps.Ensemble(), walkers(3, 8, 2), 400, seed=1, recorders=recorders).summary()
    draws = xps.sample(NORMAL, xps.Ensemble(), walkers(3, 8, 2), 400, seed=1).draws
    np.testing.assert_allclose(table.sd, draws.std(axis=(0, 1, 2), ddof=1), rtol=1e-9)
    assert table.chains == 3 and np.all(np.isnan(table.ess_bulk)) and np.all(table.rhat < 1.1)
    alone = xps.sample(NORMAL, xps.Ensemble(), walkers(8, 2), 400, seed=1, recorders=recorders)
    assert np.all(np.isnan(alone.summary().rhat))


@pytest.mark.slow
def test_until_looks_at_ensembles():
    trace = xps.sample(NORMAL, xps.Ensemble(), walkers(4, 8, 2), 50_000, seed=1, until=xps.Until(ess=400))
    assert len(trace.draws) < 50_000
    assert 380 < trace.summary().ess_bulk.min() < 1500


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (walkers(7, 2), r"even number .* 6 for 2 dimensions; got 7 in \(7, 2\)"),
        (walkers(4, 2), "at least"),
        (walkers(2), "walkers"),
        (np.zeros((8, 2)), "in a subspace of 0 of 2 dimensions"),
        (walkers(8, 1) * np.ones(2), "in a subspace of 1 of 2"),
        (np.concatenate([walkers(4, 2), walkers(4, 1) * np.ones(2)]), "in a subspace of 1 of 2"),
        (np.stack([walkers(8, 2), np.ones((8, 2))]), "in a subspace of 0 of 2"),
    ],
    ids=["odd", "few", "one", "a point", "a line", "a half", "an ensemble"],
)
def test_walkers_that_do_not_span_the_space_are_refused(x, words):
    with pytest.raises(PositionError, match=words):
        xps.sample(NORMAL, xps.Ensemble(), x, 10, seed=1)


def test_a_small_ball_far_out_is_no_subspace():
    assert xps.sample(NORMAL, xps.Ensemble(), 5.0 + 1e-6 * walkers(8, 2), 2, seed=1).draws.shape == (2, 8, 2)


@pytest.mark.slow
def test_walkers_are_not_cut_into_shards_and_ensembles_are():
    with pytest.raises(CapabilityError, match="Ensemble cannot be split into shards: its chains depend on each other"):
        xps.sample(NORMAL, xps.Ensemble(), walkers(8, 2), 10, seed=1, shards=2)
    trace = xps.sample(NORMAL, xps.Ensemble(), walkers(4, 8, 2), 50, seed=1, shards=2)
    assert trace.draws.shape == (50, 4, 8, 2) and trace.summary().chains == 4


@pytest.mark.parametrize("stored", [False, True])
def test_arviz_is_told_which_chains_are_walkers_of_an_ensemble(tmp_path, stored):
    pytest.importorskip("zarr" if stored else "xarray")
    recorders = (xps.Draws(store=tmp_path / "run") if stored else xps.Draws(),)
    trace = xps.sample(NORMAL, xps.Ensemble(), walkers(3, 8, 2), 20, seed=1, recorders=recorders)
    x = trace.to_arviz()["posterior"]["x"]
    assert x["ensemble"].values.tolist() == np.repeat([0, 1, 2], 8).tolist()
    assert x["walker"].values.tolist() == np.tile(np.arange(8), 3).tolist()
    means = x.groupby("ensemble").mean()
    np.testing.assert_allclose(means.isel(draw=-1), np.mean(trace.draws[-1], axis=1))
    assert "ensemble" not in xps.sample(NORMAL, xps.RWM(1.0), walkers(4, 2), 20, seed=1).to_arviz()["posterior"].coords


@pytest.mark.slow
def test_the_error_of_an_evidence_by_tempered_ensembles_is_that_of_their_means():
    wide = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) / 9)
    kernel, recorders = xps.ParallelTempering(xps.Ensemble(), (1.0, 0.4, 0.0)), [xps.Draws(), xps.Rungs()]
    x0 = walkers(50, 8, 2)
    trace = xps.sample(xps.Bridge(wide, NORMAL), kernel, x0, 400, seed=1, burn_in=50, recorders=recorders)
    found = xps.tempering_log_normalizer(trace).stepping_stones
    assert abs(np.mean(found.value) - np.log(1 / 9)) < 0.02
    assert np.mean(found.standard_error) == pytest.approx(np.std(found.value), rel=0.4)  # 0.1 is chance
    # Eight walkers that are all the same tell no more than one.
    rungs = trace.recorded["rungs"]
    alike = rungs._replace(log_density=np.repeat(rungs.log_density[..., :1, :], 8, axis=-2))
    one = xps.tempering_log_normalizer(replace(trace, recorded={"rungs": alike})).stepping_stones
    assert np.mean(one.standard_error) > 2 * np.mean(found.standard_error)
