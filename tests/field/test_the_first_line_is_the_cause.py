"""What is wrong is told first, and what follows from it says so: sick models, with the scale that makes them worse.

numpyro#1203 (no chain moves where counts are large), nutpie#12 (a constant score).
"""

import warnings

import numpy as np
import pytest

import xpsample as xps
from tests.field.support import (
    FINITE,
    NORMAL,
    gaussian,
    kinds,
    named,
    normal,
    of_precision,
    quiet,
    told,
    two_modes,
)
from xpsample.core.errors import DiagnosisWarning, HyperparameterError
from xpsample.diagnostics.findings import Finding, causes_first, explains, follows_from
from xpsample.diagnostics.target import _around, _of_those_that_moved

STARTS = normal(2)


def sweep(*values):
    """The first one is of the first tier, and all others of the rest."""
    return [values[0], *(pytest.param(value, marks=pytest.mark.slow) for value in values[1:])]


def kernels(*values):
    return pytest.mark.parametrize("kernel", sweep(*values), ids=named)


def check(findings, *causes):
    """The first finding is one of the causes; what it explains has no advice of its own."""
    assert findings and findings[0].kind in causes, [str(f) for f in findings]
    kinds = [finding.kind for finding in findings]
    assert len(set(kinds)) == len(kinds)
    for finding in findings[1:]:
        if explains(findings[0], finding):
            assert finding.advice == follows_from(findings[0].kind)
    advice = " ".join(finding.advice for finding in findings)
    assert not ("smaller step" in advice and "larger step" in advice)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def with_offset(offset):
    return xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) - np.asarray(offset, dtype=x.dtype), score=lambda x: -x)


@kernels(xps.HMC(), xps.MALA(), xps.RWM())
@pytest.mark.parametrize("offset", sweep(1e8, 1e7, 1e10))
def test_an_offset_in_float32(kernel, offset):
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        trace = xps.sample(with_offset(offset), kernel, STARTS.astype(np.float32), 300, seed=1, progress=False)
    check(trace.diagnose(), "precision")
    said = [str(w.message) for w in caught if issubclass(w.category, DiagnosisWarning)]
    first, second, *others = "\n".join(said).splitlines()
    assert first.startswith("at the start, log densities") and "float64" in first
    assert not others or (second.startswith("log densities") and "follows from 'precision'" in " ".join(others))


def test_an_offset_that_float64_has_digits_for():
    assert told(with_offset(1e8), xps.HMC(), STARTS) == ()
    assert told(with_offset(1e3), xps.HMC(), STARTS.astype(np.float32)) == ()


@pytest.mark.slow
def test_counts_of_twenty_million_in_float32():
    """A binomial of which no chain moves, or hardly: a smaller step would not help."""
    n, y = np.float32(5e7), np.float32(2e7)
    target = xps.Target(
        lambda z: np.sum(y * z - n * np.logaddexp(np.float32(0), z), axis=-1), score=lambda z: y - n / (1 + np.exp(-z))
    )
    for kernel in (xps.RWM(), xps.HMC()):
        check(told(target, kernel, 0.01 * STARTS[:, :1].astype(np.float32), 300), "precision")


@kernels(xps.RWM(), xps.HMC())
def test_values_that_underflow(kernel):
    """Gamma(0.001, 0.001): half of its mass is below the smallest number there is."""
    model = xps.Model(lambda p: -0.999 * np.log(p.t) - 0.001 * p.t, t=xps.Positive(), gradient=FINITE)
    check(told(model, kernel), "underflow")


@pytest.mark.sampled(6)
@kernels(xps.RWM(), xps.HMC())
@pytest.mark.parametrize("dtype", sweep("float64", "float32"))
@pytest.mark.parametrize("strength", sweep(0.01, 0.003))
def test_probabilities_that_underflow(kernel, strength, dtype):
    """A Dirichlet of 0.01: the density is infinite where a probability underflows to 0, and steps diverge there."""
    model = xps.Model(
        lambda p: (np.asarray(strength, dtype) - 1) * np.sum(np.log(p.p), axis=-1),
        p=xps.Simplex(4),
        gradient=xps.FiniteDifference(1e-4 if dtype == "float64" else 1e-2),
    )
    check(told(model, kernel, model.start(like=np.zeros(0, dtype), chains=4, seed=0)), "underflow", "precision")


# ---- densities -------------------------------------------------------------------------------------------------------


