"""The benchmark suite runs, skips what is not here, and sees a chain that has changed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asv_benchmarks.benchmarks import common, kernels, peers, runs, same_chain, sosmc, srmc, torch_compiled, warm_up
from asv_benchmarks.benchmarks.cases import CASES
from asv_benchmarks.on_demand import growth, hvps, steps, which_library
from xpsample import HMC, MALA, RWM
from xpsample.core.registry import installed_backends, to_host
from xpsample.kernels import ChainState, metropolis
from xpsample.targets import Capability, check_gradient

ROOT = Path(__file__).parents[2]
NO_ALGORITHM = """
__init__ blocks common compose covariance cycles following kernel
microcanonical minibatch schedules shrinking step_sizes strength tempering_state traits adapted
"""
"""Files of xpsample/kernels that other kernels are built with."""


def test_every_kernel_has_benchmarks_under_the_name_of_its_file():
    files = {path.stem for path in (ROOT / "xpsample" / "kernels").rglob("*.py")} - set(NO_ALGORITHM.split())
    assert files <= set(CASES)
    rooms = {path.name for path in (ROOT / "xpsample").iterdir()}
    particles = {path.stem for path in (ROOT / "xpsample" / "particles").glob("*.py")}
    assert set(CASES) - files <= rooms | particles


@pytest.mark.parametrize("profile", ["asv.conf.json", "asv.on_demand.json"])
def test_asv_accepts_the_suite(profile):
    command = [sys.executable, "-m", "asv", "check", "--python=same", "--config", profile]
    done = subprocess.run(command, cwd=ROOT / "asv_benchmarks", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No problems found" in done.stdout


@pytest.mark.parametrize("device", ["numpy", "torch", "jax"])
def test_a_step_is_timed(monkeypatch, device):
    if device not in installed_backends():
        pytest.skip(f"{device} is not installed")
    monkeypatch.setattr(kernels, "STEPS", 5)
    benchmark = kernels.Step()
    benchmark.setup("mala", device, 3, 10)
    benchmark.time_steps("mala", device, 3, 10)
    assert benchmark.run().run_statistics.steps == 5


@pytest.mark.parametrize("kernel", list(CASES))
def test_every_case_runs(kernel):
    spent = kernels.Evaluations()
    counts = spent.track_log_densities(kernel), spent.track_scores(kernel), spent.track_hvps(kernel)
    assert sum(counts) > 0
    assert counts == {"mala": (1, 1, 0), "hmc": (1, 5, 0), "srmc": (1, 1, 2), "rwm": (1, 0, 0)}.get(kernel, counts)


def test_what_is_not_here_is_skipped_with_its_name():
    with pytest.raises(NotImplementedError, match="nolibrary"):
        common.device_or_skip("nolibrary")
    with pytest.raises(NotImplementedError, match="numpy finds no device for numpy-cuda"):
        common.device_or_skip("numpy-cuda")


# ---- same chain ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", list(CASES))
@pytest.mark.parametrize("device", ["numpy", "torch"])
def test_the_chain_is_the_stored_one(device, kernel):
    if device not in installed_backends():
        pytest.skip(f"{device} is not installed")
    assert same_chain.SameChain().track_same_chain(kernel, device) == 0


@pytest.mark.parametrize("kernel", ["hmc", "gwg"])
def test_the_chain_of_jax_is_the_stored_one(kernel):
    pytest.importorskip("jax")
    assert same_chain.SameChain().track_same_chain(kernel, "jax") == 0


def test_a_kernel_without_a_stored_chain_is_skipped_with_the_command_that_writes_it(monkeypatch, tmp_path):
    stored = tmp_path / "chains.json"
    stored.write_text("{}")
    monkeypatch.setattr(same_chain, "STORED", stored)
    monkeypatch.setattr(same_chain, "CASES", {"mala": CASES["mala"]})
    with pytest.raises(NotImplementedError, match="same_chain --write mala"):
        same_chain.SameChain().setup("mala", "numpy")
    same_chain.write([])
    same_chain.SameChain().setup("mala", "numpy")
    assert same_chain.SameChain().track_same_chain("mala", "numpy") == 0


class Uncorrected(MALA):
    """MALA whose acceptance forgets the proposal's densities."""

    def step(self, target, state, noise):
        current, xi = target.refresh(state.point), noise["proposal"]
        proposal = target.evaluate(current.x + self.step_size * current.score + (2 * self.step_size) ** 0.5 * xi)
        ratio = target.log_ratio(proposal, current)
        point, info = metropolis(target, ratio, noise["accept"], proposal, current, target.costs.evaluate)
        return ChainState(point), info


