"""Annealed importance sampling and tempered SMC: weights by hand, known normalisers within the stated errors."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom

from tests.enumerated import listed, quadratic
from tests.kernels.support import COVARIANCE, noise_of, walk
from xpsample import HiSS, Portable, Record, sample
from xpsample.core.errors import ConvergenceWarning, HyperparameterError, TraceError
from xpsample.kernels import DMALA, GWG, MALA, RWM, ULA, Gibbs
from xpsample.particles.ais import AIS, AISState, log_normalizer
from xpsample.particles.annealed import Annealed
from xpsample.particles.smc import TemperedSMC, particle_log_normalizer
from xpsample.targets import Capability, Target
from xpsample.targets.bridge import AnnealedTarget, Bridge
from xpsample.zoo.gaussian import gaussian

BETAS = np.linspace(0.0, 1.0, 9)
WIDE, NARROW = gaussian(4.0 * np.eye(3)), gaussian(COVARIANCE, np.asarray([0.5, -1.0, 0.3]))
INITIAL = 1.5 * math.log(8 * math.pi)
EXACT = 0.5 * np.linalg.slogdet(2 * math.pi * COVARIANCE)[1]


def start(*chains, dim=3, sd=2.0, seed=2):
    return sd * np.random.default_rng(seed).standard_normal((*chains, dim))


def smc(kernel, x0, bridge, steps):
    return sample(bridge, kernel, x0, 1, seed=1, burn_in=steps - 1, recorders=()).state


def covered(result, exact):
    """How many runs have the exact value within 1.96 of their stated errors."""
    return int(np.sum(np.abs(result.value - exact) < 1.96 * result.standard_error))


def assert_exact(result, exact, least, most):
    """Coverage between two probabilities, error probability 1e-6 each; and of all runs together within 5 errors."""
    runs = len(result.value)
    assert binom.ppf(1e-6, runs, least) < covered(result, exact) < binom.isf(1e-6, runs, most)
    whole = log_normalizer(result.value)
    assert abs(whole.value - exact) < 5 * whole.standard_error


def ratio_of_errors(result):
    """Root mean square of the stated errors over the scatter of the values."""
    return math.sqrt(np.mean(result.standard_error**2)) / np.std(result.value, ddof=1)


@pytest.mark.parametrize("base", [RWM(0.4), RWM()], ids=["given", "tuned"])
def test_several_moves_at_each_temperature(base):
    """As exact as one is, and they carry small steps further, so that the estimate varies less."""
    once, often = (
        particle_log_normalizer(
            smc(TemperedSMC(base, BETAS, threshold=1.0, moves=moves), start(200, 100), Bridge(WIDE, NARROW), 8), INITIAL
        )
        for moves in (1, 8)
    )
    whole = log_normalizer(often.value)
    assert abs(whole.value - EXACT) < 5 * whole.standard_error
    assert np.std(often.value) < 0.8 * np.std(once.value)


def test_a_kernel_with_noise_of_an_inner_one_keeps_its_own_at_each_move():
    """HiSS and its inner kernel both have numbers called ``accept``: each move's are those of one step, unchanged."""
    base, x = HiSS(GWG(), 1.0, 2, 3), np.zeros((2, 5, 4))
    kernel = TemperedSMC(base, (0.0, 0.5, 1.0), threshold=0.0, moves=3)
    inner = {name.removeprefix("base/"): spec for name, spec in kernel.noise(x).items()}
    assert inner == {name: spec._replace(shape=(3, *spec.shape)) for name, spec in base.noise(x).items()}
    assert len(inner) == len(kernel.noise(x))


def always():
    """MALA, resampled at every step: a single run's stated error is noisy then, so all of them are taken together."""
    state = smc(TemperedSMC(MALA(0.3), BETAS, threshold=1.0, moves=1), start(200, 200), Bridge(WIDE, NARROW), 8)
    return particle_log_normalizer(state, INITIAL)


