"""Dependence of the error of running means on the history's decay rho and on the tilt.

SRMC paper, Appendix D.1.4: Fig. 4 (rho on the correlated Gaussian) and Fig. 5 (the finite-difference step eps on the
logistic target). The third sweep of that appendix, fixed against adaptive alpha, is `xpsample run srmc-strength`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.experiments.runner import Experiment, Run, widest
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
surrogate, 2 s(x) - s(x + alpha theta); for alpha = 1 it equals eps = 1."""
TILT_ALPHAS = (0.0, 1.0, 2.0, 5.0)
"""The paper's sweep has 1."""
TILT_SETTINGS: tuple[tuple[str, Kernel, float], ...] = (
    ("MALA", MALA(0.005), 1.0),
    ("MALA", MALA(0.005), 0.3),
    ("HMC", HMC(0.03, steps=10), 1.0),
    ("HMC", HMC(0.03, steps=10), 0.03),
)
"""Kernel and scale of the history; 1 is the paper's, 0.3 and 0.03 are from the authors' code."""

PAPER = """\
rho (Fig. 4): 0.6 and 0.8 are the strongest, 1 is consistently the weakest, with no crossover by 500k
tilt (Fig. 5, alpha = 1): for MALA very small eps are harmful, 1.15e-3 at eps = 1e-5 against 2.46e-6 at 0.1, by
cancellation; 0.1, 1 and alpha are alike; HMC is much less sensitive, all five around 1e-5"""


class Size(NamedTuple):
    """Chains of each value, steps, and the strengths of the tilts' sweep."""

    chains: int
    rho_mala: int
    rho_hmc: int
    tilt_mala: int
    tilt_hmc: int
    reference: int
    tilt_alphas: tuple[float, ...] = TILT_ALPHAS


FULL = Size(chains=100, rho_mala=40_000, rho_hmc=10_000, tilt_mala=4_000, tilt_hmc=400, reference=4_000)
QUICK = Size(chains=10, rho_mala=300, rho_hmc=100, tilt_mala=300, tilt_hmc=100, reference=100)
PAPER_SIZE = Size(100, 500_000, 50_000, 100_000, 10_000, 4_000, (0.0, 1.0))
"""Lengths of the paper, which counts a leapfrog step of HMC as a step."""


def measure(run: Run[Size]) -> Iterator[Row]:
    """The decays on the widest dtype; the tilts on every dtype, since cancellation depends on it."""
    size, best = run.size, widest(run.devices)
    run.say(
        f"{size.chains} chains of each; Gaussian {size.rho_mala} MALA, {size.rho_hmc} HMC steps; logistic "
        f"{size.tilt_mala} MALA, {size.tilt_hmc} HMC"
    )
    problem = decaying_gaussian(size.chains, run.seed)
    for device in best:
        for name, base, scale in RHO_SETTINGS:
            steps = size.rho_mala if name == "MALA" else size.rho_hmc
            yield from _rhos(run, problem, device, name, base, scale, steps)
    problem = logistic(run, size.chains, size.reference)
    first = {(device.backend.name, device.name) for device in best}
    for device in (d for d in run.devices if (d.backend.name, d.name) in first):
        for name, base, scale in TILT_SETTINGS:
            steps = size.tilt_mala if name == "MALA" else size.tilt_hmc
            with run.step(f"{device!s:20} tilts, logistic SR-{name}, scale {scale:g}"):
                rows = [row for tilt in TILTS for row in _tilted(run, problem, device, name, base, scale, tilt, steps)]
            yield from rows


def _rhos(
    run: Run[Size], problem: Problem, device: DeviceDtype, name: str, base: Kernel, scale: float, steps: int
) -> list[Row]:
    """All rho and alpha in one run: rho (3, 1, 1) against alpha (5, 1) and the chains."""
    rho = device.array(np.asarray(RHOS)[:, None, None])
    alpha = device.array(np.asarray(RHO_ALPHAS)[:, None])
    kernel = SRMC(base, alpha, PowerLaw(rho=rho, scale=scale), Exact())
    label = f"{device!s:20} rho, Gaussian SR-{name}, scale {scale:g}"
    found = errors(run, problem, kernel, device, (len(RHOS), len(RHO_ALPHAS)), steps, label)
    labels: Row = {"sweep": "rho", "place": str(device), "target": "gaussian", "kernel": name, "scale": scale}
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
    run: Run[Size], problem: Problem, device: DeviceDtype, name: str, base: Kernel, scale: float, tilt: str, steps: int
) -> list[Row]:
    """All alphas in one run of a tilt; the noise is shared with the other tilts."""
    alphas = run.size.tilt_alphas
    kernel = SRMC(base, device.array(np.asarray(alphas)[:, None]), PowerLaw(rho=0.6, scale=scale), TILTS[tilt])
    found = errors(run, problem, kernel, device, (len(alphas),), steps)
    labels: Row = {"sweep": "tilt", "place": str(device), "target": "logistic", "kernel": name, "scale": scale}
    labels |= {"steps": steps, "seconds": found.seconds, "cost": found.cost, "tilt": tilt, "rho": 0.6}
    return [
        labels | {"alpha": a} | compared(found.squared[k], found.squared[0]) | counted(found, (k,), problem.trace)
        for k, a in enumerate(alphas)
    ]


def tell(run: Run[Size], rows: list[Row]) -> None:
    """A table for each sweep, without alpha = 0, to which the others are compared."""
    for sweep, swept in {"rho": "rho g", "tilt": "tilt"}.items():
        keys = columns(f"place | kernel | scale g | {swept} | alpha g")
        shown = [row for row in rows if row["sweep"] == sweep and row["alpha"] > 0]
        run.table(shown, keys | RATIO_COLUMNS, list(keys))
    run.say("\n" + RATIO_LEGEND)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Which decay and which tilt has the smallest error, and how often."""
    lines = []
    for sweep in ("rho", "tilt"):
        cases: dict[Any, list[Row]] = {}
        for row in rows:
            if row["sweep"] == sweep and row["alpha"] > 0:
                cases.setdefault((row["place"], row["kernel"], row["scale"], row["alpha"]), []).append(row)
        best = Counter(str(min(case, key=lambda row: row["ratio"])[sweep]) for case in cases.values())
        counts = ", ".join(f"{name} in {count}" for name, count in best.most_common())
        lines.append(f"{sweep} with the smallest error, of {len(cases)} places, kernels, scales and alphas: {counts}")
    return "\n".join(lines)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Ratios against alpha, a panel for each sweep, kernel and scale."""

    def panel(row: Row) -> str:
        return f"{row['target'].capitalize()}, SR-{row['kernel']}, scale {row['scale']:g}"

    def curve(row: Row) -> str:
        return rf"$\rho$ = {row['rho']:g}" if row["sweep"] == "rho" else row["tilt"]

    plot_ratios(figure, rows, panel, curve, "alpha", r"$\alpha$")


EXPERIMENT = Experiment(
    name="srmc-sweeps",
    title="Error of running means: the decay rho, and the tilt (SRMC, Appendix D.1.4, Figs. 4 and 5)",
    settings={"full": FULL, "quick": QUICK, "paper": PAPER_SIZE},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
    devices=list,
)
