"""SRLD compared with Langevin dynamics (LD) of the same noise and drift: for srld-banana and srld-mixtures."""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.declared import declared
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.experiments.figures import band
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Column, Row, columns, interval
from xpsample.experiments.transport import marginal_wasserstein, wasserstein
from xpsample.kernels import ULA, Kernel, Trait
from xpsample.metrics import chain_ess, squared_mmd
from xpsample.metrics.stein import RBF, Bandwidth, Median, MedianFromPoint
from xpsample.srld import SRLD, History, Rolling, Thinned
from xpsample.targets import BoundTarget, Capability, Target
from xpsample.trace.recorders import Draws, Record

MMD = RBF(10.0)
"""exp(-0.1 d^2), the kernel of the authors' code."""
SETTINGS: Mapping[str, tuple[type[History], bool, Bandwidth]] = {
    "Eq. 3, App. A": (Rolling, False, Median()),
    "authors' code": (Thinned, True, MedianFromPoint()),
}
"""Ways to run SRLD: its history, whether that is padded, and the bandwidth rule."""


def starts(repeats: int, rng: np.random.Generator, dim: int = 2) -> np.ndarray:
    """N(2, 1) cut off two standard deviations from its mean, in every coordinate, (repeats, dim)."""
    z = rng.standard_normal((1000, repeats, dim))
    first = np.argmax(np.abs(z) < 2, axis=0)
    return 2 + np.take_along_axis(z, first[None], axis=0)[0]