def test_the_stated_error_with_resampling_at_every_step():
    result = always()
    whole = log_normalizer(result.value)
    assert abs(whole.value - EXACT) < 5 * whole.standard_error
    assert 0.8 < ratio_of_errors(result) < 1.3  # 200 values scatter by 5 %


def test_weights_that_are_not_reset_are_caught(monkeypatch):
    monkeypatch.setattr("xpsample.particles.weights.Weights.reset", lambda self, xp, where: self)
    assert ratio_of_errors(always()) > 1.5


def test_without_resampling_it_is_ais(library):
    x0 = library.array(start(2, 30))
    options = {"seed": Portable(1), "burn_in": 7, "recorders": ()}
    ours = sample(Bridge(WIDE, NARROW), TemperedSMC(MALA(0.3), BETAS, threshold=0.0, moves=1), x0, 1, **options).state
    theirs = sample(Bridge(WIDE, NARROW), AIS(MALA(0.3), BETAS), x0, 1, **options).state
    np.testing.assert_allclose(library.host(ours.point.x), library.host(theirs.point.x), rtol=1e-12)
    logs = library.host(ours.weights.logs) + library.host(ours.weights.log_normalizer)[:, None] + math.log(30)
    np.testing.assert_allclose(logs, library.host(theirs.log_weight), rtol=1e-9, atol=1e-9)
    result = particle_log_normalizer(ours, 3.0)
    for run in range(2):
        expected = log_normalizer(theirs.log_weight[run, :], 3.0)
        found = [result.value[run], result.standard_error[run], result.weight_ess[run]]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


