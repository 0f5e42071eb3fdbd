"""What kernels claim, and whether it holds: exact draws stay exact draws, and weights are unbiased."""

import math
from typing import Any, NamedTuple

import numpy as np

from tests.compositions.settings import COVARIANCE, FINITE, PERMUTATIONS, Setting
from tests.compositions.trees import Place, Tree
from xpsample import AIS, SOSMC, SRMC, TemperedSMC, sample
from xpsample.conformance.distributions import Distribution
from xpsample.kernels import Kernel, Trait
from xpsample.sosmc import LangevinMove, Reversible, UnderdampedMove
from xpsample.srmc import Adaptive, Frozen

CHAINS, STEPS = 4000, 40


class NumPy:
    """Host arrays."""

    name = "numpy"

    @staticmethod
    def array(host, dtype=None):
        return np.asarray(host, dtype=dtype)

    @staticmethod
    def host(array):
        assert isinstance(array, np.ndarray | np.generic), type(array)
        return np.asarray(array)


def started(library: Any, setting: Setting, kernel_of: Tree, host: np.ndarray) -> tuple[Any, Any, Kernel]:
    """Target, positions and kernel in a library; raises what making them raises."""
    x0 = library.array(host, dtype=str(host.dtype))
    floating = str(host.dtype) if host.dtype.kind == "f" else default_dtype(library)

    def array(values: Any) -> Any:
        return library.array(np.asarray(values), dtype=floating)

    kernel = kernel_of.make(Place(array, host.shape[:-1], host.shape[-1]))
    return setting.target(array), x0, kernel


def default_dtype(library: Any) -> str:
    """Of floating numbers."""
    return "float32" if library.name == "torch" else "float64"


class Found(NamedTuple):
    """A z-score, and the one that a right kernel exceeds with a probability of at most 1e-7."""

    z: float
    limit: float


def claimed(setting: Setting, kernel: Kernel) -> list[Distribution] | None:
    """The distributions, of each group, that a kernel leaves invariant by what it declares; None if it claims none."""
    if Trait.INVARIANT in kernel.traits:
        return setting.laws()
    if not isinstance(kernel, SRMC) or not isinstance(kernel.schedule, Frozen) or isinstance(kernel.alpha, Adaptive):
        return None
    if Trait.INVARIANT in kernel.base.traits:
        return tilted(setting, kernel)
    return None


def tilted(setting: Setting, kernel: SRMC) -> list[Distribution]:
    """The distributions, of each group, that a frozen history makes of the setting's."""
    return setting.tilted_laws(kernel.alpha, 0.0 if kernel.theta is None else kernel.theta, kernel.tilt)


def invariance(setting: Setting, tree: Tree, laws: list[Distribution], chains: int = CHAINS) -> Found:
    """Steps from exact draws: are they still? What the kernel remembers beside its position is let settle by them."""
    generator = np.random.default_rng(2)
    x0 = np.stack([law.draw(generator, chains) for law in laws]).reshape(*setting.chains(chains), setting.dim)
    x0 = x0.astype(setting.dtype)
    target, _, kernel = started(NumPy, setting, tree, x0)
    draws = sample(target, kernel, x0, 1, burn_in=STEPS - 1, seed=3, progress=False).draws[0].astype(np.float64)
    pairs = zip(laws, draws if setting.groups else draws[None, ...], strict=True)
    return max((Found(*law.compare(x)) for law, x in pairs), key=lambda found: found.z / found.limit)


def weighs(setting: Setting, kernel: Kernel) -> bool:
    """Whether a kernel of weighted particles claims unbiased estimates, and the setting knows the exact values."""
    listed = setting.model in (*FINITE, *PERMUTATIONS)
    if isinstance(kernel, SOSMC):
        moving = (setting.model in FINITE or setting.model == "gaussian") and setting.kind == "family"
        return moving and isinstance(kernel.move, (Reversible, LangevinMove, UnderdampedMove))
    if setting.kind == "tempered" or not (listed or (setting.model, setting.kind) == ("gaussian", "bridge")):
        return False
    if isinstance(kernel, TemperedSMC):
        return kernel.ess is None  # an adaptive ladder is unbiased in its limit only
    return isinstance(kernel, AIS) and not kernel.approximate


def weighing(setting: Setting, tree: Tree, kernel: Kernel) -> Found:
    """E[estimate of Z times the weighted mean of f] = Z E f, over independent runs; f = 1 and indicators, or waves."""
    generator, (runs, particles) = np.random.default_rng(3), (4000, 1) if isinstance(kernel, AIS) else (200, 20)
    alone = Setting(setting.model, setting.kind, (0.5,), runs, setting.dtype)
    if isinstance(kernel, SOSMC):
        steps = 6
        law, log_ratio = alone.moved(steps * kernel.optimizer.velocity)
        x0 = alone.law().draw(generator, runs * particles).reshape(runs, particles, -1)
        x0 = x0.astype(setting.dtype)
    else:
        steps, law, log_ratio = 4, alone.law(), alone.log_normalizer()
        x0 = alone.initial_draws(generator, (runs, particles))
    target, _, kernel = started(NumPy, alone, tree, x0)
    state = sample(target, kernel, x0, 1, burn_in=steps - 1, seed=4, progress=False).state
    if isinstance(kernel, AIS):
        weights = np.exp(state.log_weight - log_ratio)
    else:
        weights = np.exp(state.weights.logs + (state.weights.log_normalizer - log_ratio)[:, None])
    x = state.point.x
    if law.finite:
        often = law.probabilities > 0.01
        values = np.all(x[:, :, None, :] == law.states[often], axis=-1)
        values = np.concatenate([np.ones((runs, particles, 1)), values], axis=-1)
        means = np.concatenate([[1.0], law.probabilities[often]])
    else:
        values = np.concatenate([np.ones((runs, particles, 1)), np.cos(x), np.sin(x)], axis=-1)
        mean, damped = law.offset[0], np.exp(-0.5 * np.diag(COVARIANCE))
        means = np.concatenate([[1.0], damped * np.cos(mean), damped * np.sin(mean)])
    each = np.sum(weights[..., None] * values, axis=1) - means
    # Where all weights are 1 (one-hot positions have a constant sum, so the family never moves), only rounding is left.
    rounding = 4.0 * float(np.finfo(weights.dtype).eps)
    error = np.maximum(np.std(each, axis=0, ddof=1) / math.sqrt(runs), rounding)
    # A normal exceeds 5.7 with probability 1e-8; weights are skewed, so there is room.
    return Found(float(np.max(np.abs(np.mean(each, axis=0)) / error)), 6.5)
