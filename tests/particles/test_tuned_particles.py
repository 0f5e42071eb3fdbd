"""Particles that tune what their kernel leaves out: evidence from defaults, AIS without bias, the same everywhere."""

import importlib
import math
from dataclasses import dataclass

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.particles.test_smc import BETAS, COVARIANCE, EXACT, INITIAL, NARROW, WIDE, start
from xpsample.adaptation import DenseMetric, EnergyVariance
from xpsample.core.errors import HyperparameterError, NoiseError, PositionError
from xpsample.kernels.adapted import tuning_states
from xpsample.kernels.schedules import at_step
from xpsample.particles.ais import AIS
from xpsample.particles.pcd import PCD
from xpsample.particles.smc import TemperedSMC, particle_log_normalizer
from xpsample.particles.svgd import StochasticSVGD
from xpsample.zoo.gaussian import gaussian

BRIDGE = xps.Bridge(WIDE, NARROW)
QUIET = {"recorders": ()}
KERNELS = {
    "RWM": xps.RWM,
    "MALA": xps.MALA,
    "HMC": xps.HMC,
    "dense HMC": lambda: xps.HMC(mass=DenseMetric()),
    "NUTS": xps.NUTS,
    "IndependentMH": xps.IndependentMH,
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def anneal(kernel, x0, bridge=BRIDGE, steps=8, seed=1, **options):
    return xps.sample(bridge, kernel, x0, 1, seed=seed, burn_in=steps - 1, **(QUIET | options))


@every_kernel
def test_evidence_from_defaults(kernel):
    """40 runs of 200 particles: all together within 5 errors of their scatter, which fails once in a million."""
    state = anneal(TemperedSMC(kernel(), BETAS, moves=1), start(40, 200)).state
    whole = xps.log_normalizer(particle_log_normalizer(state, INITIAL).value)
    assert whole.standard_error < 0.1
    # Tuning biases the estimate by the order of one over the particles: 1 % are conceded.
    assert abs(whole.value - EXACT) < 5 * whole.standard_error + 0.01


SD = np.geomspace(0.01, 100.0, 10)
FAR = xps.Bridge(gaussian(1e4 * np.eye(10)), gaussian(np.diag(SD**2)))
FAR_EXACT = np.sum(np.log(SD / 100.0))


def far(kernel, steps=120):
    """The state of 6 runs, of temperatures that are chosen on the way."""
    return anneal(TemperedSMC(kernel, ess=0.95, moves=1), start(6, 150, dim=10, sd=100.0), FAR, steps).state


@pytest.mark.slow
def test_evidence_of_scales_from_a_hundredth_to_a_hundred():
    """Of log Z = -46. StepRecord: errors of 0.8; of the twin below 8."""
    state = far(xps.MALA())
    assert np.all(state.beta == 1.0)
    assert np.sqrt(np.mean((state.weights.log_normalizer - FAR_EXACT) ** 2)) < 2


@pytest.mark.slow
def test_a_metric_that_does_not_follow_is_caught(monkeypatch):
    monkeypatch.setattr("xpsample.adaptation.metric.Metric.follow", lambda self, xp, memory, point, pooled: memory)
    assert np.sqrt(np.mean((far(xps.MALA()).weights.log_normalizer - FAR_EXACT) ** 2)) > 5


def test_a_step_size_that_does_not_follow_is_caught(monkeypatch):
    """Of random walks, whose step size is all that the metric leaves."""
    kernel = TemperedSMC(xps.RWM(covariance=1.0), np.linspace(0.0, 1.0, 60) ** 3, moves=1)
    narrow = xps.Bridge(WIDE, gaussian(1e-4 * np.eye(3)))
    accepted = anneal(kernel, start(4, 200), narrow, 59).warmup["acceptance_probability"][-1]
    np.testing.assert_allclose(accepted, 0.234, atol=0.1)
    monkeypatch.setattr("xpsample.adaptation.step_size.GAIN", 0.0)
    assert np.all(anneal(kernel, start(4, 200), narrow, 59).warmup["acceptance_probability"][-1] < 0.02)


# ---- AIS -------------------------------------------------------------------------------------------------------------

COARSE = (0.0, 0.1, 0.3, 1.0)


def small_runs(kernel, x0, **options):
    """exp(log Z - truth) of runs of few particles each, and their mean less 1 in standard errors."""
    ratio = np.mean(np.exp(anneal(kernel, x0, steps=3, **options).state.log_weight + INITIAL - EXACT), axis=-1)
    return ratio, (np.mean(ratio) - 1.0) / (np.std(ratio, ddof=1) / math.sqrt(len(ratio)))


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kernel", [xps.MALA(), xps.HMC(steps=3)], ids=["MALA", "HMC"])
def test_weights_of_tuned_kernels_are_unbiased(kernel):
    """Each of 300 runs has a pilot of its own. Their mean is within 4.5 errors of 1, 7 times in a million it is not."""
    ratio, off = small_runs(AIS(kernel, COARSE), start(300, 10), warmup=23)
    assert abs(off) < 4.5
    assert np.std(ratio) / math.sqrt(300) < 0.04


@dataclass(frozen=True, eq=False)
class Greedy(AIS):
    """Moves that are accepted where they make the weight larger."""

    def step(self, target, state, noise):
        low = {**noise, "accept": 0.3 * noise["accept"]}
        return super().step(target, state, low)


@pytest.mark.slow
def test_weights_of_a_kernel_that_is_not_invariant_are_caught():
    _, off = small_runs(Greedy(xps.MALA(), COARSE), start(300, 10), warmup=23)
    assert abs(off) > 6


def test_the_pilot_does_not_see_the_particles():
    """So given the pilot the weights are independent of it: other starts of the run change no value."""
    found = [
        anneal(AIS(xps.MALA(), COARSE), x0, steps=3).kernel.base for x0 in (start(2, 6), 50.0 + start(2, 6, seed=9))
    ]
    np.testing.assert_array_equal(found[0].step_size, found[1].step_size)
    np.testing.assert_array_equal(found[0].preconditioner, found[1].preconditioner)
    assert found[0].step_size.shape == (3, 2, 1)
    assert found[0].preconditioner.shape == (3, 2, 1, 3)


def test_the_tuned_kernel_goes_on_and_serves_smc():
    tuned = anneal(AIS(xps.HMC(), BETAS), start(1, 50)).kernel
    again = anneal(tuned, start(1, 50))
    assert again.warmup is None
    state = anneal(TemperedSMC(tuned.base, BETAS, moves=1), start(40, 100)).state
    whole = xps.log_normalizer(particle_log_normalizer(state, INITIAL).value)
    assert abs(whole.value - EXACT) < 5 * whole.standard_error


def test_a_value_for_each_step_is_the_one_of_its_step():
    rows, masses = np.asarray([0.1, 0.2, 0.3]), np.asarray([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [3.0, 2.0, 1.0]])
    kernel = xps.HMC(rows[:, None], 2, mass=masses[:, None, :])
    for n in range(5):
        own = at_step(numpy_xp, kernel, np.asarray(n), 1)
        np.testing.assert_array_equal(own.step_size, [rows[min(n, 2)]])
        np.testing.assert_array_equal(own.matrix("mass").variance, [masses[min(n, 2)]])
    assert at_step(numpy_xp, xps.HMC(0.1, 2), np.asarray(0), 1).step_size == 0.1
    x0 = start(20)
    same = [anneal(AIS(k, COARSE), x0, steps=3).state for k in (xps.MALA(0.2), xps.MALA(np.full((3, 1), 0.2)))]
    np.testing.assert_array_equal(same[0].log_weight, same[1].log_weight)
    wrong = anneal(AIS(xps.MALA(np.asarray([[0.2], [0.2], [0.3]])), COARSE), x0, steps=3).state
    assert np.any(wrong.point.x != same[0].point.x)
    np.testing.assert_array_equal(wrong.log_weight, same[0].log_weight)  # weights come before the last move


# ---- groups, libraries, checkpoints ----------------------------------------------------------------------------------


@every_kernel
def test_runs_tune_as_each_would_alone(kernel):
    """Bit for bit, given the same noise."""
    x0, smc = start(3, 20), TemperedSMC(kernel(), BETAS, threshold=0.8, moves=1)
    target = BRIDGE.prepare(x0, smc.requires)
    together, alone = smc.init(target, x0), [smc.init(target, x) for x in x0]
    rng = np.random.default_rng(1)
    for _ in range(8):
        noise = {name: rng.uniform(size=spec.shape) for name, spec in smc.noise(x0).items()}
        together, _ = smc.step(target, together, noise)
        for g in range(3):
            alone[g], _ = smc.step(target, alone[g], {name: rows[g] for name, rows in noise.items()})
    (shared,) = tuning_states(together)
    for g in range(3):
        (own,) = tuning_states(alone[g])
        for name, rule in smc.tuning_inside.rules.items():
            np.testing.assert_array_equal(
                rule.final(numpy_xp, own.memory[name]), rule.final(numpy_xp, shared.memory[name])[g]
            )
        np.testing.assert_array_equal(alone[g].point.x, together.point.x[g])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "kernel",
    [TemperedSMC(xps.HMC(), ess=0.8, moves=1), TemperedSMC(xps.RWM(), BETAS, moves=1), AIS(xps.MALA(), COARSE)],
    ids=["ess", "SMC", "AIS"],
)
def test_the_same_values_on_every_library(library, kernel):
    def run(array):
        options = {"seed": xps.Portable(1), **QUIET} | ({"warmup": 23} if isinstance(kernel, AIS) else {})
        return xps.sample(BRIDGE, kernel, array(start(2, 30)), 8, **options)

    ours, theirs = run(np.asarray), run(library.array)
    assert ours.warmup is not None and theirs.warmup is not None
    for name, rows in ours.warmup.items():
        if name == "acceptance_probability":
            np.testing.assert_allclose(library.host(theirs.warmup[name]), rows, rtol=1e-7)
        else:
            np.testing.assert_array_equal(library.host(theirs.warmup[name]), rows)
    np.testing.assert_allclose(library.host(theirs.state.point.x), ours.state.point.x, rtol=1e-7, atol=1e-9)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kernel", [TemperedSMC(xps.HMC(), BETAS, moves=1), AIS(xps.HMC(), BETAS)], ids=["SMC", "AIS"])