class TestAdaptiveTemperatures:
    """Chosen so that the conditional effective sample size falls to a share of the particles."""

    RECORDERS = (
        Record("beta", lambda state: state.beta),
        Record("x", lambda state: state.point.x),
        Record("logs", lambda state: state.weights.logs),
    )

    def test_each_step_costs_what_was_asked_for(self):
        bridge, share = Bridge(WIDE, NARROW), 0.8
        kernel = TemperedSMC(RWM(0.5), ess=share, threshold=0.6, moves=1)
        run = sample(bridge, kernel, start(3, 200), 30, seed=1, recorders=self.RECORDERS).recorded
        betas, x, logs = run["beta"][..., 0], run["x"], run["logs"]
        assert np.all(betas[-1] == 1.0) and np.all(np.diff(betas, axis=0) >= 0) and len({*map(tuple, betas.T)}) == 3
        bound = bridge.prepare(x[0], RWM(0.5).requires)
        for t in range(1, 30):
            point = bound.evaluate(x[t - 1])
            gain = np.exp((betas[t] - betas[t - 1])[:, None] * (point.log_density - point.base.initial.log_density))
            w = np.exp(logs[t - 1])
            found = np.sum(w * gain, axis=-1) ** 2 / np.sum(w * gain**2, axis=-1)
            inside = betas[t] < 1
            np.testing.assert_allclose(found[inside], share, rtol=1e-6)
            assert np.all(found[~inside] > share * (1 - 1e-6))

    def test_the_normaliser(self):
        """Adaptation biases the estimate by O(1 / particles), less than its error here."""
        kernel = TemperedSMC(MALA(0.3), ess=0.8, threshold=0.5, moves=1)
        state = smc(kernel, start(100, 400), Bridge(WIDE, NARROW), 12)
        assert np.all(state.beta == 1.0)
        assert_exact(particle_log_normalizer(state, INITIAL), EXACT, 0.90, 0.99)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "neither is set. With ess=0.8"),
        ({"betas": BETAS, "ess": 0.5}, "needs betas or ess, and both are set"),
        ({"ess": 1.0}, "ess must be greater than 0 and below 1"),
        ({"betas": (0.0, 0.5)}, "from 0 to 1"),
        ({"ess": 0.5, "threshold": 2.0}, "threshold must be at least 0 and at most 1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(HyperparameterError, match=message):
        TemperedSMC(RWM(0.5), **settings)
    with pytest.raises(HyperparameterError, match="moves particles"):
        sample(Bridge(WIDE, NARROW), TemperedSMC(RWM(0.5), BETAS), np.zeros(3), 1, seed=1)


BATCHES, CHAINS = 300, 200
BAD_WEIGHTS = [[0.0], [-math.inf, -math.inf], [0.0, math.nan], [0.0, math.inf]]
BAD_LADDERS = [(0.0,), (0.1, 1.0), (0.0, 0.9), (0.0, 0.6, 0.5, 1.0)]
MEAN = np.asarray([0.5, -1.0, 0.3])


def anneal_bits(kernel):
    """The estimates of all batches, and the exact value."""
    target, dim = quadratic("bits", 2.0)
    states, _ = listed(target, dim)
    x0 = states[np.random.default_rng(1).integers(0, len(states), (BATCHES, CHAINS))]
    log_weights = sample(target, kernel, x0, 1, seed=1, burn_in=len(BETAS) - 2).state.log_weight
    batches = [log_normalizer(rows, math.log(len(states))) for rows in log_weights]
    assert log_normalizer(log_weights).weight_ess < 0.98 * log_weights.size
    exact = math.log(np.sum(np.exp(target.log_density(states, target.data))))
    return type(batches[0])(*map(np.asarray, zip(*batches, strict=True))), exact


@pytest.mark.parametrize("base", [GWG(), DMALA(0.5), Gibbs()], ids=["GWG", "DMALA", "Gibbs"])
def test_the_normaliser_of_a_listed_target(base):
    """Coverage of 95 % to 1.5 % (delta method, batches of this size)."""
    assert_exact(*anneal_bits(AIS(base, BETAS)), 0.935, 0.965)


@dataclass(frozen=True, eq=False)
class Late(AIS):
    """The weight taken after the move instead of before."""

    def step(self, target, state, noise):
        new, info = super().step(target, state, noise)
        ahead = AISState(new.base, state.betas, state.log_weight, state.n)
        return new._replace(log_weight=super().step(target, ahead, noise)[0].log_weight), info


@pytest.mark.slow
def test_a_weight_taken_too_late_is_caught():
    result, exact = anneal_bits(Late(GWG(), BETAS))
    assert covered(result, exact) < 0.5 * BATCHES
    whole = log_normalizer(result.value)
    assert abs(whole.value - exact) > 20 * whole.standard_error


def test_weights_by_hand(library):
    """Random-walk chains over a bridge, and past its end."""
    betas, x = (0.0, 0.3, 0.3, 1.0), 2.0 * np.random.default_rng(3).standard_normal((20, 3))
    kernel = AIS(RWM(0.7), betas)
    noise = noise_of(kernel, x, 5)
    positions, infos, state = walk(library, kernel, x, noise, Bridge(WIDE, NARROW))

    def ends(x):
        return [-0.5 * np.sum((x - m) * np.linalg.solve(c, (x - m).T).T, axis=-1) for m, c in ENDS]

    log_weight = np.zeros(20)
    for t in range(5):
        now, later = (betas[min(i, 3)] for i in (t, t + 1))
        first, last = ends(x)
        log_weight += (later - now) * (last - first)
        y = x + 0.7 * noise["proposal"][t]
        new_first, new_last = ends(y)
        log_ratio = (1 - later) * (new_first - first) + later * (new_last - last)
        x = np.where((np.log(noise["accept"][t]) < log_ratio)[:, None], y, x)
        np.testing.assert_allclose(positions[t], x, rtol=1e-12)
    np.testing.assert_allclose(library.host(state.log_weight), log_weight, rtol=1e-9)
    assert infos[0].evaluations.log_density == 2


ENDS = ((np.zeros(3), 4.0 * np.eye(3)), (MEAN, COVARIANCE))


def test_members_of_a_bridge_mix_their_ends(library):
    needs = Capability.LOG_DENSITY | Capability.SCORE | Capability.HVP | Capability.DIFFERENCES
    (first, dim), (last, _) = quadratic("mixed", 0.5), quadratic("mixed", 2.0)
    x = library.array(first.space.states(dim))
    v = library.array(np.random.default_rng(5).normal(size=(24, dim)))
    bridge = Bridge(first, last).prepare(x, needs)
    beta = 0.3
    member = AnnealedTarget(bridge, beta)
    point, ends = member.evaluate(x), [t.prepare(x, needs) for t in (first, last)]
    points = [end.evaluate(x) for end in ends]

    def mixed(a, b):
        return 0.7 * library.host(a) + 0.3 * library.host(b)

    for name in ("log_density", "score", "differences"):
        expected = mixed(*(getattr(p, name) for p in points))
        np.testing.assert_allclose(library.host(getattr(point, name)), expected, rtol=1e-12)
    np.testing.assert_allclose(library.host(member.score(x)), mixed(*(e.score(x) for e in ends)), rtol=1e-12)
    np.testing.assert_allclose(library.host(member.hvp(x, v)), mixed(*(e.hvp(x, v) for e in ends)), atol=1e-12)
    moved = AnnealedTarget(bridge, 1.0).refresh(point)
    np.testing.assert_allclose(library.host(moved.log_density), library.host(points[1].log_density), rtol=1e-12)
    assert member.costs.score.score == 2


SHORT = [
    (AIS(RWM(1.0), BETAS), 4, 8, "at beta 0.5, before 1, .* make 4 more steps"),
    (TemperedSMC(RWM(1.0), BETAS, moves=1), 7, 8, "at beta 0.875, .* make 1 more step; increase"),
    (TemperedSMC(RWM(0.2), ess=0.5, moves=1), 1, 30, "at beta 0.* make more steps"),
    (Annealed(ULA(0.0001), (4.0, 2.0, 1.0, 1.0), 2), 2, 3, "at noise level 2, before 1, .* make 2 more steps"),
]


@pytest.mark.parametrize(("kernel", "few", "enough", "message"), SHORT, ids=["AIS", "SMC", "SMC-ess", "Annealed"])
def test_a_run_that_ends_on_its_ladder_says_so(kernel, few, enough, message):
    narrow = Target(
        lambda x, data: -50.0 * np.sum(x**2, axis=-1) / data["sigma"],
        score=lambda x, data: -100.0 * x / data["sigma"],
        data={"sigma": np.asarray(1.0)},
    )
    target = narrow if isinstance(kernel, Annealed) else Bridge(gaussian(np.eye(2)), narrow)
    x0 = np.random.default_rng(1).normal(size=(50, 2))
    with pytest.warns(ConvergenceWarning, match=message):
        trace = sample(target, kernel, x0, few, seed=1)
    assert [finding.kind for finding in trace.diagnose()] == ["annealing"]
    whole = sample(target, kernel, x0, enough, seed=1)
    assert "annealing" not in [finding.kind for finding in whole.diagnose()]
    assert "counts all draws alike" in str(whole.summary()) and "counts all" in whole.summary()._repr_html_()


def test_log_normalizer_by_hand(library):
    weights = np.asarray([[1.0, 2.0], [0.0, 5.0]])
    with np.errstate(divide="ignore"):
        found = log_normalizer(library.array(np.log(weights) - 700.0), 3.0)
    assert found.value == pytest.approx(math.log(2.0) - 697.0)
    assert found.standard_error == pytest.approx(np.std(weights, ddof=1) / 2.0 / 2.0)
    assert found.weight_ess == pytest.approx(64 / 30)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        *(
            (lambda w=w: log_normalizer(np.asarray(w)), TraceError, "log weights must be below inf")
            for w in BAD_WEIGHTS
        ),
        *(
            (lambda b=b: AIS(GWG(), b), HyperparameterError, "betas must go from 0 to 1|2 at least")
            for b in BAD_LADDERS
        ),
    ],
)
def test_bad_weights_and_ladders_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