@kernels(xps.MALA(), xps.HMC(), xps.NUTS(), xps.RWM())
@pytest.mark.parametrize("scale", sweep(1.0, 0.01, 100.0))
def test_a_bound_that_nobody_declared(kernel, scale):
    """What a user of emcee writes first: where(any(x <= 0), -inf, ...)."""
    whole = gaussian(scale)
    target = xps.Target(lambda x: np.where(np.any(x <= 0, axis=-1), -np.inf, whole.log_density(x)), score=whole.score)
    findings = told(target, kernel, scale * np.abs(STARTS) + 0.1 * scale, 500)
    check(findings, "bound")
    assert "constrained=True" in findings[0].advice


@pytest.mark.slow
@kernels(xps.HMC(), xps.NUTS(), xps.RWM())
def test_a_declared_bound_that_most_moves_cross(kernel):
    """An exponential distribution in 20 dimensions, densest in its corner."""
    target = xps.Target(
        lambda x: np.where(np.any(x <= 0, axis=-1), -np.inf, -np.sum(x, axis=-1)),
        score=lambda x: -np.ones_like(x),
        constrained=True,
    )
    findings = told(target, kernel, np.random.default_rng(0).exponential(size=(4, 20)), 500)
    check(findings, "bound")
    assert "Positive()" in findings[0].advice and "constrained" not in findings[0].advice


FLAT = xps.Target(lambda x: -0.5 * x[..., 0] ** 2, score=lambda x: -x * np.asarray([1.0, 0.0]))


@kernels(xps.MALA(0.8), xps.HMC(0.3, length=3.0), xps.NUTS(0.3, max_depth=5), xps.RWM(1.0))
def test_a_density_without_a_finite_integral(kernel):
    check(told(FLAT, kernel, STARTS, 500), "improper")


@pytest.mark.slow
@kernels(xps.HMC(), xps.NUTS())
def test_a_flat_direction_from_defaults(kernel):
    """The warm-up ends where its scales run away, and says why."""
    with pytest.raises(HyperparameterError, match="the density does not fall off"):
        told(FLAT, kernel, STARTS, 100)


# ---- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_chain_of_64_in_another_mode():
    x0 = normal(1, chains=64) - 6
    x0[-1] = 6.0
    check(told(two_modes(6.0), xps.HMC(), x0, 300), "modes")


@pytest.mark.parametrize("scale", sweep(1e3, 30.0, 1e5))
def test_a_slow_walk(scale):
    findings = told(gaussian(np.array([1.0, scale])), xps.MALA(0.5), STARTS * [1, scale])
    check(findings, "slow")
    assert "larger steps" in findings[0].advice and "ParallelTempering" not in findings[0].advice


@kernels(xps.RWM(), xps.MALA())
@pytest.mark.parametrize("rho", sweep(0.9999, 0.995, 0.999999))
def test_a_narrow_correlation(kernel, rho):
    findings = told(of_precision(np.linalg.inv(np.array([[1, rho], [rho, 1]]))), kernel, STARTS)
    check(findings, "correlated")
    assert "DenseMetric" in findings[0].advice


def test_labels_that_chains_have_swapped():
    y = np.random.default_rng(0).normal([-3.0] * 30 + [3.0] * 30)

    def log_density(x):
        each = np.logaddexp(-0.5 * (y - x[..., :1]) ** 2, -0.5 * (y - x[..., 1:]) ** 2)
        return np.sum(each, axis=-1) - 0.005 * np.sum(x**2, axis=-1)

    x0 = np.array([[-3.0, 3], [3, -3], [-3, 3], [3, -3]])
    findings = told(xps.Target(log_density, gradient=FINITE), xps.HMC(), x0, 300)
    check(findings, "labels")
    assert "Ordered" in findings[0].advice


# ---- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", sweep(300.0, 3e4))
def test_nuts_at_its_greatest_depth(scale):
    target, x0 = gaussian(np.array([1.0, scale])), STARTS * [1.0, scale]
    trace = quiet(target, xps.NUTS(0.5, max_depth=5), x0, 200)
    assert trace.statistics["depth"].shape == (200, 4)
    check(trace.diagnose(), "depth")
    assert "max_depth" in trace.diagnose()[0].advice


@pytest.mark.slow
@pytest.mark.parametrize("nu", [1.0, 2.0])
def test_a_heavy_tail_is_no_way_in(nu):
    """Chains that begin in a tail, where they are as far out later: 10 runs of each."""
    target = xps.Target(
        lambda x: -0.5 * (nu + 1) * np.sum(np.log1p(x**2 / nu), axis=-1), score=lambda x: -(nu + 1) * x / (nu + x**2)
    )
    for seed in range(5):
        x0 = np.random.default_rng(seed).standard_t(nu, size=(4, 2))
        assert not {"transient", "modes", "improper"} & {f.kind for f in told(target, xps.HMC(), x0, seed=seed)}


