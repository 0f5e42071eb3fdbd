"""HiSS paper, Section 6.2 and Appendix D.2: 9 spins in 32 prominent states, G against L, and a critical lattice."""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.experiments.hiss.criticality import critical
from xpsample.experiments.hiss.samplers import Settings, compare, counts_at, draw_plot, measure, run_states, tell
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import DMALA
from xpsample.metrics.discrete import exact_probabilities, prominent_states
from xpsample.targets import Target
from xpsample.zoo.ising import cross_diagonal, ising_couplings

SETTINGS = Settings(step_size=0.2, sweeps=10, refinements=2, scale=4.0, every=2)
SITES = 9
STEPS = 50
"""G times L of the comparison of G and L."""


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "hiss-ising", backends="numpy")
    parser.add_argument(
        "--critical-draws", type=int, help=f"draws on the critical lattice (default: {FULL.critical_draws})"
    )


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    size = size._replace(critical_draws=args.critical_draws or size.critical_draws)
    target, results = model(), []
    exact = exact_probabilities(target, SITES)
    among = prominent_states(exact)
    report.say("Nine spins, four coupled pairs and a free one; HiSS paper, Section 6.2 and Appendix D.2")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.chains} chains, {size.draws} draws of each, 20 inner steps per draw, alpha = 0.2 (0.8 on spins), "
        f"G = 10, L = 2, eta = 4, seed {args.seed}; coverage is of the {np.sum(among)} prominent states"
    )
    for i, device in enumerate(widest(device_dtypes(names))):
        x0 = device.array(start(size, args.seed))
        rows, curves, marks = compare(device, target, x0, SETTINGS, size.draws, exact, args.seed, among)
        report.say(f"\n{device}")
        tell(report, rows)
        results += rows
        if i == 0:
            titles = {"tvd": "total variation distance", "coverage": "share of the prominent states visited"}
            draw_plot(report, curves, marks, titles)
            _split(report, device, x0, size, exact, args.seed)
            critical(report, device, size.critical_draws, args.seed)
    report.say(
        "\nthe paper, 5 chains: HiSS reaches a TVD of about 0.15 and all 32 states; PT+DMALA later; GWG, DMALA and"
    )
    report.say("ACS stay stuck. At criticality HiSS and DMALA agree, with an energy of about -1.4402. Evaluations per")
    report.say("draw (Table 4, 2,500 draws, 5 chains): GWG, DMALA, ACS 80, PT+DMALA 480, HiSS 100")
    report.rows(results)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _split(report: Report, device: DeviceDtype, x0: Any, size: Size, exact: np.ndarray, seed: int) -> None:
    """G sweeps of L refinements with the same product."""
    rows = []
    for g in (1, 2, 5, 10, 25, 50):
        kernel = HiSS(DMALA(4.0 * SETTINGS.step_size), SETTINGS.scale, g, STEPS // g)
        states, cost = run_states(device, model(), kernel, 1, x0, size.split_draws, seed)
        tvd = measure(counts_at(states, [size.split_draws], len(exact))[0], exact)["tvd"]
        row = {"g": g, "l": STEPS // g, "tvd": np.mean(tvd), "se": np.std(tvd, ddof=1) / np.sqrt(len(tvd))}
        rows.append(row | {"seconds": cost["seconds"]})
    report.say(f"\nHiSS with G L = {STEPS}, {size.split_draws} draws\n")
    columns = {"g": ("G", "d"), "l": ("L", "d"), "tvd": ("TVD", ".3f"), "se": ("se", ".3f")}
    report.say(table(rows, columns | {"seconds": ("seconds", ".1f")}))