def test_a_run_goes_on_from_a_checkpoint(tmp_path, kernel):
    x0 = start(2, 10)
    options = {"seed": 1, **QUIET}
    xps.sample(BRIDGE, kernel, x0, 3, checkpoint=tmp_path, **options)
    resumed = xps.sample(BRIDGE, kernel, x0, 8, checkpoint=tmp_path, **options)
    whole = xps.sample(BRIDGE, kernel, x0, 8, **options)
    np.testing.assert_array_equal(resumed.state.point.x, whole.state.point.x)
    for name, rows in whole.warmup.items():
        np.testing.assert_array_equal(resumed.warmup[name], rows)


@pytest.mark.slow
def test_other_values_compile_nothing():
    jax = pytest.importorskip("jax")
    x0 = jax.numpy.asarray(start(2, 10))
    kernel = AIS(xps.HMC(), COARSE)
    anneal(kernel, x0, steps=3)
    executables = importlib.import_module("xpsample_jax.programs").EXECUTABLES
    count = len(executables)
    tuned = [anneal(AIS(xps.HMC(), COARSE), x0, steps=3, seed=seed).kernel.base.step_size for seed in (2, 3)]
    assert np.any(np.asarray(tuned[0]) != np.asarray(tuned[1]))
    assert len(executables) == count


