"""Runs that ended without a word before: each warns now, and healthy runs do not."""

import math
import re
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import ConvergenceWarning, DiagnosisWarning, DivergenceWarning, RepellenceWarning, entry
from xpsample.diagnostics import coordinates
from xpsample.diagnostics import target as target_module
from xpsample.diagnostics.coordinates import CoarsePass
from xpsample.diagnostics.diagnosis import diagnose, warn
from xpsample.diagnostics.findings import Finding
from xpsample.srmc.diagnostics import Repellence
from xpsample.targets import Capability
from xpsample.trace.diagnosis import about, examined
from xpsample.trace.summary import RunStatistics
from xpsample.zoo.gaussian import gaussian

ROUND = gaussian(np.eye(2))
STARTS = np.random.default_rng(0).normal(size=(4, 2))
TWO_MODES = xps.Target(
    lambda x: np.logaddexp(-0.5 * (x[..., 0] - 4) ** 2, -0.5 * (x[..., 0] + 4) ** 2) - 0.5 * x[..., 1] ** 2,
    score=lambda x: np.stack([4 * np.tanh(4 * x[..., 0]) - x[..., 0], -x[..., 1]], axis=-1),
)


def run(target, kernel, x0=STARTS, draws=1000, **settings):
    """The trace, and what was warned of: (class, line)."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        trace = xps.sample(target, kernel, x0, draws, **{"seed": 1, "progress": False} | settings)
    return trace, [(w.category, line) for w in caught for line in str(w.message).splitlines()]


def kinds(trace):
    return {finding.kind: finding for finding in trace.diagnose()}


# ---- bad runs --------------------------------------------------------------------------------------------------------


WALL = xps.Target(lambda x: np.where(x[..., 0] > 1.7, np.nan, -0.5 * np.sum(x**2, axis=-1)), score=lambda x: -x)
TEN = np.random.default_rng(0).normal(size=(4, 10))
MIXING = {"rhat", "ess_bulk", "ess_tail"}
BAD = {  # target, kernel, starts, kinds of findings, the first line
    "small steps": (gaussian(np.diag([1.0, 1e4])), xps.MALA(0.5), STARTS * [1, 100], {"slow", *MIXING}, r"in x\[1\]"),
    "never moves": (ROUND, xps.MALA(1e9), STARTS, {"stuck"}, "4 of 4 chains never moved"),
    "modes": (
        TWO_MODES,
        xps.MALA(0.5),
        np.array([[-4.0, 0], [4, 0], [-4, 0], [4, 0]]),
        {"modes", *MIXING},
        r"2 near -3.* and 2 near [34].* in x\[0\]",
    ),
    "grows": (ROUND, xps.ULA(2.7), STARTS, {"growth", "rhat"}, r"by a factor of \d.*e\+1\d\d"),
    "far starts": (ROUND, xps.MALA(0.1), STARTS + 100, {"transient", "acceptance", "tails", *MIXING}, "set burn_in"),
    "wall": (WALL, xps.MALA(0.5), np.minimum(STARTS, 0.5), {"bound", "divergences"}, "the log density is nan"),
    "resonance": (ROUND, xps.HMC(0.1, 31), STARTS, {"resonance", "rhat", "ess_tail"}, "swing from side to side"),
    "rejects": (gaussian(np.eye(10)), xps.RWM(3.0), TEN, {"acceptance", *MIXING}, "probability 0.0003.* smaller step"),
}


@pytest.mark.parametrize(("target", "kernel", "x0", "found", "first"), BAD.values(), ids=BAD)
def test_a_bad_run_is_told(target, kernel, x0, found, first):
    trace, warned = run(target, kernel, x0)
    assert np.max(np.abs(trace.draws)) < np.inf and set(kinds(trace)) == found
    assert [text for _, text in warned] == [f"{f} [{entry(f.kind, 'diagnosis')}]" for f in trace.diagnose()]
    assert {category for category, _ in warned} == {DivergenceWarning if "bound" in found else ConvergenceWarning}
    assert re.search(first, warned[0][1])
    if "divergences" in found:
        assert ", near x[0] = " in warned[1][1]


@pytest.mark.parametrize(
    ("kinds", "lines"),
    [
        (["modes", "few_draws", "rhat"], {ConvergenceWarning: 2}),
        (["bound", "divergences", "rhat", "tilt"], {DivergenceWarning: 2, ConvergenceWarning: 1, RepellenceWarning: 1}),
    ],
)
def test_findings_of_one_class_are_one_warning(kinds, lines):
    with pytest.warns(DiagnosisWarning) as caught:
        warn([None, *(Finding(kind, kind, 1.0, "advice") for kind in kinds)])
    assert {w.category: len(str(w.message).splitlines()) for w in caught} == lines
    assert len(caught) == len(lines)
    assert str(caught[0].message).startswith(f"{kinds[0]}: advice [docs: diagnosis#{kinds[0]}]")


def test_what_is_healthy_again():
    """A smaller step, a burn-in, or chains of which one was lost."""
    lost = np.where(np.arange(4)[:, None] == 2, np.nan, STARTS)[[0, 1, 3]]
    assert "stuck" not in kinds(run(TWO_MODES, xps.MALA(0.5), lost)[0])
    assert not kinds(run(ROUND, xps.ULA(0.3))[0])
    assert "transient" not in kinds(run(ROUND, xps.MALA(0.1), STARTS + 100, burn_in=200)[0])


def test_a_tilt_that_is_too_strong_at_first():
    def repellent(alpha):
        return xps.SRMC(xps.MALA(0.5), alpha, schedule=xps.PowerLaw(), tilt=xps.Exact())

    trace, warned = run(ROUND, repellent(50.0))
    assert np.max(np.abs(trace.draws)) > 1e4
    assert warned[0][0] is RepellenceWarning and "tilt" in warned[0][1]
    for healthy in (repellent(1.0), repellent(10.0)):
        assert "tilt" not in kinds(run(ROUND, healthy)[0])
    # Steps of the burn-in count, but for the recorder; the draws do not begin far out then.
    burned, _ = run(ROUND, repellent(50.0), burn_in=100)
    assert kinds(burned)["tilt"].what.startswith("the tilt is too strong in 4 of 4 chains")
    recorder = Repellence()
    seen, _ = run(ROUND, repellent(50.0), burn_in=100, recorders=[xps.Draws(), recorder])
    assert recorder.findings(seen.recorded["repellence"]) == []


def test_energies_of_a_recorder_are_judged():
    trace, _ = run(ROUND, xps.MALA(0.5))
    walk = np.cumsum(np.random.default_rng(0).normal(size=(1000, 4)), axis=0)
    assert "energy" in {f.kind for f in replace(trace, statistics={"energy": walk}).diagnose()}


# ---- good runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "chains", "draws"),
    [(xps.HMC(0.5, 4), 4, 1000), (xps.MALA(0.8), 4, 4000), (xps.MALA(0.8), 128, 100), (xps.RWM(1.2), 1000, 60)],
    ids=str,
)
def test_healthy_runs_are_silent(kernel, chains, draws):
    """Few and many chains; 60 draws of 1,000 chains are enough, though split R-hat is above 1.01."""
    x0 = np.random.default_rng(1).normal(size=(chains, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = xps.sample(ROUND, kernel, x0, draws, seed=2, progress=False)
    assert trace.diagnose() == () and trace.summary().findings == ()


def test_a_sweep_names_its_bad_group_alone():
    """Step sizes 0.05, 0.5 and 1.5: the first mixes too slowly."""
    trace, _ = run(ROUND, xps.MALA(np.array([[0.05], [0.5], [1.5]])), np.zeros((3, 8, 2)))
    for finding in (*trace.diagnose(), *trace.summary().findings):
        assert finding.groups == ((0,),)
    summary = trace.summary()
    assert np.all(summary.rhat[0] > 1.01) and np.all(summary.rhat[1:] < 1.01)
    lines = str(summary).splitlines()
    assert "! rhat" in lines[2] and not any("!" in line for line in lines[4:9])


def test_what_is_not_warned_of():
    """A few draws, particles that are no chains, and what one filter takes."""
    trace, warned = run(ROUND, xps.MALA(0.5), draws=9)
    assert list(kinds(trace)) == ["few_draws"] and not warned
    x0 = np.random.default_rng(0).normal(size=(20, 2))
    for recorder in (xps.Draws(), xps.Moments()):
        trace, warned = run(ROUND, xps.SVGD(step_size=0.1), x0, draws=50, recorders=[recorder])
        assert not warned and not trace.metadata["diagnosis"]["chains"]
        assert "note: these are particles" in str(trace.summary())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DiagnosisWarning)
        xps.sample(ROUND, xps.MALA(1e9), STARTS, 20, seed=1, progress=False)


# ---- what the target is asked ----------------------------------------------------------------------------------------


def test_a_target_is_asked_where_it_is_at_hand_and_the_run_is_long(monkeypatch):
    trace, _ = run(TWO_MODES, xps.MALA(0.5), STARTS + np.array([[4.0, 0.0]]) * np.array([[1], [1], [-1], [-1]]), 400)

    class Target:
        space, constrained, data, requires = xps.Real(), False, None, xps.targets.Capability.LOG_DENSITY

        @property
        def log_density(self):
            raise LookupError

    real = Target()
    monkeypatch.setattr(target_module, "suppress", lambda *errors: nullcontext())
    with pytest.raises(LookupError):
        examined(trace, real)
    for other in (
        replace(trace, metadata=trace.metadata | {"processes": 2}),
        replace(trace, run_statistics=replace(trace.run_statistics, steps=399)),
        replace(trace, draws=None),
    ):
        assert examined(other, real) == (other, other.diagnose())
    real.space = xps.Binary()
    assert examined(trace, real)[1] == trace.diagnose()


def test_the_last_rays_are_as_long_as_the_draws_go():
    rows = np.random.default_rng(0).random((100, 3, 4, 2)) * [1.0, 10.0]
    way, together, *each = target_module._rays(rows)
    extent = np.ptp(rows, axis=(0, 1, 2))
    own = np.mean(rows[50:], axis=0) - np.mean(rows[:50], axis=0)  # shorter than the draws go
    own *= np.linalg.norm(extent) / np.linalg.norm(own, axis=-1, keepdims=True)
    np.testing.assert_allclose(way, own)
    broken = rows.copy()
    broken[:, 0, 0] = np.nan
    assert np.all(np.isfinite(next(target_module._rays(broken))[1:]))  # a chain that is lost does not hide the others
    np.testing.assert_allclose(together, np.full((3, 4, 2), np.max(extent)))
    np.testing.assert_allclose(sorted(np.max(ray) for ray in each), np.sort(extent))


# ---- the machinery ---------------------------------------------------------------------------------------------------


def test_findings_are_the_same_after_a_file(tmp_path):
    recorders = (xps.Draws(), Repellence(limit=1e-9))
    trace, _ = run(ROUND, xps.SRMC(xps.MALA(0.5), 50.0), recorders=recorders)
    trace.save(tmp_path / "a.npz")
    again = xps.load(tmp_path / "a.npz")
    assert again.diagnose() == trace.diagnose()
    (tilt,) = (f for f in again.diagnose() if f.kind == "tilt")
    assert "alpha |s . theta|" in tilt.what  # the recorder's own, and no second one


def test_what_the_recorders_found_stays_beside_what_the_target_shows():
    half = xps.Target(lambda x: np.where(x[..., 0] < 0, -np.inf, -x[..., 0]), score=lambda x: -np.ones_like(x))
    trace, _ = run(half, xps.HMC(0.5, 5), np.abs(STARTS[:, :1]), 400)
    diagnosis = trace.metadata["diagnosis"]
    (bound,) = (fields for fields in diagnosis["findings"] if fields["kind"] == "bound")
    other = replace(
        trace, metadata=trace.metadata | {"diagnosis": diagnosis | {"findings": [bound | {"kind": "mine"}]}}
    )
    again, found = examined(other, half.prepare(trace.draws[-1], Capability.LOG_DENSITY))
    assert {"mine", "bound"} <= {finding.kind for finding in found}
    assert [fields["kind"] for fields in again.metadata["diagnosis"]["findings"]] == ["mine", "bound"]


def test_a_checkpoint_that_is_saved_often_warns_once(tmp_path):
    kernel = xps.SRMC(xps.MALA(0.5), 50.0)
    checkpoint = xps.Checkpoint(tmp_path, every=0.0)
    _, warned = run(ROUND, kernel, draws=100, recorders=(Repellence(limit=1e-9),), checkpoint=checkpoint)
    assert len([text for _, text in warned if "alpha |s . theta|" in text]) == 1


@pytest.mark.parametrize("share", [1, 4])
@pytest.mark.parametrize("shape", [(400, 4, 30), (50, 300, 30), (3000, 2, 3, 30)], ids=str)
def test_the_worst_coordinate_is_found_among_many(shape, share, monkeypatch):
    """However few values are looked at: four coordinates closely, and all of them roughly, or all in a few chains."""
    monkeypatch.setattr(coordinates, "COARSE", 32 * int(np.prod(shape[1:])) // share)
    monkeypatch.setattr(coordinates, "MEASURED", 2000)
    monkeypatch.setattr(coordinates, "LONGEST", 500)
    rng = np.random.default_rng(0)
    draws = rng.normal(size=shape)
    draws[..., 17] += 5 * rng.normal(size=shape[1:-1])
    draws *= 10.0 ** np.arange(-15, 15)  # each coordinate is looked at for itself
    names = [f"x[{i}]" for i in range(30)]
    figures = CoarsePass(draws, names).figures()
    assert len(figures.columns) == 4
    worst = figures.columns[int(np.argmax(figures.mixing.rhat))]
    assert worst[1] == "x[17]" and np.max(figures.mixing.rhat) > 1.5


@pytest.mark.parametrize("shape", [(32, 64, 503), (40, 3, 40, 300), (1000, 9000)], ids=str)
def test_the_one_slow_coordinate_of_many_is_found_in_many_chains(shape):
    """Where 32 draws of all coordinates are too many to look at; it is one that none evenly spread would meet."""
    rng = np.random.default_rng(1)
    draws = rng.normal(size=shape).astype(np.float32)
    slow = np.cumsum(rng.normal(size=shape[:-1]), axis=0) if len(shape) == 2 else rng.normal(size=shape[1:-1])
    draws[..., 11] += 3 * slow
    least, rhat = coordinates.worst(draws)
    assert least < 100 and rhat > 1.1
    healthy, _ = coordinates.worst(rng.normal(size=shape).astype(np.float32))
    assert healthy > 4 * least


@pytest.mark.parametrize("rows", [1, 2, 3, 9, 10])
def test_few_draws_of_very_many_chains_can_be_looked_at(rows):
    draws = np.random.default_rng(2).normal(size=(rows, 33_000, 9))
    assert {finding.kind for finding in judged(draws, np.zeros(33_000))} <= {"few_draws"}


def test_what_is_looked_at_is_bounded():
    """400 times as many values take less than 20 times as long; without a bound they take 400."""

    def seconds(draws):
        names = [f"x[{i}]" for i in range(draws.shape[-1])]
        best = math.inf
        for _ in range(3):
            began = time.perf_counter()
            CoarsePass(draws, names).figures()
            best = min(best, time.perf_counter() - began)
        return best

    rng = np.random.default_rng(0)
    small, large = rng.normal(size=(1000, 4, 10)), np.broadcast_to(rng.normal(size=(1000, 16, 10)), (1000, 16, 10))
    large = np.concatenate([large] * 100, axis=-1)
    assert seconds(large) < 20 * seconds(small)


@pytest.mark.first_tier
def test_findings_are_those_of_numpy(library):
    ours, _ = run(ROUND, xps.MALA(0.05), seed=xps.Portable(1), draws=300)
    theirs, warned = run(ROUND, xps.MALA(0.05), library.array(STARTS), seed=xps.Portable(1), draws=300)
    assert [f.kind for f in theirs.diagnose()] == [f.kind for f in ours.diagnose()]
    for a, b in zip(theirs.diagnose(), ours.diagnose(), strict=True):
        assert a.value == pytest.approx(b.value, rel=1e-6) and a.coordinates == b.coordinates
    assert len(warned) == len(ours.diagnose()) > 2


@pytest.mark.parametrize("kernel", [xps.HMC(0.5, 6), pytest.param(xps.NUTS(0.5), marks=pytest.mark.release)])
def test_energies_of_hamiltonian_kernels_tell_heavy_tails(kernel):
    """50 Cauchy coordinates: the energy spreads far wider than the 5 by which fresh momenta change it."""
    x0 = np.random.default_rng(0).normal(size=(4, 50))
    heavy = xps.Target(lambda x: -np.sum(np.log1p(x**2), axis=-1), score=lambda x: -2 * x / (1 + x**2))
    normal = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    of_heavy, of_normal = (run(target, kernel, x0, 500)[0] for target in (heavy, normal))
    assert abs(of_normal.statistics["energy"].mean() - 50) < 2  # half of it potential, half kinetic
    assert "energy" in kinds(of_heavy) and "energy" not in kinds(of_normal)


def judged(draws, diverged, kernel=None, recorded=None):
    """The kinds of findings of draws and of each chain's count of divergences."""
    full = np.full(draws.shape[1], 0.7)
    statistics = RunStatistics(len(draws), full, full, np.asarray(diverged), {})
    names, settings = list("abcdefghi")[: draws.shape[-1]], {} if kernel is None else about(kernel, xps.Real(), 2)
    return diagnose(draws, names, statistics, recorded or {}, settings)


