"""Error of running means against the repellence strength, three decades of it: fixed, warmed up, guarded, capped.

SRMC paper, Appendix D.1.4 and Fig. 6, whose nominal values are included; besides its two rules the history of
`Stable`, which caps gamma and not alpha.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.srmc.problems import (
    RATIO_COLUMNS,
    RATIO_LEGEND,
    Problem,
    compared,
    counted,
    decaying_gaussian,
    errors,
    logistic,
)
from xpsample.experiments.srmc.ratio_plot import plot_ratios
from xpsample.experiments.table import Row, columns
from xpsample.kernels import HMC, MALA, Kernel
from xpsample.srmc import SRMC, Adaptive, PowerLaw, Schedule, Stable, autocorrelation, spectrum, warmup_steps
from xpsample.targets import Exact

REFERENCES = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
METHODS = ("fixed", "warm-up", "guarded", "capped", "guarded + capped")
HISTORY = PowerLaw(rho=0.6)
LEAPFROG_STEPS = 10
BASES: dict[tuple[str, str], Kernel] = {
    ("gaussian", "MALA"): MALA(0.01),
    ("gaussian", "HMC"): HMC(0.2, steps=LEAPFROG_STEPS),
    ("logistic", "MALA"): MALA(0.005),
    ("logistic", "HMC"): HMC(0.03, steps=LEAPFROG_STEPS),
}

LEGEND = f"""\
fixed      alpha = alpha_ref at every step
warm-up    the paper's first rule: alpha grows to 0.8 alpha_ref during the first tenth, then stays
guarded    its second: the same, frozen early where alpha |s . theta| is above 1
capped     alpha = alpha_ref, the history's gamma capped by Stable: given the spectrum on the Gaussian, following the
           curvature along each chain on the logistic target