@pytest.mark.parametrize(
    ("kernel", "changed"),
    [("mala", Uncorrected(0.1)), ("mala", MALA(0.1 * (1 + 1e-6))), ("hmc", HMC(0.2, 6)), ("rwm", RWM(0.3 + 1e-6))],
    ids=["uncorrected", "step size", "leapfrog steps", "scale"],
)
def test_a_changed_kernel_deviates(monkeypatch, kernel, changed):
    monkeypatch.setitem(same_chain.CASES, kernel, CASES[kernel]._replace(make=lambda: changed))
    assert same_chain.SameChain().track_same_chain(kernel, "numpy") > 100 * same_chain.TOLERANCE


# ---- what is tracked -------------------------------------------------------------------------------------------------


def test_a_second_run_compiles_nothing():
    pytest.importorskip("jax")
    found = runs.traces_and_compilations("rwm", "jax")
    traces, programs = found["first"]
    assert 1 <= traces <= 4 and programs >= 1
    assert found["second"][1] == 0  # it is traced, to see what functions read now


def test_efficiency_rates_and_ratios(monkeypatch):
    monkeypatch.setattr(kernels, "STEPS", 64)
    monkeypatch.setattr(peers, "ROUNDS", 1)
    monkeypatch.setattr(warm_up, "LEAST", 10)
    assert 0 < kernels.Efficiency().track_ess_per_evaluation("hmc") < 1000
    rate = steps.Rate()
    assert rate.track_evaluations_per_second("hmc", "numpy") > rate.track_ess_per_second("hmc", "numpy") > 0
    assert 0.2 < peers.Ratio().track_ratio("by_hand_numpy", "mala", 100) < 20
    assert 0.5 < kernels.Wrapped().track_overhead("srld") < 50
    for kernel in ("mala", "mams"):
        assert 0.2 < warm_up.overhead(kernel, "gaussian", "numpy", steps=40, rounds=3) < 20


def test_memory_is_counted_in_position_arrays():
    moments, draws = (runs.allocated("mala", kept) for kept in ("moments", "draws"))
    assert runs.KEPT < draws < 1.5 * runs.KEPT
    assert 1 < moments < 0.5 * runs.KEPT


def test_a_peer_that_is_not_installed_is_not_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "asv_benchmarks.peers.blackjax", None)
    with pytest.raises(NotImplementedError, match="blackjax"):
        peers.Ratio().setup("blackjax", "mala", 1)


