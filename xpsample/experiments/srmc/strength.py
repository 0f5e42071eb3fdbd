"""Error of running means against the repellence strength, three decades of it: fixed, warmed up, guarded, capped.

SRMC paper, Appendix D.1.4 and Fig. 6, whose nominal values are among ours; beside its two rules the history of
`Stable`, which caps gamma and not alpha.
"""

import argparse
import math
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
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
from xpsample.kernels import HMC, MALA, Kernel
from xpsample.srmc import SRMC, Adaptive, PowerLaw, Schedule, Stable, autocorrelation, spectrum, warmup_steps

REFERENCES = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
METHODS = ("fixed", "warm-up", "guarded", "capped", "guarded + capped")
HISTORY = PowerLaw(rho=0.6)
LEAPFROG_STEPS = 10

LEGEND = f"""\
fixed      alpha = alpha_ref at every step
warm-up    the paper's first rule: alpha grows to 0.8 alpha_ref during the first tenth, then stays
guarded    its second: the same, frozen early where alpha |s . theta| is above 1
capped     alpha = alpha_ref, the history's gamma capped by Stable: given the spectrum on the Gaussian, following the
           curvature along each chain on the logistic target
alpha      mean over the chains at the end
{RATIO_LEGEND}"""

PAPER = """\
the paper: adaptive alpha is a robustness mechanism; on the Gaussian it does not beat the best fixed alpha; on the
logistic target the warm-up alone takes HMC at 100k steps from 1.55e-3 to 1.12e-5 (alpha 2), 1.94e-2 to 2.53e-3 (5);
the guardrail gives the clearest protection there"""


class Size(NamedTuple):
    """Chains of each value, and the matched steps N: those of MALA, and ten times those of HMC."""

    chains: int
    budget: int
    reference: int


FULL = Size(chains=100, budget=5_000, reference=4_000)
QUICK = Size(chains=10, budget=600, reference=100)

BASES: dict[str, dict[str, Kernel]] = {
    "gaussian": {"MALA": MALA(0.01), "HMC": HMC(0.2, steps=LEAPFROG_STEPS)},
    "logistic": {"MALA": MALA(0.005), "HMC": HMC(0.03, steps=LEAPFROG_STEPS)},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srmc-strength", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    report.say("Error of running means against the repellence strength (SRMC, Appendix D.1.4 and Fig. 6)")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.chains} chains for each alpha_ref; MALA {size.budget} steps, HMC {size.budget // LEAPFROG_STEPS}; "
        f"gamma_n = (n + 1)^-0.6, seed {args.seed}"
    )
    problems = {
        "gaussian": decaying_gaussian(size.chains, args.seed),
        "logistic": logistic(size.chains, size.reference, args.seed, report),
    }
    rows: list[dict[str, Any]] = []
    for device in widest(device_dtypes(names)):
        for target, bases in BASES.items():
            for name, base in bases.items():
                for method in METHODS:
                    found = _row_for_each(problems[target], base, method, device, size, args.seed)
                    labels = {"place": str(device), "target": target, "kernel": name, "method": method}
                    rows += [labels | row for row in found]
                    seconds = found[0]["seconds"]
                    report.say(f"  {device!s:20} {target} SR-{name}, {method}: {seconds:.1f} s")
    shown = [row for row in rows if row["reference"] > 0]
    columns = {"target": ("target", "s"), "kernel": ("kernel", "s"), "method": ("method", "s")}
    columns |= {"reference": ("alpha_ref", "g"), "alpha": ("alpha", ".3g")}
    report.say("\n" + table(shown, columns | RATIO_COLUMNS) + "\n\n" + LEGEND)
    report.say("\nAgainst alpha = 0, by the 95 % interval of the ratio:\n" + table(verdicts(shown), VERDICT))
    report.say("\n" + PAPER)
    report.rows(rows)
    _plot(report, [row for row in shown if row["place"] == shown[0]["place"]])
    report.say(f"\nfiles are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _row_for_each(
    problem: Problem, base: Kernel, method: str, device: DeviceDtype, size: Size, seed: int
) -> list[dict[str, Any]]:
    """One batched run over all references."""
    inner = base.steps if isinstance(base, HMC) else 1
    references = device.array(np.asarray(REFERENCES)[:, None])
    strength: Any = references
    if method in ("warm-up", "guarded", "guarded + capped"):
        threshold = math.inf if method == "warm-up" else 1.0
        strength = Adaptive(references, warmup_steps(size.budget, inner), threshold=threshold)
    schedule: Schedule = HISTORY
    if method.endswith("capped"):
        # On a Gaussian any position gives the spectrum. Without it, HMC's trajectories there would be in resonance.
        known = device.array(spectrum(problem.target, problem.start[:1])) if np.all(problem.mean == 0) else None
        schedule = Stable(autocorrelation(base), known, HISTORY)
    kernel = SRMC(base, strength, schedule)
    found = errors(problem, kernel, device, (len(REFERENCES),), size.budget // inner, seed)
    alpha = to_host(found.state.alpha)
    return [
        {
            "reference": reference,
            "alpha": float(np.mean(alpha[i])),
            "steps": size.budget // inner,
            "seconds": found.seconds,
            "cost": found.cost,
            **compared(found.squared[i], found.squared[0]),
            **counted(found, (i,), problem.trace),
        }
        for i, reference in enumerate(REFERENCES)
    ]


VERDICT = {
    "place": ("place", "s"),
    "target": ("target", "s"),
    "kernel": ("kernel", "s"),
    "method": ("method", "s"),
    "below": ("below it", "s"),
    "even": ("not told apart", "s"),
    "above": ("above it", "s"),
    "broken": ("alpha_ref (broken chains)", "s"),
}


def verdicts(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """For every method, the references at which its error is below, not told apart from, or above the base kernel's."""
    found: list[dict[str, str]] = []
    for key in dict.fromkeys((r["place"], r["target"], r["kernel"], r["method"]) for r in rows):
        own = [r for r in rows if (r["place"], r["target"], r["kernel"], r["method"]) == key]
        sides: dict[str, list[dict[str, Any]]] = {
            "below": [r for r in own if r["high"] <= 1],
            "even": [r for r in own if r["low"] <= 1 < r["high"]],
            "above": [r for r in own if r["low"] > 1],
        }
        row = dict(zip(("place", "target", "kernel", "method"), key, strict=True))
        row |= {side: ", ".join(f"{r['reference']:g}" for r in of) or "-" for side, of in sides.items()}
        broken = ", ".join(f"{r['reference']:g} ({r['broken']})" for r in own if r["broken"])
        found.append(row | {"broken": broken or "-"})
    return found


def _plot(report: Report, rows: list[dict[str, Any]]) -> None:
    try:
        from xpsample.experiments.srmc.ratio_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    panels: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        panel = panels.setdefault(f"{row['target'].capitalize()}, SR-{row['kernel']}", {})
        panel.setdefault(row["method"], []).append(row | {"x": row["reference"]})
    plot(report.out / "plot.png", panels, r"$\alpha_\mathrm{ref}$", "Error against repellence strength")