alpha      mean over the chains at the end
{RATIO_LEGEND}"""

COLUMNS = columns("place | target | kernel | method | reference g alpha_ref | alpha .3g") | RATIO_COLUMNS
VERDICT = columns(
    "place | target | kernel | method | below s below it | even s not told apart | above s above it "
    "| broken s alpha_ref (broken chains)"
)

PAPER = """\
adaptive alpha is a robustness mechanism; on the Gaussian it does not beat the best fixed alpha; on the
logistic target the warm-up alone takes HMC at 100k steps from 1.55e-3 to 1.12e-5 (alpha 2), 1.94e-2 to 2.53e-3 (5);
the guardrail gives the clearest protection there"""


class Size(NamedTuple):
    """Chains of each value, the matched steps N (MALA's, ten times HMC's), and the parts that run."""

    chains: int
    budget: int
    reference: int
    references: tuple[float, ...] = REFERENCES
    methods: tuple[str, ...] = METHODS
    bases: tuple[tuple[str, str], ...] = tuple(BASES)


FULL = Size(chains=100, budget=5_000, reference=4_000)
QUICK = Size(chains=10, budget=600, reference=100)
PAPER_SIZE = Size(100, 100_000, 4_000, (0.0, 2.0, 5.0), METHODS[:2], (("logistic", "HMC"),))
"""Values of the paper."""


def measure(run: Run[Size]) -> Iterator[Row]:
    """All strengths of a target, a kernel and a method are one batched run."""
    size = run.size
    run.say(
        f"{size.chains} chains for each alpha_ref; MALA {size.budget} steps, HMC {size.budget // LEAPFROG_STEPS}; "
        "gamma_n = (n + 1)^-0.6"
    )
    problems = {
        "gaussian": decaying_gaussian(size.chains, run.seed),
        "logistic": logistic(run, size.chains, size.reference),
    }
    for device in run.devices:
        for target, name in size.bases:
            for method in size.methods:
                labels = {"place": str(device), "target": target, "kernel": name, "method": method}
                label = f"{device!s:20} {target} SR-{name}, {method}"
                for row in _row_for_each(run, problems[target], BASES[target, name], method, device, label):
                    yield labels | row


def _row_for_each(
    run: Run[Size], problem: Problem, base: Kernel, method: str, device: DeviceDtype, label: str
) -> list[Row]:
    """One batched run over all references."""
    inner, budget = base.steps or 1 if isinstance(base, HMC) else 1, run.size.budget
    references = device.array(np.asarray(run.size.references)[:, None])
    strength: Any = references
    if method in ("warm-up", "guarded", "guarded + capped"):
        threshold = math.inf if method == "warm-up" else 1.0
        strength = Adaptive(references, warmup_steps(budget, inner), threshold=threshold)
    schedule: Schedule = HISTORY
    if method.endswith("capped"):
        # On a Gaussian any position gives the spectrum. Without it, HMC's trajectories there would be in resonance.
        known = device.array(spectrum(problem.target, problem.start[:1])) if np.all(problem.mean == 0) else None
        schedule = Stable(autocorrelation(base), known, HISTORY)
    kernel = SRMC(base, strength, schedule, Exact())
    found = errors(run, problem, kernel, device, (len(run.size.references),), budget // inner, label)
    alpha = to_host(found.state.alpha)
    return [
        {
            "reference": reference,
            "alpha": float(np.mean(alpha[i])),
            "steps": budget // inner,
            "seconds": found.seconds,
            "cost": found.cost,
            **compared(found.squared[i], found.squared[0]),
            **counted(found, (i,), problem.trace),
        }
        for i, reference in enumerate(run.size.references)
    ]


def verdicts(rows: list[Row]) -> list[dict[str, str]]:
    """For every method, the references at which its error is below, not told apart from, or above the base kernel's."""
    found: list[dict[str, str]] = []
    for key in dict.fromkeys((r["place"], r["target"], r["kernel"], r["method"]) for r in rows):
        own = [r for r in rows if (r["place"], r["target"], r["kernel"], r["method"]) == key]
        sides: dict[str, list[Row]] = {
            "below": [r for r in own if r["high"] <= 1],
            "even": [r for r in own if r["low"] <= 1 < r["high"]],
            "above": [r for r in own if r["low"] > 1],
        }
        row = dict(zip(("place", "target", "kernel", "method"), key, strict=True))
        row |= {side: ", ".join(f"{r['reference']:g}" for r in of) or "-" for side, of in sides.items()}
        broken = ", ".join(f"{r['reference']:g} ({r['broken']})" for r in own if r["broken"])
        found.append(row | {"broken": broken or "-"})
    return found


def tell(run: Run[Size], rows: list[Row]) -> None:
    """Every strength but 0, to which the others are compared, and the verdicts."""
    shown = [row for row in rows if row["reference"] > 0]
    run.table(shown, COLUMNS, ("place", "target", "kernel", "method", "reference"), legend=LEGEND)
    run.table(verdicts(shown), VERDICT, title="Against alpha = 0, by the 95 % interval of the ratio:")


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Number of cases in which each method helps and harms."""
    lines = []
    for method in run.size.methods:
        own = [row for row in rows if row["method"] == method and row["reference"] > 0]
        below, above = sum(row["high"] <= 1 for row in own), sum(row["low"] > 1 for row in own)
        lines.append(
            f"{method}: of {len(own)} strengths on all targets and kernels {below} lower the error, {above} raise it, "
            f"{sum(row['broken'] > 0 for row in own)} break chains"
        )
    return "\n".join(lines)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Ratios against the strength, a panel for each target and kernel."""

    def panel(row: Row) -> str:
        return f"{row['target'].capitalize()}, SR-{row['kernel']}"

    plot_ratios(figure, rows, panel, lambda row: row["method"], "reference", r"$\alpha_\mathrm{ref}$")


EXPERIMENT = Experiment(
    name="srmc-strength",
    title="Error of running means against the repellence strength (SRMC, Appendix D.1.4 and Fig. 6)",
    settings={"full": FULL, "quick": QUICK, "paper": PAPER_SIZE},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
)