def test_the_values_can_be_seen():
    trace = xps.sample(BRIDGE, TemperedSMC(xps.HMC(), BETAS, moves=1), start(2, 30), 8, seed=1, **QUIET)
    shapes = {name: rows.shape for name, rows in trace.warmup.items()}
    assert shapes == {
        "HMC.mass": (8, 2, 1, 3),
        "HMC.step_size": (8, 2, 1),
        "HMC.length": (8, 2, 1),
        "acceptance_probability": (8, 2),
    }
    assert "tuned" not in trace.recorded
    # The metric is that of a sample at the temperature: in the end that of the target.
    variance = 1 / np.mean(trace.warmup["HMC.mass"][-1], axis=(0, 1))
    np.testing.assert_allclose(variance, np.sqrt(np.diag(COVARIANCE) / np.diag(np.linalg.inv(COVARIANCE))), rtol=0.4)


# ---- what is refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "a warm-up of its own": (
        lambda: anneal(TemperedSMC(xps.RWM(), BETAS, moves=1), start(2, 5), warmup=9),
        "tunes unset hyperparameters",
    ),
    "a short pilot": (lambda: anneal(AIS(xps.RWM(), BETAS), start(2, 5), warmup=8), "warmup=8 is too short for AIS"),
    "no pilot": (lambda: anneal(AIS(xps.RWM(), BETAS), start(2, 5), warmup=0), "not set, and warmup=0"),
    "unadjusted moves": (lambda: AIS(xps.ULA(), BETAS, approximate=True), "AIS with approximate=True cannot tune"),
    "another rule": (lambda: TemperedSMC(xps.MALA(EnergyVariance()), BETAS, moves=1), "needs a fixed target"),
    "SVGD": (lambda: xps.SVGD(), "SVGD needs a step_size"),
    "StochasticSVGD": (lambda: StochasticSVGD(), "StochasticSVGD needs a step_size"),
    "PCD": (lambda: PCD(xps.sosmc.RowBatches(np.zeros((2, 2))), xps.sosmc.SGD(0.1)), "PCD needs a step_size"),
    "LangevinMove": (lambda: xps.sosmc.LangevinMove(), r"adapt_move=Adaptation\(\)"),
    "SingleChain": (lambda: xps.sosmc.SingleChain(), "SingleChain needs a step_size"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_tuned_is_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(HyperparameterError, match=message):
        call()


def test_a_pilot_needs_an_axis_and_noise_of_its_own():
    with pytest.raises(PositionError, match=r"pass x0\[None, :\]"):
        anneal(AIS(xps.RWM(), BETAS), np.zeros(3))
    noise = {"proposal": np.zeros((8, 4, 3)), "accept": np.zeros((8, 4))}
    with pytest.raises(NoiseError, match="cannot draw its noise from Replay"):
        anneal(AIS(xps.RWM(), BETAS), start(4), seed=xps.Replay(noise))
