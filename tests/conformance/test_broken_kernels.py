"""Kernels broken on purpose: each must be caught, by the check that is there for its fault."""

import re
from dataclasses import field, replace

import numpy as np
import pytest

from tests.conformance.broken_tilts import WrongDrift
from tests.conftest import open_library
from xpsample import MALA, RWM, ULA, Integers, Swap, Sweep
from xpsample.conformance import invariance, reference, run_check, scenarios
from xpsample.core.devices import DeviceDtype
from xpsample.core.specs import Normal
from xpsample.kernels import ChainState, Info, Kernel, metropolis
from xpsample.kernels.kernel import normal_like, uniform_per_chain
from xpsample.metrics.stein import RBF
from xpsample.srld import Rolling
from xpsample.srmc import SRMC
from xpsample.targets import Capability
from xpsample.targets.tempered import TemperedTarget
from xpsample.targets.tilted import Tilted

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}


class Broken(Kernel):
    """A base for the wrong ones: a MALA-like kernel (step 0.5) whose parts can be spoilt."""

    requires = Capability.LOG_DENSITY | Capability.SCORE

    def init(self, target, x):
        return ChainState(target.evaluate(x))

    def noise(self, x):
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target, state, noise):
        current, xi, eta = target.refresh(state.point), noise["proposal"], 0.5
        proposal = target.evaluate(self.moved(target, current, eta, xi))
        back = -(xi + (eta / 2) ** 0.5 * (current.score + proposal.score))
        log_ratio = proposal.log_density - current.log_density
        log_ratio = self.ratio(log_ratio, 0.5 * target.xp.sum(xi * xi - back * back, axis=-1))
        uniform = self.uniform(target.xp, noise)
        point, info = metropolis(target, log_ratio, uniform, proposal, current, target.costs.evaluate)
        return self.after(target.xp, ChainState(point)), info

    def moved(self, target, current, eta, xi):
        return current.x + eta * current.score + (2 * eta) ** 0.5 * xi

    def ratio(self, densities, proposals):
        return densities + proposals

    def uniform(self, xp, noise):
        return noise["accept"]

    def after(self, xp, state):
        return state


class MissingProposalRatio(Broken):
    def ratio(self, densities, proposals):
        return densities


class WrongAcceptance(Broken):
    def ratio(self, densities, proposals):
        return 0.5 * (densities + proposals)


class SwappedRatio(Broken):
    def ratio(self, densities, proposals):
        return densities - proposals


class ReusedNoise(Broken):
    """Decides by the number that made the proposal."""

    def uniform(self, xp, noise):
        return 1 / (1 + xp.exp(-1.702 * noise["proposal"][..., 0]))


class AcceptsAll(Broken):
    def ratio(self, densities, proposals):
        return 0 * densities


class WrongNoiseScale(Broken):
    def moved(self, target, current, eta, xi):
        return current.x + eta * current.score + eta**0.5 * xi


class AsksTheHost(Broken):
    def after(self, xp, state):
        if bool(xp.any(state.point.x[..., 0] > 1e6)):  # a branch on a value
            raise RuntimeError
        return state


class LeavesItsDtype(Broken):
    def after(self, xp, state):
        return ChainState(state.point._replace(x=xp.astype(state.point.x, xp.float64)))


class GoesToNumpy(Broken):
    def after(self, xp, state):
        return ChainState(state.point._replace(x=np.asarray(state.point.x)))


def with_kernel(kernel, scenario=SCENARIOS["mala"]):
    return replace(scenario, kernel=lambda asarray: kernel)


def place_of(library):
    """The suite's place for a test library."""
    return DeviceDtype(library.backend, library.name, library.device, library.dtype)


def with_frozen(scenario, spoil):
    """The scenario with the kernel of its invariance check spoilt, and the law as it was."""

    def frozen(asarray, generator, chains):
        kernel, stationary = scenario.frozen(asarray, generator, chains)
        return spoil(kernel), stationary

    return replace(scenario, frozen=frozen)


class StaleSweep(Sweep):
    """Draws each variable by what the others were before the sweep."""

    def step(self, target, state, noise):
        return super().step(_AsBefore(target, state.point.x), state, noise)


class _AsBefore(TemperedTarget):
    """Its second field is where the sweep began."""

    def __init__(self, target, x):
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "beta", x)

    def differences_at(self, x, i):
        return self.target.differences_at(self.beta, i)

    def evaluate(self, x):
        return self.target.evaluate(x)


