"""The repellence strength that is left out: prediction and simulation, its bounds, groups, libraries, refusals."""

from types import SimpleNamespace

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.adaptation.rules_support import gaussian, normals, rotated, spins
from xpsample.core.errors import XpsampleError
from xpsample.kernels.adapted import with_tuning
from xpsample.srmc import Frozen, LeapfrogAutocorrelation, LowestError, Stable, pilot, stability_bound, theory
from xpsample.zoo.curved import banana, bend

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
"""Some tilts are too strong on purpose."""

SEED = xps.Portable(3)


def run(kernel, x0, draws=5, target=None, **settings):
    target = gaussian(np.eye(x0.shape[-1])) if target is None else target
    return xps.sample(target, kernel, x0, draws, **{"seed": SEED, **settings})


@pytest.mark.parametrize(("rho", "scale"), [(1.0, 1.0), (1.0, 0.7), (1.0, 2.0), (0.7, 1.0)])
@pytest.mark.parametrize("noise", [(3.0, -2.0, 2.0), (5.0, -0.3, 1.0), (1.0, 0.4, 4.0)])
def test_a_direction_alone_is_as_the_theorem_has_it(rho, scale, noise):
    alpha = np.asarray([0.1, 1.0, 30.0])
    found = theory.direction_variance(alpha, np.asarray(2.0), -1.0, *map(np.asarray, noise), rho, scale)
    (s, both, x), one = noise, np.ones((1, 1))
    linear = theory.Linearization(2.0 * one, -one, np.asarray([[s, both], [both, x]]))
    expected = theory.average_covariance(linear, alpha, xps.PowerLaw(rho, scale))[:, 0, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
def test_the_error_falls_as_predicted():
    """Means of 1,000 steps of 256 chains. Along each of 4 coordinates with the precision p the recursion of Prop. 3.4
    with gamma_n = 1 / (n + m) leaves (1 + m / n) (1 - (m / (m + n))^(2 a + 1)) / (2 a + 1) of the error, a = alpha p.
    The ratio of two means of 1,024 squares has a relative standard error of 6 %: 5 of them.
    """
    precision, n, m = np.geomspace(0.5, 2.0, 4), 1000, 100.0
    target, x0 = gaussian(np.diag(precision)), normals(256, 4)
    base, repelled = (run(kernel, x0, n, target, warmup=400) for kernel in (xps.MALA(), xps.SRMC(xps.MALA())))
    squares = [np.mean(np.mean(trace.draws, axis=0) ** 2 * precision) for trace in (base, repelled)]
    a = repelled.kernel.alpha * precision
    # Errors of x^2 p have the same variance in all coordinates for a preconditioned base.
    predicted = np.mean((1 + m / n) * (1 - (m / (m + n)) ** (2 * a + 1)) / (2 * a + 1))
    assert squares[1] / squares[0] == pytest.approx(predicted, rel=0.3)
    assert predicted < 0.7  # a twin with alpha = 0 would be at 1


def test_the_first_step_of_the_history_is_stable():
    """Near resonance, where hardly any strength is."""
    eta, steps, law = 0.2, 14, xps.PowerLaw()
    base, x0 = xps.HMC(eta, steps), normals(64, 3)
    c = LeapfrogAutocorrelation(eta, steps).at(numpy_xp, np.ones(1))[0]
    assert c < -0.9
    alpha = run(xps.SRMC(base, schedule=law), x0).kernel.alpha
    # The autocorrelation is estimated from 64 chains and some hundred steps.
    assert 0 < alpha < 1.5 * (1 + c) / (1 - c)
    assert 0.5 * stability_bound(numpy_xp, np.asarray(alpha / 1.5), np.ones(()), np.asarray(c)) > 0.5 - 1e-9


def test_a_rule_without_the_bound_on_the_first_step_is_caught(monkeypatch):
    monkeypatch.setattr(pilot, "KAPPA", 50.0)
    c = LeapfrogAutocorrelation(0.2, 14).at(numpy_xp, np.ones(1))[0]
    alpha = run(xps.SRMC(xps.HMC(0.2, 14), schedule=xps.PowerLaw()), normals(64, 3)).kernel.alpha
    assert alpha > 1.5 * (1 + c) / (1 - c)


@pytest.mark.parametrize(("rule", "breaks"), [(None, False), (LowestError(exponent=100.0), True)])
def test_chains_break_on_a_curved_target_only_without_the_bound_on_the_tilt(rule, breaks):
    x0 = bend(normals(256, 2))
    trace = run(xps.SRMC(xps.MALA(), rule), x0, 800, banana(), recorders=(xps.Moments(),))
    means = trace.recorded["moments"].mean
    variance = np.asarray([1.0, 1.5])
    broken = np.sum(np.mean(means**2 / variance, axis=-1) > 1)
    assert broken > 3 if breaks else broken == 0


def test_no_coordinate_is_made_worse():
    """One coordinate gains by any alpha, more than the other one, whose score and position part at once, loses."""
    kernel = xps.SRMC(xps.MALA(0.5))

    def alpha(score_change, product_change):
        one, zero = np.ones((1, 2)), np.zeros((1, 2))
        found = dict.fromkeys(pilot.Pilot._fields, np.ones(1)) | {"mean": zero, "variance": one, "square": one}
        found |= {"x_change": 0.2 * one, "s_change": np.asarray([[0.2, score_change]])}
        found |= {"both": -one, "both_change": np.asarray([[-0.2, product_change]]), "theta": zero}
        found |= {
            "most_s": one,
            "most_theta": 0.1 * one,
            "most_s_along": one[..., 0],
            "most_theta_along": zero[..., 0] + 0.1,
        }
        seen = SimpleNamespace(xp=numpy_xp, kernel=kernel)
        return LowestError()._alpha(seen, pilot.Pilot(**found))

    assert alpha(0.2, -0.2) > 1
    assert alpha(0.2, -3.0) == 0


@pytest.mark.slow
def test_the_direction_of_the_largest_scores_bounds_alpha():
    """Its curvature is 16 times that of the coordinates: a rule that knows coordinates alone takes too much."""
    dim = 32
    direction = np.ones((dim, 1)) / np.sqrt(dim)
    precision = np.eye(dim) + 999.0 * direction @ direction.T
    x0 = normals(32, dim) @ np.linalg.cholesky(np.linalg.inv(precision)).T
    alpha = run(xps.SRMC(xps.HMC(0.03, 10)), x0, target=gaussian(precision)).kernel.alpha
    assert 0.1 < 1000 * alpha < 10
    assert 0.1 < 100 * run(xps.SRMC(xps.HMC()), normals(32, 6), target=gaussian(rotated(6, 100.0))).kernel.alpha < 10


@pytest.mark.parametrize(
    ("base", "wrap"),
    [
        (xps.MALA, lambda base: xps.SRMC(base, 1.0)),
        (xps.MALA, lambda base: xps.SRMC(base)),
        (xps.ULA, lambda base: xps.SRMC(base, 30.0)),
        (xps.HMC, lambda base: xps.SRMC(base, xps.srmc.Adaptive(5.0, 20))),
        (xps.ULA, lambda base: xps.SRLD(base, 1000.0, xps.Thinned(3, 2))),
    ],
    ids=["alpha", "no alpha", "exact", "adaptive", "SRLD"],
)
def test_the_base_is_tuned_as_it_would_be_alone(base, wrap):
    target = xps.Target(
        gaussian(2 * np.eye(3)).log_density, lambda x, p: -(x @ p), lambda x, v, p: -(v @ p), data=2 * np.eye(3)
    )
    alone = run(base(), normals(16, 3), target=target, warmup=100)
    wrapped = run(wrap(base()), normals(16, 3), target=target, warmup=100)
    assert wrapped.kernel.base.step_size == alone.kernel.step_size
    for name, path in alone.warmup.items():
        if name != "scores":
            np.testing.assert_array_equal(wrapped.warmup[name], path)
    assert int(wrapped.state.n) == 5  # the history begins after it
    if "alpha" in dir(wrapped.kernel) and isinstance(wrapped.kernel.alpha, float):
        np.testing.assert_array_equal(wrapped.state.alpha, wrapped.kernel.alpha + np.zeros(16))


def test_the_tuned_kernel_makes_the_same_chain_again():
    trace = run(xps.SRMC(xps.MALA(0.5)), normals(16, 3), warmup=100)
    assert trace.kernel.alpha > 0 and trace.kernel.schedule.offset == 100
    assert "alpha=" in repr(trace.kernel) and trace.warmup["SRMC.alpha"].shape == (100, 1)
    assert xps.SRMC(xps.MALA(0.5), 1.0).schedule.offset == 100
    assert xps.SRMC(xps.MALA(0.5), schedule=xps.PowerLaw()).schedule.offset == 1
    again = run(trace.kernel, normals(16, 3))
    assert again.warmup is None and again.kernel is trace.kernel


@pytest.mark.first_cases(1)
def test_values_agree_on_every_library(library):
    x0, precision = normals(2, 8, 3), np.diag([1.0, 4.0, 0.25])
    settings = {"draws": 100, "warmup": 80}
    here = run(xps.SRMC(xps.HMC()), x0, target=gaussian(precision), **settings)
    there = run(xps.SRMC(xps.HMC()), library.array(x0), target=gaussian(library.array(precision)), **settings)
    np.testing.assert_array_equal(library.host(there.kernel.alpha), here.kernel.alpha)
    assert here.kernel.alpha.shape == (2, 1) and np.all(here.kernel.alpha > 0)
    np.testing.assert_allclose(library.host(there.draws), here.draws, rtol=0, atol=1e-8)


@pytest.mark.parametrize("rule", [None, LowestError(exponent=100.0)])
def test_groups_tune_as_each_would_alone(rule):
    """Bit for bit, given the same noise; without an overflow before the history begins."""
    x0, warming = (
        normals(2, 8, 3) * np.asarray([[[1.0]], [[3.0]]]),
        with_tuning(xps.SRMC(xps.MALA(0.3), rule), 40, pooled=True),
    )
    target = gaussian(np.eye(3)).prepare(x0, warming.requires)
    rng = np.random.default_rng(1)
    together, alone = warming.init(target, x0), [warming.init(target, x) for x in x0]
    for _ in range(40):
        noise = {name: rng.normal(size=spec.shape) for name, spec in warming.noise(x0).items() if name != "accept"}
        noise["accept"] = rng.uniform(size=(2, 8))
        together, _ = warming.step(target, together, noise)
        for g in range(2):
            alone[g], _ = warming.step(target, alone[g], {name: rows[g] for name, rows in noise.items()})
    for g in range(2):
        assert (
            warming.final(numpy_xp, alone[g].memory)["alpha"] == warming.final(numpy_xp, together.memory)["alpha"][g, 0]
        )


@pytest.mark.parametrize(
    "kernel",
    [
        lambda: xps.SRMC(xps.NUTS()),
        lambda: xps.SRMC(xps.RWM(1.0), schedule=xps.PowerLaw(0.7)),
        lambda: xps.SRMC(xps.ParallelTempering(xps.RWM(), (1.0, 0.3))),
        lambda: xps.SRMC(xps.SRMC(xps.MALA()), 0.1, tilt=xps.Shift()),
        lambda: xps.SRMC(xps.MALA(0.5), schedule=Stable(xps.srmc.Constant(0.5), 1.0)),
        lambda: xps.SRMC(xps.ULA(0.1), tilt=xps.FiniteDifference(1e-3)),
    ],
)
@pytest.mark.parametrize("shape", [(8, 3), (3,)])
def test_what_it_is_composed_with(kernel, shape):
    trace = run(kernel(), normals(*shape) if len(shape) > 1 else normals(1, *shape), 20, warmup=60)
    found = trace.kernel if trace.kernel.alpha != 0.1 else trace.kernel.base
    assert 0 <= found.alpha < 100 and (found.alpha > 0 or len(shape) == 1)
    assert np.all(np.isfinite(trace.draws))


def test_chains_that_do_not_move_give_no_strength():
    assert run(xps.SRMC(xps.RWM(1e6)), 1 + normals(8, 3), warmup=60).kernel.alpha == 0.0


SPINS = spins(np.zeros((3, 3)))
CONSTRAINED = xps.Target(lambda x: -np.sum(x, axis=-1), score=lambda x: -np.ones_like(x), constrained=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: xps.SRMC(xps.MALA(), tilt=xps.Exact()), r"Exact\(\) over MALA, where a warm-up.*Set alpha"),
        (lambda: xps.SRMC(xps.HMC(), tilt=xps.Shift()), r"Shift\(\) over HMC"),
        (lambda: xps.SRMC(xps.SRMC(xps.HMC(), 1.0), tilt=xps.Exact()), "itself repelled.*Set alpha"),
        (lambda: xps.SRMC(xps.HMC(), schedule=Frozen()), r"PowerLaw.*got Frozen\(\): set alpha"),
        (lambda: xps.SRMC(xps.HMC(), schedule=xps.PowerLaw(scale=0.5)), "scale above 1/2"),
        (lambda: xps.SRMC(xps.HMC(), schedule=xps.PowerLaw(np.asarray([0.6, 1.0]))), "with one rho"),
        (lambda: run(xps.SRMC(xps.HMC(0.1, 3)), normals(8, 3), warmup=0), "SRMC.alpha is not set, and warmup=0"),
        (
            lambda: run(xps.SRMC(xps.HMC()), 1 + normals(8, 3) ** 2, target=CONSTRAINED),
            "^SRMC cannot sample a target with hard con",
        ),
        (lambda: run(xps.SRMC(xps.GWG(), tilt=xps.Untilted()), np.ones((4, 3)), target=SPINS), "on Spins.*set alpha"),
        (lambda: xps.AIS(xps.SRMC(xps.MALA(0.1)), [0.0, 1.0]), "SRMC.alpha|AIS cannot"),
        (lambda: LowestError(exponent=0.0), "exponent must be greater than 0"),
    ],
)
def test_where_it_must_be_given(make, message):
    with pytest.raises(XpsampleError, match=message):
        make()


def test_self_repulsion_takes_the_ratio_rule():
    trace = run(xps.SRLD(xps.ULA()), normals(8, 3), 260)
    assert trace.kernel.alpha.steps == 100 and trace.kernel.base.step_size > 0
    assert np.all(trace.state.alpha > 1)


def test_a_model_is_real():
    """Its positions are unconstrained coordinates, whatever its parameters are."""
    model = xps.Model(lambda p: -0.5 * (p.x**2).sum(-1), x=xps.Real(3), gradient=xps.FiniteDifference())
    x0 = model.start(np.zeros(0), chains=50, seed=0)
    trace = xps.sample(model, xps.SRMC(xps.MALA(0.5)), x0, 20, seed=1, warmup=60)
    assert trace.kernel.alpha > 0