@pytest.mark.parametrize("draws", [1, 2, 3])
def test_a_few_draws_of_a_run_with_findings(draws):
    """Nothing is said of a way that was not gone, and no warning of NumPy's."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = xps.NUTS(0.1, max_depth=2)
        trace = xps.sample(NORMAL, kernel, STARTS, draws, burn_in=9, seed=1, progress=False)
    assert "depth" in kinds(trace) and "improper" not in kinds(trace)
    assert all(issubclass(w.category, DiagnosisWarning) for w in caught), [str(w.message) for w in caught]


def test_chains_that_never_move_say_nothing_of_far_out():
    """Most of them: along the way of such a chain the log density stays as it is."""
    step = np.asarray([1e9] * 6 + [0.02, 0.02])
    found = kinds(told(NORMAL, xps.RWM(step), np.tile(STARTS, (2, 1))))
    assert "stuck" in found and "rhat" in found and "improper" not in found


def test_a_chain_that_is_stuck_where_the_density_overflows_is_behind():
    """Around it the log density is -inf in float32: that is no bound of the others, which are well."""

    def steep(x):
        return np.exp(3 * (x[..., 0] - 2))

    target = xps.Target(
        lambda x: -0.5 * np.sum(x * x, -1) - steep(x), score=lambda x: -x - np.stack([3 * steep(x), 0 * x[..., 1]], -1)
    )
    x0 = STARTS.astype(np.float32)
    x0[2, 0] = 14.0
    first, *others = told(target, xps.HMC(), x0, 500, warmup=500)  # one of no given length frees it
    assert first.kind == "behind" and first.chains == ((2,),)
    assert not {"bound", "improper"} & {f.kind for f in others}


# ---- other libraries -------------------------------------------------------------------------------------------------


DENSITIES = {
    "bound": lambda xp, x: xp.where(x[..., 0] <= 0, -xp.inf, -0.5 * (x**2).sum(-1)),
    "precision": lambda xp, x: -0.5 * (x**2).sum(-1) - 1e8,
    "correlated": lambda xp, x: -0.5 * (x[..., 0] ** 2 + (x[..., 1] - x[..., 0]) ** 2 / 1e-6),
}


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("cause", DENSITIES)
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_the_cause_on_other_libraries(name, cause):
    xp = pytest.importorskip({"torch": "torch", "jax": "jax.numpy"}[name])
    x0 = np.abs(STARTS).astype(np.float32) * (1e-2 if cause == "correlated" else 1)
    target = xps.Target(lambda x: DENSITIES[cause](xp, x))
    check(told(target, xps.RWM(), xp.asarray(x0, dtype=xp.float32), 500), cause)


# ---- the order -------------------------------------------------------------------------------------------------------


def test_a_cause_of_one_group_explains_nothing_of_another():
    of = lambda kind, *groups: Finding(kind, kind, 1.0, "own advice", groups=tuple((g,) for g in groups))  # noqa: E731
    found = causes_first([of("rhat", 0, 1), of("ess_bulk", 0), of("modes", 0)])
    assert [f.kind for f in found] == ["modes", "rhat", "ess_bulk"]
    assert [f.advice for f in found] == ["own advice", "own advice", follows_from("modes")]


def test_every_kind_is_told_once_and_of_others_nothing_is_said():
    found = causes_first([Finding(k, k, 1.0, "own") for k in ("ess_bulk", "mine", "precision", "precision", "batches")])
    assert [f.kind for f in found] == ["precision", "mine", "batches", "ess_bulk"]
    assert [f.advice for f in found[:3]] == ["own"] * 3


@pytest.mark.parametrize(
    ("cause", "kind", "follows"),
    [
        ("stuck", "modes", False),  # judged without the chains that never moved
        ("stuck", "divergences", True),
        ("annealing", "divergences", False),
        ("annealing", "heat", True),
        ("heat", "rhat", False),
        ("mine", "rhat", False),
        ("rhat", "modes", False),
        ("ess_bulk", "until", True),
    ],
)
def test_what_has_a_cause_of_its_own_keeps_its_advice(cause, kind, follows):
    found = {f.kind: f for f in causes_first(Finding(k, k, 1.0, "own") for k in (kind, cause))}
    assert found[kind].advice == (follows_from(cause) if follows else "own")


def test_places_around_a_chain_that_never_moved_are_not_looked_at():
    rows = np.random.default_rng(0).normal(size=(16, 2, 3, 2))
    rows[:, 1, 2] = 1e3
    assert max(np.max(np.abs(places)) for places in _around(_of_those_that_moved(rows))) < 20
    assert max(np.max(np.abs(places)) for places in _around(rows)) > 900