@pytest.mark.parametrize(
    ("steps", "kernel", "diverged", "found"),
    [
        (10_000, xps.MALA(0.5), 1, False),
        (10_000, xps.ULA(0.5), 1, True),
        (1000, xps.MALA(0.5), 6, False),
        (1000, xps.MALA(0.5), 7, True),
    ],
    ids=["rejects", "nothing rejects", "2 in 4000 explain", "too many"],
)
def test_a_few_divergences_are_told_where_nothing_rejects_or_chance_explains_them(steps, kernel, diverged, found):
    """A Poisson variable of mean 2 exceeds 6 in one case of 200."""
    draws = np.random.default_rng(0).normal(size=(steps, 4, 2))
    findings = judged(draws, [diverged, 0, 0, 0], kernel)
    assert [f.kind for f in findings] == (["divergences"] if found else [])


@pytest.mark.parametrize("diverged", [[0, 0, 0, 0], [5, 0, 0, 0]])
def test_values_on_their_way_to_the_smallest_numbers_are_told_where_a_chain_diverged(diverged):
    found = judged(np.exp(np.random.default_rng(0).normal(-400, 1, (1000, 4, 1))), diverged)
    assert any(f.kind == "underflow" for f in found) == any(diverged)


@pytest.mark.parametrize("neck", [False, True], ids=["anywhere", "in a neck"])
def test_a_few_divergences_are_told_where_they_are_in_one_region(neck):
    """Six of 40,000 steps: a neck that the chains do not enter, which no other finding sees."""
    draws = np.random.default_rng(0).normal(size=(10_000, 4, 2))
    rows = np.zeros(draws.shape[:2], dtype=bool)
    rows[np.argsort(draws[:, 0, 0])[:6] if neck else np.arange(0, 6000, 1000), 0] = True
    found = judged(draws, np.sum(rows, axis=0), recorded={"diverged": rows})
    assert [f.kind for f in found] == (["divergences"] if neck else [])
    assert all(", near a = -3." in f.what for f in found)
