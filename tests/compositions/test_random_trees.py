"""Random trees of kernel x wrapper x target x noise x shape: each runs and keeps what it claims, or is refused.

A tree is refused by one of our errors, before the first step. Otherwise its chains are finite, of the shape, dtype and
library of the positions, and the same for the same noise; and where it claims to leave its target invariant
(`Trait.INVARIANT`), or the tilted target that a frozen history makes of it, exact draws stay exact draws. Weighted
particles give unbiased estimates.

Each comparison fails with probability 1e-7 for a right kernel (`conformance.distributions`), at most two are made for
each tree: below 2e-5 for the 80 trees of the first tier, below 4e-4 for the 2,000 of the full one. Seeds are fixed.
"""

import warnings
from dataclasses import field
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, seed, settings

from tests.compositions.around import Around
from tests.compositions.claims import NumPy, claimed, invariance, started, weighing, weighs
from tests.compositions.settings import REAL, Setting
from tests.compositions.trees import Tree, compositions
from xpsample import Portable, Replay, sample
from xpsample.core.errors import ConvergenceWarning, RepellenceWarning, XpsampleError
from xpsample.core.registry import backend_named
from xpsample.kernels import Kernel
from xpsample.sampling.noise import NoiseSource


class Watched(Around):
    """A kernel that tells whether it has made a step."""

    stepped: list = field(default_factory=list)

    def step(self, target, state, noise):
        self.stepped.append(True)
        return self.kernel.step(target, state, noise)


def run(library: Any, setting: Setting, tree: Tree, host: np.ndarray, steps: int, seed: Any) -> Any:
    """A trace, or None where the tree was refused; a refusal after the first step is none."""
    stepped: list = []
    try:
        target, x0, kernel = started(library, setting, tree, host)
        return sample(target, Watched(kernel, stepped), x0, steps, seed=seed, progress=False)
    except XpsampleError as error:
        if stepped:
            raise AssertionError(f"{tree} was refused in the middle of its run") from error
        event(f"refused: {type(error).__name__}")
        return None


def replayed(kernel: Kernel, x: np.ndarray, steps: int) -> NoiseSource:
    """The numbers of Portable(5), as arrays."""
    floating = x if x.dtype.kind == "f" else x.astype(np.float64)
    return Replay(Portable(5).block(backend_named("numpy"), kernel.noise(x), 0, steps, floating))


def runs_or_is_refused(setting: Setting, tree: Tree, noise: str, few: int) -> bool:
    """A few chains: errors of ours only, finite draws of the right kind, the same again; whether it ran."""
    x0 = setting.draws(np.random.default_rng(1), few)
    seed: Any = {"native": 5, "portable": Portable(5), "replay": Portable(5)}[noise]
    trace = run(NumPy, setting, tree, x0, 5, seed)
    if trace is None:
        return False
    assert isinstance(trace.draws, np.ndarray)
    assert trace.draws.shape == (5, *x0.shape)
    assert trace.draws.dtype == x0.dtype
    assert np.all(np.isfinite(trace.draws))
    if setting.model not in REAL:
        legal = setting.laws()[0].states
        assert np.all(np.any(np.all(trace.draws[..., None, :] == legal, axis=-1), axis=-1)), "left the space"
    if noise == "replay":
        kernel = started(NumPy, setting, tree, x0)[2]
        if kernel.noise(x0):
            seed = replayed(kernel, x0, 5)
    again = run(NumPy, setting, tree, x0, 5, seed)
    np.testing.assert_array_equal(again.draws, trace.draws)
    return True


def keeps_what_it_claims(setting: Setting, tree: Tree) -> None:
    """Many chains: exact draws stay exact draws, and weights are unbiased."""
    kernel = started(NumPy, setting, tree, setting.draws(np.random.default_rng(2), 3))[2]
    laws = claimed(setting, kernel)
    if laws is not None:
        event(f"invariant: {setting.model}")
        found = invariance(setting, tree, laws)
    elif weighs(setting, kernel) and "[" not in tree.name:  # no arrays that fit other chains
        event(f"unbiased: {type(kernel).__name__}")
        found = weighing(setting, tree, kernel)
    else:
        return
    assert found.z < found.limit, f"{tree} is biased: z = {found.z:.1f}"


def check(setting: Setting, tree: Tree, noise: str, few: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)  # the runs are short
        warnings.simplefilter("ignore", RepellenceWarning)  # and strengths random
        if runs_or_is_refused(setting, tree, noise, few):
            event("ran")
            keeps_what_it_claims(setting, tree)


NOISES = st.sampled_from(["native", "portable", "replay"])
FEW = st.sampled_from([3, 3, 3, 1])
FIXED: Any = {"derandomize": True, "deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.slow
@settings(max_examples=80, **FIXED)
@given(compositions(), NOISES, FEW)
def test_random_trees_keep_what_they_claim_or_are_refused(composition, noise, few):
    check(*composition, noise, few)


@pytest.mark.release
@seed(20)
@settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(compositions(), NOISES, FEW)
def test_many_random_trees(composition, noise, few):
    check(*composition, noise, few)


def same_elsewhere(library: Any, setting: Setting, tree: Tree, few: int) -> None:
    """The chain that NumPy arrays give, of the library's own arrays; or refused on both."""
    x0 = setting.draws(np.random.default_rng(1), few)
    ours, theirs = (run(place, setting, tree, x0, 5, Portable(5)) for place in (NumPy, library))
    assert (ours is None) == (theirs is None)
    if theirs is None:
        return
    draws = library.host(theirs.draws)
    assert draws.shape == ours.draws.shape
    assert draws.dtype == ours.draws.dtype
    assert np.all(np.isfinite(draws))
    if draws.dtype != np.float32:  # whose rounding may decide an acceptance
        np.testing.assert_allclose(draws, ours.draws, rtol=1e-6, atol=1e-6)


ELSEWHERE = pytest.mark.parametrize("library", ["torch", "array_api_strict"], indirect=True)


@pytest.mark.first_cases(1)
@pytest.mark.first_tier
@ELSEWHERE
@settings(max_examples=60, **FIXED)
@given(composition=compositions(), few=FEW)
def test_random_trees_give_the_same_chain_elsewhere(library, composition, few):
    same_elsewhere(library, *composition, few)


@pytest.mark.release
@ELSEWHERE
@seed(21)
@settings(max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(composition=compositions(), few=FEW)
def test_many_random_trees_give_the_same_chain_elsewhere(library, composition, few):
    same_elsewhere(library, *composition, few)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["jax"], indirect=True)
@settings(max_examples=30, **FIXED)
@given(composition=compositions(), few=FEW)
def test_random_trees_give_the_same_chain_compiled(library, composition, few):
    same_elsewhere(library, *composition, few)