def test_sosmc_is_compared_with_code_by_hand(monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setattr(sosmc, "ITERATIONS", 3)
    ours, theirs = sosmc.spent(rounds=1)
    assert ours.shape == theirs.shape == (1,) and ours > 0 and theirs > 0


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")  # of a few steps
@pytest.mark.parametrize("base", list(srmc.CASES))
def test_overhead_is_a_ratio_of_the_wrapped_kernel_to_its_base(base):
    case, repellent = srmc.CASES[base]
    assert repellent.base is case.kernel
    assert 0.2 < srmc.overhead(base, "numpy", 1, seconds=0.01, rounds=3) < 20


def test_ratios_are_of_runs_in_the_same_round():
    """The second run takes twice the time; the machine gets slow within the third round that counts."""
    now, paces = [0.0], iter([5, 5, 1, 1, 1, 1, 1, 9, 9, 9, 9, 9])

    def taking(seconds):
        def run():
            now[0] += seconds * next(paces)

        return run

    spent = common.in_turns([taking(1.0), taking(2.0)], clock=lambda: now[0])
    np.testing.assert_array_equal(spent, [[1, 1, 1, 9, 9], [2, 2, 18, 18, 18]])
    assert common.ratio(spent[1], spent[0]) == 2
    assert np.median(spent[1]) / np.median(spent[0]) == 18


def test_the_slope_of_what_grows_as_a_power_is_the_power():
    sizes = [(10, 1), (10, 10), (100, 10)]
    assert growth.slope(sizes, [3.0 * (c * d) ** 1.5 for c, d in sizes]) == pytest.approx(1.5)
    assert growth.slope(sizes, [3.0 * c * d for c, d in sizes]) == pytest.approx(1.0)
    times = growth.step_times("rwm", "numpy", [(10, 10), (300, 100)], work=6000)
    assert len(times) == 2 and 0 < times[0] < times[1] < 1


def test_the_density_of_growth_has_the_derivatives_it_says():
    check_gradient(growth.quartic(), np.random.default_rng(0).standard_normal((4, 3)), hvp=True)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # in torch's forward mode
@pytest.mark.parametrize("device", ["numpy", "torch", "jax"])
def test_every_way_to_an_hvp_gives_the_same(device):
    if device not in installed_backends():
        pytest.skip(f"{device} is not installed")
    generator = np.random.default_rng(0)
    x, v = (common.put(device, generator.standard_normal((3, 10)) / 4) for _ in range(2))
    found = {}
    for way, target in hvps.ways(device, hvps.logistic()).items():
        bound = target.prepare(x, Capability.SCORE | Capability.HVP)
        found[way] = np.asarray(to_host(bound.hvp(x, v)))
    assert set(found) <= set(hvps.WAYS)
    assert len(found) == 3 + {"numpy": len({"torch", "jax"} & set(installed_backends()))}.get(device, 4)
    for way, product in found.items():
        tolerance = 0.02 if way.endswith("differences") else 1e-4
        np.testing.assert_allclose(product, found["analytic"], rtol=tolerance, atol=tolerance, err_msg=way)


def test_the_cost_of_an_hvp_is_over_that_of_a_score():
    spent = hvps.costs("logistic", "numpy", 10, ["analytic", "central differences"], seconds=0.005, rounds=3)
    assert set(spent) == {"score", "analytic", "central differences"}
    assert 0 < spent["score"] < 0.01 and 0.2 < spent["central differences"] / spent["score"] < 20
    assert hvps.with_products("central differences", "numpy", 10, seconds=0.005) > 1
    with pytest.raises(NotImplementedError, match="numpy has no forward over reverse"):
        hvps.Hvp().setup("forward over reverse", "numpy", 1)


def test_eager_and_compiled_steps_of_torch_are_timed(monkeypatch):
    torch, made = pytest.importorskip("torch"), []
    monkeypatch.setattr(torch, "compile", lambda f, **settings: made.append(f) or f)
    gain = torch_compiled.gain("mala", "autodiff", 1, steps=40, rounds=1)
    assert len(made) == 1 and gain.eager > 0 and gain.compiled > 0


def test_the_cheapest_library_is_marked():
    assert which_library.marked({"numpy": 1200.0, "torch": 90.0}) == {"numpy": "1,200", "torch": "**90**"}
    assert "numpy" in which_library.present()
    assert [which_library.on_gpu(device) for device in common.DEVICES] == [False, False, False, True, True, True]
    one, many = (which_library.step_times("mala", ["numpy"], c, 2, seconds=0.003, rounds=3)["numpy"] for c in (1, 100))
    assert 100 < many < one < 1e7
