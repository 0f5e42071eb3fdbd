"""Bayesian logistic regression on the Wisconsin breast-cancer data, with and without score repellence, everywhere.

The posterior of the 31 coefficients given 455 rows is sampled in coordinates in which its Laplace-like approximation is
a standard normal, by MALA, SR-MALA, HMC and SR-HMC on every installed backend, and compared with a long reference run.
SRMC's settings are the paper's recommendations (Section 4), alpha = 1 and rho = 0.8, not the best for this data; the
offset of its gains is explained at `kernels`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.registry import backend_of, compiled, to_host
from xpsample.experiments.breast_cancer.affine import affine
from xpsample.experiments.breast_cancer.plot import plot
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.table import Row, columns
from xpsample.kernels import HMC, MALA, Kernel
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Exact, Target
from xpsample.trace.recorders import Moments
from xpsample.trace.trace import Trace
from xpsample.zoo.logistic import BreastCancer, load_breast_cancer, logistic_regression

SPREAD = 2.0
"""Start positions are drawn this many times wider than the approximation of the posterior."""

TOGETHER = 16
"""Positions have shape (chains / 16, 16, dim), all of them independent chains. NumPy then multiplies matrices too small
for its BLAS to start threads, whose waiting costs more than they save, above all on a busy machine."""

COLUMNS = columns(
    "backend | device | dtype | kernel | seconds .2f | compile_seconds .1f compile | acceptance .2f accept "
    "| scores .3g | hvps .3g | ess .0f ESS | ess_per_second .0f ESS/s | ess_per_1000_evaluations .1f ESS/1k "
    "| rhat .3f R-hat | error .4f | chain_error .4f 1-chain | held_out_log_density .4f held-out"
)

LEGEND = """\
seconds    one run, burn-in included, compilation not; compile is what the first run took longer
scores     evaluations of the score, hvps those of Hessian-vector products, by all chains, burn-in included
ESS        bulk effective sample size of the worst coefficient, all chains; ESS/1k per 1000 scores and hvps
R-hat      of the worst coefficient
error      of the posterior means against the reference, in posterior standard deviations, root mean square over the
           coefficients; 1-chain is the same of a single chain's means (the paper's measure), rms over the chains
held-out   mean log predictive density of a held-out row; higher is better"""


class Size(NamedTuple):
    """Lengths of the runs; `draws` and `burn_in` in HMC steps; MALA makes PER_STEP times as many."""

    chains: int
    draws: int
    burn_in: int
    warm_up: int
    reference: int


FULL = Size(chains=64, draws=600, burn_in=50, warm_up=100, reference=8000)
QUICK = Size(chains=16, draws=100, burn_in=20, warm_up=50, reference=500)
PER_STEP = 4
"""MALA steps per HMC step, and per kept draw: four scores against HMC's three."""


class WhitenedPosterior(NamedTuple):
    """The target in the coefficients w and in whitened coordinates z, with ``w = center + factor z``."""

    original: Target
    target: Target
    center: np.ndarray
    factor: np.ndarray

    def coefficients(self, z: np.ndarray) -> np.ndarray:
        """Shape ``(..., dim)`` to ``(..., dim)``, in float64."""
        return self.center + np.asarray(z, dtype=np.float64) @ self.factor.T


class Reference(NamedTuple):
    """Posterior mean and standard deviation of the coefficients, and the standard error of the mean, each (dim,)."""

    mean: np.ndarray
    sd: np.ndarray
    mcse: np.ndarray


def kernels() -> dict[str, tuple[Kernel, int]]:
    """The kernels by name, and how many of their steps make one draw.

    The step sizes were chosen by acceptance: 0.64 for MALA, 0.82 for HMC, whose three steps are a quarter of a period.
    With the paper's offset of 1 the first gain of SRMC is 0.57 and ``alpha theta . s`` starts near 18 in 31 whitened
    dimensions: of a few hundred chains one is then trapped for good. An offset of 100 starts it below 1, the bound of
    the paper's Appendix D.1.4, and trapped none of 2560.
    """
    mala, hmc, schedule = MALA(0.4), HMC(0.6, steps=3), PowerLaw(rho=0.8, offset=100.0)
    return {
        "MALA": (mala, PER_STEP),
        "SR-MALA": (SRMC(mala, alpha=1.0, schedule=schedule, tilt=Exact()), PER_STEP),
        "HMC": (hmc, 1),
        "SR-HMC": (SRMC(hmc, alpha=1.0, schedule=schedule, tilt=Exact()), 1),
    }