class CommonNoise(Kernel):
    """A kernel whose chains along the first axis all see the noise of one of them."""

    base: Kernel

    @declared
    def requires(self) -> Capability:
        return self.base.requires

    @declared
    def traits(self) -> Trait:
        return self.base.traits

    def init(self, target: BoundTarget, x: Array) -> Any:
        return self.base.init(target, x)

    def noise(self, x: Array) -> Specs:
        return self.base.noise(x[:1, ...])

    def step(self, target: BoundTarget, state: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
        return self.base.step(target, state, noise)


class Matched(NamedTuple):
    """Draws of SRLD and of LD, (draw, strength, repeat, dim), and LD's step sizes over SRLD's, (strength, repeat)."""

    srld: np.ndarray
    ld: np.ndarray
    ratio: np.ndarray


def sample(
    run: Run[Any],
    target: Target,
    device: DeviceDtype,
    setting: str,
    x0: np.ndarray,
    *,
    eta: float,
    alphas: tuple[float, ...],
    past: int,
    every: int,
    dropped: int,
    draws: int,
    **options: Any,
) -> Matched:
    """SRLD from x0 (repeat, dim) at all strengths, a batched run; then LD, its step scaled for each of these chains.

    With that step the root mean square of LD's drift is SRLD's, as in the authors' code. The last `past` positions that
    are `every` steps apart repel, and every `every`-th is a draw, but for the first `dropped` of these.
    """
    history, padded, bandwidth = SETTINGS[setting]
    alpha = device.array(np.array(alphas)[:, None])
    kernel = SRLD(ULA(eta), alpha, history(past, every, padded=padded), RBF(bandwidth))
    start = device.array(np.broadcast_to(x0, (len(alphas), *x0.shape)))
    options |= {"burn_in": dropped * every, "thinning": every}

    def squares(state: Any) -> tuple[Array, Array]:
        xp, drift = array_namespace(state.point.x), kernel.drift(state)
        return xp.sum(state.point.score * state.point.score, axis=-1), xp.sum(drift * drift, axis=-1)

    recorders = (Draws(), Record("drifts", squares))
    srld = run.sample(target, CommonNoise(kernel), start, draws, recorders=recorders, **options)
    own, whole = (np.mean(to_host(a).astype(np.float64), axis=0) for a in srld.recorded["drifts"])
    ratio = np.sqrt(whole / own)
    ld = run.sample(target, CommonNoise(ULA(device.array(eta * ratio))), start, draws, recorders=(Draws(),), **options)
    return Matched(to_host(srld.draws).astype(np.float64), to_host(ld.draws).astype(np.float64), ratio)


# ---- how near draws are to the target --------------------------------------------------------------------------------


def mmd2(runs: np.ndarray, truth: np.ndarray, kernel: RBF = MMD) -> np.ndarray:
    """Squared MMD of runs (repeat, draw, dim) from draws of the target (draw, dim), (repeat,)."""
    return np.array([squared_mmd(x, truth, kernel) for x in runs])


def ess(runs: np.ndarray) -> np.ndarray:
    """ESS of a chain's mean, averaged over coordinates, (repeat,)."""
    return np.array([chain_ess(x[:, None]).mean() for x in runs])


def autocorrelation(draws: np.ndarray, lags: int) -> np.ndarray:
    """Autocorrelation of every chain and coordinate, (lags + 1, ...) of draws (draw, ...); sums of products."""
    centred = draws - np.mean(draws, axis=0)
    sums = [np.sum(centred[lag:] * centred[: len(draws) - lag], axis=0) for lag in range(lags + 1)]
    return np.stack(sums) / sums[0]


def exact_w1(runs: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """The Wasserstein-1 distance itself, whose cost is cubic, under "w1"; nothing without POT."""
    if find_spec("ot") is None:
        return {}
    return {"w1": wasserstein(runs, np.broadcast_to(truth, (len(runs), *truth.shape)))}


def difference(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Paired differences of all measures."""
    return {key: one[key] - other[key] for key in one}


def _cell(key: str, spec: str, row: Row) -> str:
    if key not in row:
        return ""
    low, high = interval(row, key)
    if " - " in row["sampler"]:
        return f"{row[key]:{spec}} ({low:{spec}}, {high:{spec}})"
    return f"{row[key]:{spec}} +- {row[f'{key}_se']:{spec}}"


def measure_columns(text: str) -> dict[str, Column]:
    """`columns` with means and their standard errors and, if the sampler is a difference, with 95 % intervals."""
    return {key: (head, partial(_cell, key, spec)) for key, (head, spec) in columns(text).items()}


def verdict(row: Row) -> str:
    """In which of the paper's measures a difference is one with 95 % confidence."""
    found: dict[str, list[str]] = {"better": [], "worse": [], "undecided": []}
    for key, name, sign in (("mmd2", "MMD^2", -1), ("marginal_w1", "marginal W1", -1), ("ess", "ESS", 1)):
        low, high = sorted(sign * end for end in interval(row, key))
        found["better" if low > 0 else "worse" if high < 0 else "undecided"].append(name)
    return "; ".join(f"{word} in {', '.join(names)}" for word, names in found.items() if names)


def plot_quality(
    axes: np.ndarray, draws: np.ndarray, truth: np.ndarray, lags: int, color: str, label: str, average: bool = False
) -> None:
    """Measures of draws (draw, repeat, dim) against their number, and their autocorrelation: four panels.

    Marginal W1 is summed over the coordinates, or the average of them.
    """
    runs, dim = np.moveaxis(draws, 0, 1), truth.shape[-1] if average else 1
    counts = np.linspace(len(draws) // 6, len(draws), 6).astype(int)
    curves = {
        "MMD$^2$, unbiased": [mmd2(runs[:, :n], truth) for n in counts],
        "marginal W$_1$ / d" if average else "sum of marginal W$_1$": [
            marginal_wasserstein(runs[:, :n], truth) / dim for n in counts
        ],
        "ESS": [ess(runs[:, :n]) for n in counts],
    }
    for one, (title, values) in zip(axes, curves.items(), strict=False):
        band(one, counts, np.asarray(values), 2, color, label)
        one.set(title=title, xlabel="draws")
    lags = min(lags, len(draws) - 1)
    band(axes[3], np.arange(lags + 1), autocorrelation(draws, lags).mean(axis=-1), 2, color, label)
    axes[3].axhline(0, color="black", lw=0.6)
    axes[3].set(title="autocorrelation", xlabel="lag in draws")
