"""HiSS paper, Section 6.1: three isolated modes among 16 states, over many chains and beside two controls.

The paper runs 10 chains; a chain's logMAE varies by about 0.7, so here are 200.
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.experiments.hiss.samplers import Settings, compare, counts_at, draw_plot, measure, run_states, tell
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import DMALA
from xpsample.metrics.discrete import exact_probabilities
from xpsample.zoo.bernoulli import isolated_modes, joint_bernoulli

SETTINGS = Settings(step_size=0.2, sweeps=5, refinements=2, scale=4.0, every=4)
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
DIM = 4
TABLE_3 = {"GWG": 40, "DMALA": 40, "ACS": 40, "PT+DMALA": 220, "HiSS": 50}
"""The paper's evaluations per draw of a chain."""


class Size(NamedTuple):
    """Chains and draws of the table, and of every scale of the sweep."""

    chains: int
    draws: int
    sweep_chains: int
    sweep_draws: int


FULL = Size(200, 1000, 100, 1000)
QUICK = Size(20, 60, 10, 40)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "hiss-bernoulli", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the tables, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    target, results = joint_bernoulli(isolated_modes()), []
    exact = exact_probabilities(target, DIM)
    report.say("Three isolated modes among 16 states; HiSS paper, Section 6.1 and Appendix D.1")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.chains} chains from random bits, {size.draws} draws of each, 10 inner steps per draw, alpha = 0.2, "
        f"G = 5, L = 2, eta = 4, seed {args.seed}; the start does not count"
    )
    for i, device in enumerate(widest(device_dtypes(names))):
        bits = np.random.default_rng(args.seed).integers(0, 2, (size.chains, DIM))
        rows, curves, marks = compare(
            device, target, device.array(bits.astype(np.float64)), SETTINGS, size.draws, exact, args.seed
        )
        report.say(f"\n{device}")
        tell(report, rows)
        results += rows
        if i == 0:
            draw_plot(report, curves, marks, {"logmae": "logMAE", "coverage": "share of the 16 states visited"})
            _scales(report, device, size, exact, args.seed)
    _paper(report)
    report.rows(results)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _scales(report: Report, device: DeviceDtype, size: Size, exact: np.ndarray, seed: int) -> None:
    """HiSS with several eta, in one batched run."""
    target, etas = joint_bernoulli(isolated_modes()), device.array(np.array(SCALES)[:, None])
    bits = np.random.default_rng(seed).integers(0, 2, (len(SCALES), size.sweep_chains, DIM))
    kernel = HiSS(DMALA(SETTINGS.step_size), etas, SETTINGS.sweeps, SETTINGS.refinements)
    states, _ = run_states(device, target, kernel, 1, device.array(bits.astype(np.float64)), size.sweep_draws, seed)
    measured = measure(counts_at(states, [size.sweep_draws], len(exact))[0], exact)
    rows: list[dict[str, Any]] = []
    for i, eta in enumerate(SCALES):
        values = measured["logmae"][i]
        rows.append({"eta": eta, "logmae": np.mean(values), "se": np.std(values, ddof=1) / np.sqrt(len(values))})
    report.say(f"\nHiSS with other scales, {size.sweep_chains} chains, {size.sweep_draws} draws\n")
    report.say(table(rows, {"eta": ("eta", "g"), "logmae": ("logMAE", ".3f"), "se": ("se", ".3f")}))


def _paper(report: Report) -> None:
    report.say(
        "\nthe paper, 10 chains: HiSS has the lowest logMAE and keeps gaining coverage; GWG, DMALA, ACS and PT+DMALA"
    )
    report.say(
        "struggle; worse without MH, with a Gaussian kernel, and with L = 0. Its evaluations per draw (Table 3):"
    )
    report.say(", ".join(f"{name} {count}" for name, count in TABLE_3.items()))
    report.say("NFE above: 2 for every density and every score that was evaluated. A swap costs nothing here, for the")
    report.say("densities are known; a denoising proposal costs 4, not 2, for its score is what refinement starts from")