def measure(run: Run[Size]) -> Iterator[Row]:
    """A row for each device and kernel; the draws of each are left in a file, and for the figure."""
    data, size = load_breast_cancer(), run.size
    count, dim = data.train_features.shape
    run.say(f"{count} training rows, {len(data.test_labels)} held out, {dim} coefficients with prior N(0, 1)")
    posterior = whitened(data)
    start, reference = _prepare(posterior, run)
    run.shown |= {"traces": {}, "reference": reference, "names": data.names}
    for device in run.devices:
        for name, (kernel, steps) in kernels().items():
            with run.doing(f"{device} {name}"):
                trace, seconds, compiling = _sample(run, posterior, kernel, steps, device.array(start))
                trace = replace(
                    trace,
                    draws=posterior.coefficients(_one_chain_axis(trace.draws)),
                    statistics={kind: _one_chain_axis(values) for kind, values in trace.statistics.items()},
                    metadata=trace.metadata | {"names": list(data.names)},
                )
                trace.save(run.file(f"draws-{device}-{name}.npz"))
                row: Row = {"backend": device.backend.name, "device": device.name, "dtype": device.dtype}
                row |= {"kernel": name, "seconds": seconds, "compile_seconds": compiling}
                row |= _row(trace, seconds, (size.burn_in + size.draws) * steps, reference, data)
            if device is run.devices[0]:
                run.shown["traces"][name] = trace
            run.say(
                f"  {device!s:26} {name:8} {seconds:6.2f} s" + (f", compiled in {compiling:.1f} s" * bool(compiling))
            )
            yield row


def whitened(data: BreastCancer, draws: int = 200) -> WhitenedPosterior:
    """The posterior in coordinates in which it is near a standard normal.

    The center is the maximum a posteriori, found by Newton's method. The scale comes from the Hessian, averaged over
    the Laplace approximation there: at the mode itself, where the classes are best separated, it is too small.
    """
    rows = data.train_features * (2.0 * data.train_labels[:, None] - 1.0)
    dim = rows.shape[1]

    def precision(w: np.ndarray) -> np.ndarray:
        p = 1.0 / (1.0 + np.exp(rows @ w))
        return (rows.T * (p * (1.0 - p))) @ rows + np.eye(dim)

    center = np.zeros(dim)
    for _ in range(20):
        score = rows.T @ (1.0 / (1.0 + np.exp(rows @ center))) - center
        center = center + np.linalg.solve(precision(center), score)
    laplace = np.linalg.cholesky(np.linalg.inv(precision(center)))
    around = center + np.random.default_rng(0).standard_normal((draws, dim)) @ laplace.T
    factor = np.linalg.cholesky(np.linalg.inv(np.mean([precision(w) for w in around], axis=0)))
    original = logistic_regression(data.train_features, data.train_labels)
    return WhitenedPosterior(original, affine(original, center, factor), center, factor)


def _prepare(posterior: WhitenedPosterior, run: Run[Size]) -> tuple[np.ndarray, Reference]:
    """The start positions that all runs share, and the reference; both on NumPy.

    Overdispersed positions lie in tails where the curvature is up to forty times the curvature in the middle: with the
    runs' steps a proposal from there may never be accepted. The paper starts from the target; here HMC with small steps
    goes there first.
    """
    size, seed = run.size, run.seed
    shape = (size.chains // TOGETHER, TOGETHER, len(posterior.center))
    x0 = SPREAD * np.random.default_rng(seed).standard_normal(shape)
    warm = run.sample(posterior.target, HMC(0.15, steps=10), x0, 1, burn_in=size.warm_up)
    run.say(
        f"{size.chains} chains from N(mode, {SPREAD:g}^2 x approximate covariance), then {size.warm_up} steps of HMC, "
        "short ones"
    )

    # In the coefficients themselves, so that it checks the change of coordinates, too; and with another seed than the
    # runs', since an error against the same noise would look too small.
    with run.doing(f"reference: {size.reference} HMC steps of {size.chains} chains"):
        long = run.sample(
            posterior.original,
            HMC(0.6, steps=3, mass=np.linalg.inv(posterior.factor @ posterior.factor.T)),
            posterior.coefficients(warm.state.point.x),
            size.reference,
            seed=seed + 10**6,
            burn_in=size.reference // 20,
            recorders=(Moments(),),
        )
    moments = long.recorded["moments"]
    means, variances = (np.reshape(a, (size.chains, -1)) for a in (moments.mean, moments.variance))
    sd = np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0))
    reference = Reference(np.mean(means, axis=0), sd, np.std(means, axis=0, ddof=1) / np.sqrt(size.chains))
    run.say(
        f"reference: {size.reference} HMC steps of {size.chains} chains in {long.metadata['seconds']:.1f} s; standard "
        f"error of its means {np.sqrt(np.mean((reference.mcse / sd) ** 2)):.4f} posterior sd (root mean square)"
    )
    return warm.state.point.x, reference