class OneWay(Swap):
    """Moves an item to a later place past those between: no other move leads back, unless they are neighbors."""

    def sources(self, xp, place, low, high):
        return xp.where(place == high, low, xp.where((place >= low) & (place < high), place + 1, place))


class Clipping(Integers):
    """Proposals outside lead to the ends, from which they are not proposed back."""

    def walked(self, xp, x, move, least):
        y, inside = super().walked(xp, x, move, least)
        return y, inside | True


def test_the_unspoilt_base_passes():
    assert invariance(with_kernel(Broken()), reference()).passed


SPOILT = {
    "a sweep that does not see its own moves": ("sweep-lattice-heat-bath", lambda s: with_kernel(StaleSweep(True), s)),
    "a move that does not undo itself": ("swap", lambda s: with_kernel(OneWay(), s)),
    "proposals clipped to the ends": (
        "rwm-integers",
        lambda s: replace(s, target=lambda a: replace(s.target(a), space=Clipping((0, -1), (4, 3)))),
    ),
}


@pytest.mark.parametrize(("name", "spoil"), SPOILT.values(), ids=SPOILT)
def test_a_wrong_discrete_move_is_caught(name, spoil, library):
    device, scenario = place_of(library), SCENARIOS[name]
    chains = {"chains": 20_000} if "lattice" in name else {}
    assert invariance(scenario, device, **chains).passed
    assert not invariance(spoil(scenario), device, **chains).passed


@pytest.mark.parametrize(
    "kind", [MissingProposalRatio, WrongAcceptance, SwappedRatio, ReusedNoise, AcceptsAll, WrongNoiseScale]
)
def test_a_wrong_law_is_caught(kind, library):
    result = invariance(with_kernel(kind()), place_of(library))
    assert not result.passed
    assert result.z > 2 * result.limit  # and not by a hair


@pytest.mark.parametrize(("name", "exact"), [("ula", "sr-mala"), ("dula", "dmala")])
def test_unadjusted_langevin_is_not_exact(name, exact):
    """It passes for its own biased law; for the target's it must not."""
    assert not invariance(replace(SCENARIOS[name], stationary=SCENARIOS[exact].stationary), reference()).passed


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", ["sr-rwm", "sr-gwg", "sr-gwg-ratio", "sr-balanced-untilted", "sr-gibbs"])
def test_a_density_tilted_the_wrong_way_is_caught(name):
    spoilt = with_frozen(SCENARIOS[name], lambda kernel: replace(kernel, theta=-kernel.theta))
    result = invariance(spoilt, reference())
    assert not result.passed and result.z > 1.5 * result.limit


@pytest.mark.parametrize("base", [ULA(0.2), MALA(0.4)])
def test_a_tilt_of_the_wrong_sign_is_caught(base):
    # MALA stays exact under any drift that its ratio knows: there the score is only a proposal, so ULA must catch it.
    scenario = SCENARIOS["sr-ula" if isinstance(base, ULA) else "sr-mala"]
    spoilt = with_frozen(scenario, lambda kernel: replace(kernel, base=base, tilt=WrongDrift()))
    assert invariance(spoilt, reference()).passed is isinstance(base, MALA)


HOST = r"(HostTransfer: __|a step called __)"


@pytest.mark.parametrize(
    ("kind", "check", "name", "detail"),
    [
        (AsksTheHost, "no host transfer", "torch", HOST),
        (AsksTheHost, "no host transfer", "array_api_strict", HOST),
        (GoesToNumpy, "stays home", "torch", HOST),
        (GoesToNumpy, "stays home", "array_api_strict", HOST),
        (LeavesItsDtype, "stays home", "numpy", "float64"),
    ],
)
def test_leaving_the_device_or_the_dtype_is_caught(kind, check, name, detail):
    outcome = run_check(check, with_kernel(kind()), place_of(open_library(name, "float32")))
    assert outcome.passed is False and re.search(detail, outcome.detail)


class Forgetful(Kernel):
    """Keeps a counter outside its state, so that neither a resumed nor a compiled or straight-line run repeats it."""

    counter: list = field(init=False, default_factory=lambda: [0])  # out of the checkpoint's sight, too

    requires = Capability.LOG_DENSITY

    def init(self, target, x):
        return ChainState(target.evaluate(x))

    def noise(self, x):
        return {"proposal": Normal(tuple(x.shape))}

    def step(self, target, state, noise):
        self.counter[0] += 1
        point = target.evaluate(0.9 * state.point.x + 0.01 * self.counter[0] * noise["proposal"])
        ones = target.xp.ones_like(point.log_density)
        return ChainState(point), Info(ones, ones > 0, ones < 0, target.costs.evaluate)


