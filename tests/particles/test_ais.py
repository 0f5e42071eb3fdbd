"""Annealed importance sampling: known normalisers within the stated errors, and weights by hand."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom

from tests.enumerated import listed, quadratic
from tests.kernels.support import COVARIANCE, noise_of, walk
from xpsample import sample
from xpsample.core.errors import ConvergenceWarning, HyperparameterError, TraceError
from xpsample.kernels import DMALA, GWG, HMC, MALA, RWM, ULA, Gibbs
from xpsample.particles.ais import AIS, AISState, log_normalizer
from xpsample.particles.annealed import Annealed
from xpsample.particles.smc import TemperedSMC
from xpsample.targets import Capability, Target
from xpsample.targets.bridge import AnnealedTarget, Bridge
from xpsample.zoo.gaussian import gaussian

BATCHES, CHAINS = 300, 200
BAD_WEIGHTS = [[0.0], [-math.inf, -math.inf], [0.0, math.nan], [0.0, math.inf]]
BAD_LADDERS = [(0.0,), (0.1, 1.0), (0.0, 0.9), (0.0, 0.6, 0.5, 1.0)]
BETAS = np.linspace(0.0, 1.0, 9)
MEAN = np.asarray([0.5, -1.0, 0.3])


def covered(log_weights, initial, exact):
    """In how many batches (axis 0) the exact value is within 1.96 standard errors; and, of all chains, how far off."""
    batches = [log_normalizer(rows, initial) for rows in log_weights]
    inside = sum(abs(b.value - exact) < 1.96 * b.standard_error for b in batches)
    whole = log_normalizer(log_weights, initial)
    return inside, abs(whole.value - exact) / whole.standard_error, whole


def assert_exact(log_weights, initial, exact):
    """Coverage of 95 % to 1.5 % (delta method, batches of this size); error probability 1e-6 each, seeds fixed."""
    inside, off, whole = covered(log_weights, initial, exact)
    assert binom.ppf(1e-6, BATCHES, 0.935) < inside < binom.isf(1e-6, BATCHES, 0.965)
    assert off < 5.0
    assert whole.weight_ess < 0.98 * log_weights.size


def anneal_bits(kernel, batches=BATCHES):
    target, dim = quadratic("bits", 2.0)
    states, _ = listed(target, dim)
    x0 = states[np.random.default_rng(1).integers(0, len(states), (batches, CHAINS))]
    trace = sample(target, kernel, x0, 1, seed=1, burn_in=len(BETAS) - 2)
    exact = math.log(np.sum(np.exp(target.log_density(states, target.data))))
    return trace.state.log_weight, math.log(len(states)), exact


@pytest.mark.parametrize("base", [GWG(), DMALA(0.5), Gibbs()], ids=["GWG", "DMALA", "Gibbs"])
def test_the_normaliser_of_a_listed_target(base):
    assert_exact(*anneal_bits(AIS(base, BETAS)))


@dataclass(frozen=True, eq=False)
class Late(AIS):
    """The weight taken after the move instead of before."""

    def step(self, target, state, noise):
        new, info = super().step(target, state, noise)
        ahead = AISState(new.base, state.betas, state.log_weight, state.n)
        return new._replace(log_weight=super().step(target, ahead, noise)[0].log_weight), info


@pytest.mark.slow
def test_a_weight_taken_too_late_is_caught():
    inside, off, _ = covered(*anneal_bits(Late(GWG(), BETAS)))
    assert inside < 0.5 * BATCHES
    assert off > 20


WIDE = gaussian(4.0 * np.eye(3))
NARROW = gaussian(COVARIANCE, MEAN)


@pytest.mark.parametrize("base", [RWM(0.8), MALA(0.3), HMC(0.4, 2)], ids=["RWM", "MALA", "HMC"])
def test_the_normaliser_of_a_gaussian(base):
    x0 = 2.0 * np.random.default_rng(2).standard_normal((BATCHES, CHAINS, 3))
    trace = sample(Bridge(WIDE, NARROW), AIS(base, BETAS), x0, 1, seed=1, burn_in=len(BETAS) - 2)
    initial = 1.5 * math.log(2 * math.pi * 4)
    exact = 0.5 * np.linalg.slogdet(2 * math.pi * COVARIANCE)[1]
    assert_exact(trace.state.log_weight, initial, exact)
    # The weighted draws are of the target.
    weights = np.exp(trace.state.log_weight - np.max(trace.state.log_weight))
    mean = np.sum(weights[..., None] * trace.draws[0], axis=(0, 1)) / np.sum(weights)
    ess = np.sum(weights) ** 2 / np.sum(weights**2)
    assert np.all(np.abs(mean - MEAN) < 5 * np.sqrt(np.diag(COVARIANCE) / ess))


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
