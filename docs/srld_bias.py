"""Prints the tables of docs/measurements/2026-11-srld-bias.md: what SRLD samples on a Gaussian, against M and alpha.

python docs/srld_bias.py [history | bases | balanced | targets | rate | lags | crossing]     (some minutes each)
"""

import sys
import warnings
from collections.abc import Sequence

import numpy as np
from srmc_breaks import PROBLEMS

from xpsample import RBF, SRLD, ULA, Rolling, Thinned, UnderdampedLangevin, sample
from xpsample.experiments.srld import matched, mixtures
from xpsample.experiments.srld.matched import CommonNoise
from xpsample.kernels import Kernel
from xpsample.metrics.stein import MedianFromPoint
from xpsample.srld import Balanced, History
from xpsample.trace.recorders import Moments
from xpsample.zoo.gaussian import gaussian

ALPHA = np.array([0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])
ETA, EVERY, CHAINS, STEPS = 0.05, 10, 40, 4000


def row(*cells: object) -> None:
    """Print a line of a Markdown table."""
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def moments(
    kernel: Kernel, x0: np.ndarray, burn_in: int
) -> tuple[np.ndarray, np.ndarray]:
    """By chain, (rows, chains): mean squares of the draws and squared means, both averaged over coordinates."""
    run = sample(
        gaussian(np.eye(x0.shape[-1])),
        kernel,
        x0,
        STEPS,
        burn_in=burn_in,
        seed=1,
        recorders=(Moments(),),
    )
    found = run.recorded["moments"]
    lost = np.any(np.asarray(run.run_statistics.diverged) > 0, axis=-1)
    second = np.mean(found.variance + found.mean**2, axis=-1)
    return np.where(lost[:, None], np.inf, second), np.mean(found.mean**2, axis=-1)


def variances(kernel: Kernel, dim: int, burn_in: int) -> np.ndarray:
    """Variances of the draws of each chain about the true mean 0, averaged over coordinates: (strengths, chains)."""
    x0 = np.random.default_rng(0).standard_normal((len(ALPHA), CHAINS, dim))
    return moments(kernel, x0, burn_in)[0]


def cells(values: np.ndarray) -> list[str]:
    """Means over chains with their standard errors."""
    return [
        "diverges"
        if not np.all(v < 1e6)
        else f"{v.mean():.3f} ± {v.std() / np.sqrt(len(v)):.3f}"
        for v in values
    ]


def table(settings: dict[str, tuple[Kernel, int, int]]) -> None:
    """A row for each setting: (kernel, dim, burn-in)."""
    row("", *(f"alpha = {a:g}" for a in ALPHA))
    row(*["---"] * (1 + len(ALPHA)))
    for name, (kernel, dim, burn_in) in settings.items():
        row(name, *cells(variances(kernel, dim, burn_in)))


def ula(
    m: int, dim: int, history: type[History] = Rolling, **kernel: object
) -> tuple[Kernel, int, int]:
    """SRLD over ULA with M positions, one every EVERY steps."""
    return (
        SRLD(ULA(ETA), ALPHA[:, None], history(m, EVERY), RBF(**kernel)),
        dim,
        2 * m * EVERY,
    )


def over(base: Kernel) -> tuple[Kernel, int, int]:
    """SRLD over another base, M = 10."""
    return SRLD(base, ALPHA[:, None], Rolling(10, EVERY)), 2, 20 * EVERY


def history() -> None:
    """Variance against M and alpha, in 2 and 20 dimensions."""
    table({f"M = {m}, dim {dim}": ula(m, dim) for dim in (2, 20) for m in (5, 10, 30)})


def bases() -> None:
    """M = 10 in two dimensions: histories, bandwidths, base kernels."""
    table(
        {
            "ULA, `Thinned`": ula(10, 2, Thinned),
            "ULA, `MedianFromPoint()`": ula(10, 2, bandwidth=MedianFromPoint()),
            "ULA, bandwidth 1": ula(10, 2, bandwidth=1.0),
            "ULA, bandwidth 10": ula(10, 2, bandwidth=10.0),
            "`UnderdampedLangevin(0.3)`": over(UnderdampedLangevin(0.3)),
        }
    )


def balanced() -> None:
    """The strengths that App. A's ratio chooses."""
    row("", "alpha, median of the chains", "variance")
    row(*["---"] * 3)
    for dim in (2, 20):
        for m in (10, 30):
            kernel = SRLD(ULA(ETA), Balanced(m * EVERY), Rolling(m, EVERY))
            x0 = np.random.default_rng(0).standard_normal((CHAINS, dim))
            target = gaussian(np.eye(dim))
            run = sample(
                target,
                kernel,
                x0,
                STEPS,
                burn_in=3 * m * EVERY,
                seed=1,
                recorders=(Moments(),),
            )
            moments = run.recorded["moments"]
            second = np.mean(moments.variance + moments.mean**2, axis=-1)
            row(
                f"M = {m}, dim {dim}",
                f"{np.median(run.state.alpha):.1f}",
                *cells(second[None]),
            )


def targets() -> None:
    """SRLD over a tuned ULA on four targets: the variance over the target's."""
    strengths = [0.0, 1.0, 3.0, 10.0]
    row("target", *(f"alpha = {a:g}" for a in strengths), "`Balanced` (alpha unset)")
    row(*["---"] * 6)
    chosen = (
        "normal, 10 dimensions",
        "normal, condition 100",
        "Student-t, 5 degrees",
        "`zoo.banana()`",
    )
    for name in chosen:
        problem, found = PROBLEMS[name], []
        for alpha in (*strengths, None):
            x0 = problem.draws(np.random.default_rng(0), 100)
            kernel = SRLD(ULA(), alpha, Rolling(10, 10))
            run = sample(
                problem.target, kernel, x0, 1500, burn_in=200, seed=1, progress=False
            )
            square = ((run.draws - problem.mean) / problem.sd) ** 2
            found.append(np.mean(square, axis=(0, -1)))
        row(name, *cells(np.asarray(found)))


