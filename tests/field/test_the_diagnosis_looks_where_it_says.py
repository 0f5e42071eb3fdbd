"""Small slips in what the diagnosis looks at, each of which would hide a bad run or blame a good one."""

import math
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.diagnostics.chains import judge_start
from xpsample.diagnostics.convergence import CHANCE, SUPERCHAINS, mixing, nested_rhat
from xpsample.diagnostics.coordinates import CoarsePass, worst
from xpsample.diagnostics.diagnosis import diagnose
from xpsample.sampling.callbacks import RunState
from xpsample.sampling.until import Stopping, Until
from xpsample.trace.summary import RunStatistics, summarize

RNG = np.random.default_rng(0)


def statistics(chains, moved=0.7, steps=400):
    full = np.full(chains, 1.0)
    return RunStatistics(steps, 0.6 * full, moved * full, np.zeros(chains, int), {})


def kinds(draws, moved=0.7):
    names = [f"x[{i}]" for i in range(draws.shape[-1])]
    return [f.kind for f in diagnose(draws, names, statistics(draws.shape[1:-1], moved, len(draws)), {}, {})]


def test_groups_of_a_sweep_are_not_in_different_places():
    """Means 0 and 50, of two groups of four chains: each group is in one place."""
    draws = RNG.normal(size=(400, 2, 4, 3)) + np.array([0.0, 50.0])[:, None, None]
    assert kinds(draws) == []
    columns = CoarsePass(draws, ["a", "b", "c"])
    assert columns.columns == [((g,), name) for g in (0, 1) for name in "abc"]
    np.testing.assert_array_equal(columns.values[:, :, 4], draws[:, 1, :, 1])


@pytest.mark.parametrize("shape", [(400, 4, 1), (400, 2, 4, 1)], ids=str)
def test_a_stuck_chain_does_not_hide_the_modes_of_the_others(shape):
    """And it alone is no mode."""
    draws, moved = RNG.normal(size=shape), np.full(shape[1:-1], 0.7)
    draws[..., 0, :], moved[..., 0] = 50.0, 0.0
    alone = kinds(draws, moved)
    assert alone[0] == "stuck" and "modes" not in alone
    draws[..., 2:, :] += 20.0
    assert kinds(draws, moved)[:2] == ["stuck", "modes"]


def test_until_waits_for_the_tails_too():
    """Widths that change slowly: the mean is known, and the tails are not."""
    wide = np.exp(np.repeat(RNG.normal(size=(20, 4, 1)), 50, axis=0))
    draws = wide * RNG.normal(size=(1000, 4, 1))
    found = mixing(draws)
    assert found.ess_tail[0] < 0.5 * found.ess_bulk[0]
    assert worst(draws)[0] == pytest.approx(found.ess_tail[0])


@pytest.mark.parametrize(
    ("until", "figures", "holds"),
    [
        (Until(rhat=1.01), (500.0, math.nan), False),
        (Until(ess=400), (math.nan, 1.0), False),
        (Until(ess=400, rhat=1.01), (500.0, math.nan), False),
        (Until(ess=400, rhat=1.01), (500.0, 1.0), True),
    ],
)
def test_until_does_not_take_nan_for_enough(until, figures, holds):
    assert Stopping(until, [100], lambda steps: steps, None, lambda run: figures)(RunState(100, 100, None)) is holds


def test_a_start_is_compared_with_the_second_half():
    """The way in lasts a third of the run: only the second half is where the chains stay."""
    draws = RNG.normal(size=(900, 4, 1))
    draws[:300] += 100.0
    assert "transient" in kinds(draws)
    assert judge_start([((), "x")], draws[:64], draws[:450], False) is None