def _sample(
    run: Run[Size], posterior: WhitenedPosterior, kernel: Kernel, steps: int, x0: Array
) -> tuple[Trace, float, float]:
    """The trace, the seconds of the run, and the seconds of its compilation (0 if nothing is compiled)."""
    size = run.size

    def once() -> Trace:
        return run.sample(posterior.target, kernel, x0, size.draws, burn_in=size.burn_in * steps, thinning=steps)

    trace = once()
    first = trace.metadata["seconds"]
    if compiled(backend_of(x0), once) is once:
        return trace, first, 0.0
    # What was compiled serves again, and the same run shows the run alone.
    again = once().metadata["seconds"]
    return trace, again, max(first - again, 0.0)


def _one_chain_axis(values: Any) -> np.ndarray:
    """On the host, with the two chain axes made one."""
    host = to_host(values)
    return np.reshape(host, (host.shape[0], -1, *host.shape[3:]))


def _row(trace: Trace, seconds: float, steps: int, reference: Reference, data: BreastCancer) -> dict[str, Any]:
    """The numbers of a row; the trace's draws are coefficients on the host."""
    summary = trace.summary()
    draws = trace.draws
    of_all_chains = steps * draws.shape[1]
    scores, hvps = (trace.run_statistics.evaluations[kind] * of_all_chains for kind in ("score", "hvp"))
    ess = float(np.min(summary.ess_bulk))
    error = (summary.mean - reference.mean) / reference.sd
    chain_errors = (draws.mean(axis=0) - reference.mean) / reference.sd
    return {
        "acceptance": float(np.mean(trace.run_statistics.acceptance_probability)),
        "divergences": int(np.sum(trace.run_statistics.diverged)),
        "scores": scores,
        "hvps": hvps,
        "ess": ess,
        "ess_per_second": ess / seconds,
        "ess_per_1000_evaluations": 1000 * ess / (scores + hvps),
        "rhat": float(np.max(summary.rhat)),
        "error": float(np.sqrt(np.mean(error**2))),
        "chain_error": float(np.sqrt(np.mean(chain_errors**2))),
        "held_out_log_density": held_out_log_density(draws, data),
        "ess_method": summary.method,
    }


def held_out_log_density(draws: np.ndarray, data: BreastCancer) -> float:
    """Mean over the held-out rows of log E[p(label | w)], the expectation over the draws (draw, chain, dim)."""
    rows = data.test_features * (2.0 * data.test_labels[:, None] - 1.0)
    mean = np.zeros(len(rows))
    for one in draws:  # one (chain, dim) at a time, for the memory
        mean += np.mean(1.0 / (1.0 + np.exp(-one @ rows.T)), axis=0)
    return float(np.mean(np.log(mean / len(draws))))


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Effect of repellence on the error of a chain and on the work per draw, on the first device."""
    found = {row["kernel"]: row for row in rows[: len(kernels())]}
    lines = [
        f"{name} against {name[3:]}: error of one chain's means {row['chain_error'] / base['chain_error']:.2f} of it, "
        f"effective draws per evaluation {row['ess_per_1000_evaluations'] / base['ess_per_1000_evaluations']:.2f}"
        for name, row in found.items()
        if (base := found.get(name[3:]))
    ]
    return "\n".join([*lines, "xpsample.load(FILE) reads draws-*.npz back, and its .to_arviz() converts"])


EXPERIMENT = Experiment(
    name="breast-cancer",
    title="Bayesian logistic regression, Wisconsin breast-cancer data (UCI, doi:10.24432/C5DW2B)",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    columns=COLUMNS,
    legend=LEGEND,
    conclude=conclude,
    figures={"plot": plot},
    backends=None,
)