def together(
    kernel: Kernel, rows: int, dim: int, burn_in: int
) -> tuple[np.ndarray, np.ndarray]:
    """`moments` of rows of 100 chains that have their starts and their noise in common."""
    x0 = np.random.default_rng(0).standard_normal((100, dim))
    return moments(CommonNoise(kernel), np.broadcast_to(x0, (rows, *x0.shape)), burn_in)


def slope(x: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> str:
    """Slope of log values against log x, by weighted least squares, with its standard error."""
    y, weights = np.log(values), (np.asarray(values) / np.asarray(errors)) ** 2
    at = np.log(x) - np.average(np.log(x), weights=weights)
    precision = np.sum(weights * at**2)
    return f"{np.sum(weights * at * y) / precision:.2f} ± {precision**-0.5:.2f}"


def rate() -> None:
    """Theorem 4.3 in 20 dimensions: the variance that ULA has and SRLD lacks, by strength, M and step size.

    With a fixed bandwidth, as in the theorem, and positions of the past that are c = 0.5 apart in time.
    """
    strengths, numbers, steps = [0.5, 1.0, 2.0], [5, 10, 20, 40], [0.025, 0.05, 0.1]
    alpha, dim = np.array([[0.0], *([a] for a in strengths)]), 20

    def lost(m: int, eta: float) -> list[tuple[float, float]]:
        every = round(0.5 / eta)
        kernel = SRLD(ULA(eta), alpha, Rolling(m, every), RBF(bandwidth=float(dim)))
        second, _ = together(kernel, len(alpha), dim, 2 * m * every)
        return [(np.mean(v), np.std(v) / len(v) ** 0.5) for v in second[0] - second[1:]]

    row("", *(f"alpha = {a:g}" for a in strengths), "slope in alpha")
    row(*["---"] * (2 + len(strengths)))
    by_m = {m: lost(m, 0.05) for m in numbers}
    by_eta = {eta: lost(10, eta) for eta in steps}
    named = {f"M = {m}, eta = 0.05": found for m, found in by_m.items()}
    named |= {f"M = 10, eta = {eta:g}": found for eta, found in by_eta.items()}
    for name, found in named.items():
        shown = (f"{mean:.4f} ± {error:.4f}" for mean, error in found)
        row(name, *shown, slope(strengths, *zip(*found, strict=True)))
    for name, by in (("M", by_m), ("eta", by_eta)):
        columns = zip(*by.values(), strict=True)
        slopes = (slope(list(by), *zip(*column, strict=True)) for column in columns)
        row(f"slope in {name}", *slopes, "")


def lags() -> None:
    """alpha = 10: variance, and the squared error of a mean over ULA's, by the distance c and the number M."""
    row(
        "", *(f"{what}, dim {dim}" for dim in (2, 20) for what in ("variance", "error"))
    )
    row(*["---"] * 5)
    alpha, settings = np.array([[0.0], [10.0]]), [(10, c) for c in (1, 3, 10, 30, 100)]
    for m, c in [*settings, (5, 10), (20, 10), (40, 10)]:
        shown = []
        for dim in (2, 20):
            kernel = SRLD(ULA(ETA), alpha, Rolling(m, c))
            second, (base, own) = together(kernel, 2, dim, 2 * m * c)
            ratio = np.mean(own) / np.mean(base)
            spread = np.std(own - ratio * base) / np.mean(base) / len(own) ** 0.5
            shown += [*cells(second[1:]), f"{ratio:.2f} ± {spread:.2f}"]
        row(f"M = {m}, c = {c}", *shown)


def crossing() -> None:
    """App. B.1: how many of 100 chains have been in the second mode of the mixture in the plane, by sample."""
    problem, dim, shown = mixtures.PROBLEMS["mixture, d = 2"], 2, (50, 100, 200, 250)
    x0 = matched.starts(100, np.random.default_rng(0), dim)
    row("", *(f"{n} samples" for n in shown), "samples in it, of 250")
    row(*["---"] * (2 + len(shown)))
    kind, padded, bandwidth = matched.SETTINGS["authors' code"]
    history = kind(100, problem.every, padded=padded)
    alpha = np.array(problem.alphas)[:, None]
    run = sample(
        problem.target(),
        CommonNoise(SRLD(ULA(problem.eta), alpha, history, RBF(bandwidth))),
        np.broadcast_to(x0, (2, *x0.shape)),
        max(shown),
        thinning=problem.every,
        seed=1,
        progress=False,
    )
    inside = run.draws.sum(axis=-1) < 0
    for i, name in enumerate(("SRLD", "LD")):
        been = [np.sum(np.any(inside[:n, i], axis=0)) for n in shown]
        of = inside[:, i].sum(axis=0)
        row(name, *been, f"{of.mean():.1f} ± {of.std() / 10:.1f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the divergences are what is shown
    chosen = {
        "history": history,
        "bases": bases,
        "balanced": balanced,
        "targets": targets,
        "rate": rate,
        "lags": lags,
        "crossing": crossing,
    }
    with np.errstate(all="ignore"):
        for name in sys.argv[1:] or chosen:
            print(f"\n{name}\n")
            chosen[name]()