def test_hidden_state_is_caught(library):
    scenario = replace(SCENARIOS["rwm"], kernel=lambda asarray: Forgetful())
    outcome = run_check("driven = eager", scenario, place_of(library))
    assert outcome.passed is False
    assert float(outcome.detail) > 1e-3
    if library.name == "array_api_strict":  # whose driver runs the steps themselves
        outcome = run_check("resume exact", scenario, place_of(library))
        assert outcome.passed is False
        assert "holds the checkpoint of another run" in outcome.detail  # whose first step is another one


def test_alpha_zero_that_is_not_the_base_is_caught():
    scenario = replace(SCENARIOS["sr-rwm"], base=lambda asarray: RWM(0.81))
    outcome = run_check("alpha 0 = base", scenario, reference())
    assert outcome.passed is False
    assert float(outcome.detail) > 1e-3


class Spendthrift(Broken):
    """Evaluates once more than it says: at the point where it is."""

    def moved(self, target, current, eta, xi):
        return super().moved(target, target.evaluate(current.x), eta, xi)


class Silent(Broken):
    """Asks for a score and does not say so."""

    def moved(self, target, current, eta, xi):
        return current.x + eta * target.score(current.x) + (2 * eta) ** 0.5 * xi


@pytest.mark.parametrize(
    ("kernel", "called"),
    [(Spendthrift(), "2 log densities, 2 scores, 0 hvps"), (Silent(), "1 log densities, 2 scores, 0 hvps")],
    ids=["evaluates", "scores"],
)
def test_a_step_that_spends_more_than_it_says_is_caught(kernel, called):
    assert run_check("counts", with_kernel(Broken()), reference()).passed is True
    outcome = run_check("counts", with_kernel(kernel), reference())
    assert outcome.passed is False
    assert outcome.detail == f"step 1 says 1 log densities, 1 scores, 0 hvps and evaluates {called}"


def test_a_derived_target_that_forgets_a_cost_is_caught(monkeypatch):
    """What a wrapper's target says that a call costs is part of the count: an hvp for each score of the surrogate."""
    assert run_check("counts", SCENARIOS["sr-mala"], reference()).passed is True
    monkeypatch.setattr(Tilted, "costs", property(lambda self: self.target.costs))
    assert run_check("counts", SCENARIOS["sr-mala"], reference()).passed is False


def test_a_kernel_that_raises_has_failed():
    scenario = replace(SCENARIOS["rwm"], kernel=lambda asarray: SRMC(RWM(-1.0), 0.5))
    outcome = run_check("same chain", scenario, reference())
    assert outcome.passed is False
    assert "step_size" in outcome.detail


# ---- self-repulsion --------------------------------------------------------------------------------------------------


class Attracting(RBF):
    """The gradient of K of the wrong sign, as in the authors' code of the bandits."""

    checked = False

    def profile(self, xp, u):
        f, slope, curvature = super().profile(xp, u)
        return f, -slope, curvature


class Late(Rolling):
    """theta_{k - jc + 1} instead of theta_{k - jc}."""

    def stored(self, memory, n):
        return memory[1 % self.every], n // self.every


class OtherScores(Rolling):
    """Stores the score with the wrong sign."""

    def push(self, xp, past, n, point):
        return super().push(xp, past, n, point._replace(score=-point.score))


@pytest.mark.parametrize(
    "spoil", [{"kernel": Attracting(1.5)}, {"history": Late(2, 2)}, {"history": OtherScores(2, 2)}], ids=str
)
def test_a_wrong_self_repulsion_is_caught(spoil):
    scenario = SCENARIOS["srld"]
    kernel = replace(scenario.kernel(reference().array), **spoil)
    outcome = run_check("tilted step", replace(scenario, kernel=lambda asarray: kernel), reference())
    assert outcome.passed is False
    assert float(outcome.detail) > 1e-2


def test_noise_that_depends_on_where_a_block_begins(monkeypatch):
    """A run by an integer seed would go on with other numbers than an uninterrupted one draws."""
    where, case = reference(), SCENARIOS["mala"]

    def keyed_by_its_start(backend, seed, specs, start, stop, like):
        rng = np.random.default_rng([seed, start])
        return {name: rng.random((stop - start, *spec.shape)) for name, spec in specs.items()}

    assert run_check("resume exact", case, where).passed
    monkeypatch.setattr(type(where.backend), "noise", keyed_by_its_start)
    found = run_check("resume exact", case, where)
    assert found.passed is False and "noise(" in found.detail
