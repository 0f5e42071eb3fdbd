"""How the error of running means depends on the history's decay rho and on how the tilt is computed.

SRMC paper, Appendix D.1.4: Fig. 4 (rho on the correlated Gaussian) and Fig. 5 (the finite-difference step eps on the
logistic target). The third sweep of that appendix, fixed against adaptive alpha, is `xpsample run srmc-strength`.
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
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
from xpsample.gradients.choices import FiniteDifference
from xpsample.kernels import HMC, MALA, Kernel
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Exact, Shift, Tilt

RHOS = (0.6, 0.8, 1.0)
RHO_ALPHAS = (0.0, 0.1, 1.0, 2.0, 5.0)
RHO_SETTINGS: tuple[tuple[str, Kernel, float], ...] = (
    ("MALA", MALA(0.01), 1.0),
    ("HMC", HMC(0.2, steps=10), 1.0),
    ("HMC", HMC(0.2, steps=10), 0.03),
)
"""Kernel and scale of the history; 1 is the paper's, at which HMC is unstable for large alpha."""

TILTS: dict[str, Tilt | FiniteDifference] = {
    "Exact": Exact(),
    "eps = 1e-5": FiniteDifference(1e-5, "forward"),
    "eps = 1e-3": FiniteDifference(1e-3, "forward"),
    "eps = 0.1": FiniteDifference(0.1, "forward"),
    "eps = 1": FiniteDifference(1.0, "forward"),
    "Shift": Shift(),
}
"""`Shift`, s(x - alpha theta), is the paper's "shifted-gradient counterpart". Eq. 6 with eps = alpha is another
surrogate, 2 s(x) - s(x + alpha theta); for alpha = 1 it is that of eps = 1."""
TILT_ALPHAS = (0.0, 1.0, 2.0, 5.0)
"""The paper's sweep has 1."""
TILT_SETTINGS: tuple[tuple[str, Kernel, float], ...] = (
    ("MALA", MALA(0.005), 1.0),
    ("MALA", MALA(0.005), 0.3),
    ("HMC", HMC(0.03, steps=10), 1.0),
    ("HMC", HMC(0.03, steps=10), 0.03),
)
"""Kernel and scale of the history; 1 is the paper's, 0.3 and 0.03 are those of the authors' code."""

PAPER = {
    "rho": """\
the paper (Fig. 4): rho = 0.6 and 0.8 are the strongest, 1 is consistently the weakest, with no crossover by 500k""",
    "tilt": """\
the paper (Fig. 5, alpha = 1): for MALA very small eps are harmful, 1.15e-3 at eps = 1e-5 against 2.46e-6 at 0.1, by
cancellation; 0.1, 1 and alpha are alike; HMC is much less sensitive, all five around 1e-5""",
}


class Size(NamedTuple):
    """Chains of each value, and steps."""

    chains: int
    rho_mala: int
    rho_hmc: int
    tilt_mala: int
    tilt_hmc: int
    reference: int


