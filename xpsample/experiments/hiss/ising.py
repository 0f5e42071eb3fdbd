"""HiSS paper, Section 6.2 and Appendix D.2: 9 spins in 32 prominent states, G against L, and a critical lattice."""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.experiments.hiss.criticality import BETA, SIDE, critical, exact_energy, tell_energies
from xpsample.experiments.hiss.samplers import (
    COLUMNS,
    LEGEND,
    Settings,
    best_sampler,
    compare,
    counts_at,
    measures,
    plot_curves,
    run_states,
)
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.table import Row, columns, mean_and_error
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import DMALA
from xpsample.metrics.discrete import exact_probabilities, prominent_states
from xpsample.targets import Target
from xpsample.zoo.ising import cross_diagonal, ising_couplings

SETTINGS = Settings(step_size=0.2, sweeps=10, refinements=2, scale=4.0, every=2)
SITES = 9
STEPS = 50
"""G times L of the comparison of G and L."""
SPLIT = columns("g d G | l d L | tvd .3f+- TVD | seconds .1f")
PAPER = """\
5 chains: HiSS reaches a TVD of about 0.15 and all 32 states; PT+DMALA later; GWG, DMALA and ACS stay stuck. At
criticality HiSS and DMALA agree, with an energy of about -1.4402. Evaluations for each draw (Table 4, 2,500 draws,
5 chains): GWG, DMALA and ACS 80, PT+DMALA 480, HiSS 100"""


class Size(NamedTuple):
    """Chains; draws of the table, of each G, and of the critical lattice."""

    chains: int
    draws: int
    split_draws: int
    critical_draws: int


FULL = Size(100, 2500, 100, 300)
QUICK = Size(10, 20, 5, 4)


def model() -> Target:
    """s' W s / 2 + 0.1 sum s, W ten on both diagonals."""
    return ising_couplings(cross_diagonal(SITES), 0.1)


def start(size: Size, seed: int) -> np.ndarray:
    """Independent spins, up with probability sigmoid(0.2)."""
    up = np.random.default_rng(seed).random((size.chains, SITES)) < 1.0 / (1.0 + np.exp(-0.2))
    return np.where(up, 1.0, -1.0)


def options(parser: argparse.ArgumentParser) -> None:
    """The length of the runs at criticality."""
    parser.add_argument(
        "--critical-draws", type=int, help=f"draws on the critical lattice (default: {FULL.critical_draws})"
    )


def measure(run: Run[Size]) -> Iterator[Row]:
    """All samplers; on the first device sweeps against refinements and the critical lattice, too."""
    size, target = run.size, model()
    exact = exact_probabilities(target, SITES)
    among = prominent_states(exact)
    run.say(
        f"{size.chains} chains, {size.draws} draws of each, 20 inner steps per draw, alpha = 0.2 (0.8 on spins), "
        f"G = 10, L = 2, eta = 4; coverage is of the {np.sum(among)} prominent states"
    )
    for device in run.devices:
        x0 = device.array(start(size, run.seed))
        yield from compare(run, device, target, x0, SETTINGS, exact, among)
    run.shown["split"] = split(run, run.devices[0], exact)
    run.shown["critical"] = critical(run, run.devices[0], run.args.critical_draws or size.critical_draws)


def split(run: Run[Size], device: DeviceDtype, exact: np.ndarray) -> list[Row]:
    """G sweeps of L refinements with the same product."""
    rows, draws, x0 = [], run.size.split_draws, device.array(start(run.size, run.seed))
    for g in (1, 2, 5, 10, 25, 50):
        kernel = HiSS(DMALA(4.0 * SETTINGS.step_size), SETTINGS.scale, g, STEPS // g)
        states, cost = run_states(run, model(), kernel, 1, x0, draws, f"{device} HiSS, G = {g}, L = {STEPS // g}")
        tvd = measures(counts_at(states, [draws], len(exact))[0], exact)["tvd"]
        rows.append({"g": g, "l": STEPS // g} | mean_and_error("tvd", tvd) | {"seconds": cost["seconds"]})
    return rows


def tell(run: Run[Size], rows: list[Row]) -> None:
    """All samplers, G against L, and the energies at criticality."""
    run.table(rows, COLUMNS, legend=LEGEND)
    run.table(run.shown["split"], SPLIT, title=f"HiSS with G L = {STEPS}, {run.size.split_draws} draws")
    tell_energies(run, run.shown["critical"])


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """The best sampler, the best G, and how far the energies are from the exact one."""
    best = min(run.shown["split"], key=lambda row: row["tvd"])
    exact = exact_energy(BETA, SIDE, SIDE)
    return "\n".join(
        [
            best_sampler(rows, "tvd", "TVD"),
            f"of G L = {STEPS} the least TVD, {best['tvd']:.3f}, is that of G = {best['g']} and L = {best['l']}",
            f"energies at criticality less the exact {exact:.4f}, in standard errors: "
            + ", ".join(
                f"{row['sampler']} {(row['all'] - exact) / row['all_se']:.1f}" for row in run.shown["critical"]
            ),
        ]
    )


EXPERIMENT = Experiment(
    name="hiss-ising",
    title="Nine spins, four coupled pairs and a free one; HiSS paper, Section 6.2 and Appendix D.2",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={
        "plot": plot_curves({"tvd": "total variation distance", "coverage": "share of the prominent states visited"})
    },
    options=options,
)