def test_the_nested_rhat_takes_mean_and_variance_of_the_same_half():
    """By hand, of chains whose first half is far wider than the second, and which remember where they began."""
    n, chains = 40, 64
    draws = RNG.normal(size=(n, chains, 1))
    draws[: n // 2] *= 30.0
    draws += 3.0 * np.sort(RNG.normal(size=(chains, 1)), axis=0)
    draws[0] = np.arange(chains)[:, None]
    size = chains // SUPERCHAINS
    half = draws[n // 2 :, :, 0]
    means = half.mean(axis=0).reshape(SUPERCHAINS, size)
    spread = np.mean(np.var(means, axis=1, ddof=1))
    between = np.var(means.mean(axis=1), ddof=1) - CHANCE[0] * (1 + 2.5 / size) * spread / size
    within = spread + np.mean(np.var(half, axis=0, ddof=1))
    memory = between / within
    assert memory > 1.0
    assert nested_rhat(draws)[0] == pytest.approx(math.sqrt(1 + memory), rel=1e-12)


def test_the_folded_rhat_is_of_all_chains():
    """Chains that are not among those of the ESS have another width."""
    every = RNG.normal(size=(200, 64, 1))
    every[:, 32:] *= 20.0
    some = every[:, :32]
    found = mixing(some, every).rhat[0]
    assert found > 1.1 and found == pytest.approx(mixing(every).rhat[0])


def test_the_standard_deviation_of_the_table_is_that_of_a_sample():
    draws = RNG.normal(size=(3, 2, 1))
    table = summarize(draws, ["x"], statistics((2,), steps=3))
    assert table.sd[0] == pytest.approx(np.std(draws, ddof=1), rel=1e-14)


# ---- angles ----------------------------------------------------------------------------------------------------------


ANGLE = xps.Model(lambda p: -4 * np.cos(p.angle), angle=xps.Circular(), gradient=xps.FiniteDifference())


def of_angles(kernel, draws):
    x0 = ANGLE.start(like=np.zeros(0), chains=4, seed=0)
    return xps.sample(ANGLE, kernel, x0, draws, seed=1, progress=False)


def test_angles_have_a_circular_mean_and_no_seam():
    """Around pi, where angles are cut: the linear mean is near 0, with an sd of 3."""
    trace = of_angles(xps.RWM(), 3000)
    table = trace.summary()
    assert abs(np.cos(table.mean[0]) + 1) < 0.01
    # R of a von Mises distribution with concentration 4 is I_1(4) / I_0(4).
    assert table.sd[0] == pytest.approx(math.sqrt(-2 * math.log(0.863523)), rel=0.1)
    assert table.mcse[0] == pytest.approx(table.sd[0] / math.sqrt(table.ess_bulk[0]), rel=0.3)
    assert trace.diagnose() == () == table.findings


def test_what_is_said_of_angles_is_said_of_angles_by_the_trace_too():
    """Chains on the two sides of the cut have an R-hat that depends on where it is, unless they are angles."""
    trace = of_angles(xps.RWM(0.5), 1000)
    angles = np.pi + 0.05 * RNG.normal(size=(1000, 4, 1)) + 0.02 * np.array([[1], [1], [-1], [-1]])
    trace = replace(trace, draws=np.concatenate([np.cos(angles), np.sin(angles)], axis=-1))
    columns, known = ANGLE.space.columns(numpy_xp, trace.draws), trace.metadata["diagnosis"]
    as_numbers, found = (
        diagnose(columns, ["angle"], trace.run_statistics, trace.statistics, known, angles=around)
        for around in ((), ANGLE.space.angles)
    )
    assert trace.diagnose() == found == trace.summary().findings and found != as_numbers


# ---- constant scores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("kernel", [xps.HMC(), xps.NUTS(), xps.MALA()], ids=lambda k: type(k).__name__)
def test_a_constant_score_says_nothing_of_the_scale(kernel, scale):
    """Exponential distributions of unlike scales: the metric is near the variances, up to a common factor."""
    scales = np.array([1.0, scale])
    target = xps.Target(
        lambda x: np.where(np.any(x < 0, axis=-1), -np.inf, -np.sum(x / scales, axis=-1)),
        score=lambda x: -np.ones_like(x) / scales,
        constrained=True,
    )
    x0 = scales * np.random.default_rng(0).exponential(size=(16, 2))
    tuned = xps.sample(target, kernel, x0, 1, warmup=400, seed=1, progress=False).kernel
    metric = 1 / np.asarray(tuned.mass) if hasattr(tuned, "mass") else np.asarray(tuned.preconditioner)
    assert metric[1] / metric[0] == pytest.approx(scale**2, rel=0.9) or 0.1 < metric[1] / metric[0] / scale**2 < 10