FULL = Size(chains=100, rho_mala=40_000, rho_hmc=10_000, tilt_mala=4_000, tilt_hmc=400, reference=4_000)
QUICK = Size(chains=10, rho_mala=300, rho_hmc=100, tilt_mala=300, tilt_hmc=100, reference=100)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srmc-sweeps", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    report.say("Error of running means: the decay rho, and the tilt (SRMC, Appendix D.1.4, Figs. 4 and 5)")
    found = device_dtypes(names)
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.chains} chains of each; Gaussian {size.rho_mala} MALA, {size.rho_hmc} HMC steps; logistic "
        f"{size.tilt_mala} MALA, {size.tilt_hmc} HMC; seed {args.seed}"
    )
    problem = decaying_gaussian(size.chains, args.seed)
    rows: list[dict[str, Any]] = []
    for device in widest(found):
        for name, base, scale in RHO_SETTINGS:
            steps = size.rho_mala if name == "MALA" else size.rho_hmc
            rows += _rhos(problem, device, name, base, scale, steps, args.seed)
            report.say(f"  {device!s:20} rho, Gaussian SR-{name}, scale {scale:g}: {rows[-1]['seconds']:.1f} s")
    problem = logistic(size.chains, size.reference, args.seed, report)
    first = {device.name for device in widest(found)}
    for device in (p for p in found if p.name in first):  # cancellation depends on the dtype
        for name, base, scale in TILT_SETTINGS:
            steps = size.tilt_mala if name == "MALA" else size.tilt_hmc
            began_here = time.perf_counter()
            for tilt in TILTS:
                rows += _tilted(problem, device, name, base, scale, tilt, steps, args.seed)
            report.say(
                f"  {device!s:20} tilts, logistic SR-{name}, scale {scale:g}: {time.perf_counter() - began_here:.1f} s"
            )
    shown = [row for row in rows if row["alpha"] > 0]
    for sweep in ("rho", "tilt"):
        columns = {"place": ("place", "s"), "kernel": ("kernel", "s"), "scale": ("scale", "g")}
        columns |= {"rho": ("rho", "g")} if sweep == "rho" else {"tilt": ("tilt", "s")}
        columns |= {"alpha": ("alpha", "g")} | RATIO_COLUMNS
        report.say("\n" + table([row for row in shown if row["sweep"] == sweep], columns) + "\n\n" + PAPER[sweep])
    report.say("\n" + RATIO_LEGEND)
    report.rows(rows)
    _plot(report, shown)
    report.say(f"\nfiles are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _rhos(
    problem: Problem, device: DeviceDtype, name: str, base: Kernel, scale: float, steps: int, seed: int
) -> list[dict[str, Any]]:
    """All rho and alpha in one run: rho (3, 1, 1) against alpha (5, 1) and the chains."""
    rho = device.array(np.asarray(RHOS)[:, None, None])
    alpha = device.array(np.asarray(RHO_ALPHAS)[:, None])
    kernel = SRMC(base, alpha, PowerLaw(rho=rho, scale=scale))
    found = errors(problem, kernel, device, (len(RHOS), len(RHO_ALPHAS)), steps, seed)
    labels = {"sweep": "rho", "place": str(device), "target": "gaussian", "kernel": name, "scale": scale}
    labels |= {"steps": steps, "seconds": found.seconds, "cost": found.cost, "tilt": "Exact"}
    return [
        labels
        | {"rho": r, "alpha": a}
        | compared(found.squared[i, k], found.squared[i, 0])
        | counted(found, (i, k), problem.trace)
        for i, r in enumerate(RHOS)
        for k, a in enumerate(RHO_ALPHAS)
    ]


def _tilted(
    problem: Problem, device: DeviceDtype, name: str, base: Kernel, scale: float, tilt: str, steps: int, seed: int
) -> list[dict[str, Any]]:
    """All alphas in one run of a tilt; the noise is that of the other tilts."""
    kernel = SRMC(base, device.array(np.asarray(TILT_ALPHAS)[:, None]), PowerLaw(rho=0.6, scale=scale), TILTS[tilt])
    found = errors(problem, kernel, device, (len(TILT_ALPHAS),), steps, seed)
    labels = {"sweep": "tilt", "place": str(device), "target": "logistic", "kernel": name, "scale": scale}
    labels |= {"steps": steps, "seconds": found.seconds, "cost": found.cost, "tilt": tilt, "rho": 0.6}
    return [
        labels | {"alpha": a} | compared(found.squared[k], found.squared[0]) | counted(found, (k,), problem.trace)
        for k, a in enumerate(TILT_ALPHAS)
    ]


def _plot(report: Report, rows: list[dict[str, Any]]) -> None:
    try:
        from xpsample.experiments.srmc.ratio_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    panels: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        if row["place"] != rows[0]["place"]:
            continue
        if row["sweep"] == "rho":
            title, curve = f"Gaussian, SR-{row['kernel']}, scale {row['scale']:g}", rf"$\rho$ = {row['rho']:g}"
        else:
            title, curve = f"Logistic, SR-{row['kernel']}, scale {row['scale']:g}", row["tilt"]
        panels.setdefault(title, {}).setdefault(curve, []).append(row | {"x": row["alpha"]})
    plot(report.out / "plot.png", panels, r"$\alpha$", "The history's decay, and the tilt")
