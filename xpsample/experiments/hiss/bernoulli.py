"""HiSS paper, Section 6.1: three isolated modes among 16 states, over many chains, with two controls.

The paper runs 10 chains; a chain's logMAE varies by about 0.7, so here are 200.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.experiments.hiss.bridging import plot_bridging
from xpsample.experiments.hiss.joint_bernoulli import isolated_modes, joint_bernoulli
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
from xpsample.metrics.discrete import exact_probabilities

SETTINGS = Settings(step_size=0.2, sweeps=5, refinements=2, scale=4.0, every=4)
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
DIM = 4

PAPER = """\
10 chains: HiSS has the lowest logMAE and keeps gaining coverage; GWG, DMALA, ACS and PT+DMALA struggle; worse without
MH, with a Gaussian kernel, and with L = 0. Its evaluations for each draw of a chain (Table 3): GWG, DMALA and ACS 40,
PT+DMALA 220, HiSS 50"""


class Size(NamedTuple):
    """Chains and draws of the table, and of every scale of the sweep."""

    chains: int
    draws: int
    sweep_chains: int
    sweep_draws: int


FULL = Size(200, 1000, 100, 1000)
QUICK = Size(20, 60, 10, 40)


def measure(run: Run[Size]) -> Iterator[Row]:
    """All samplers; on the first device HiSS with other scales, too."""
    size, target = run.size, joint_bernoulli(isolated_modes())
    exact = exact_probabilities(target, DIM)
    run.say(
        f"{size.chains} chains from random bits, {size.draws} draws of each, 10 inner steps per draw, alpha = 0.2, "
        "G = 5, L = 2, eta = 4; the start does not count"
    )
    for device in run.devices:
        x0 = device.array(random_bits(run.seed, size.chains, DIM))
        yield from compare(run, device, target, x0, SETTINGS, exact)
    run.shown["scales"] = scales(run, run.devices[0], exact)


def random_bits(seed: int, *shape: int) -> np.ndarray:
    """Zeros and ones with equal probability."""
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.float64)


def scales(run: Run[Size], device: DeviceDtype, exact: np.ndarray) -> list[Row]:
    """HiSS with several eta, in one batched run."""
    size, target = run.size, joint_bernoulli(isolated_modes())
    x0 = device.array(random_bits(run.seed, len(SCALES), size.sweep_chains, DIM))
    etas = device.array(np.array(SCALES)[:, None])
    kernel = HiSS(DMALA(SETTINGS.step_size), etas, SETTINGS.sweeps, SETTINGS.refinements)
    states, cost = run_states(run, target, kernel, 1, x0, size.sweep_draws, f"{device} HiSS with other scales")
    found = measures(counts_at(states, [size.sweep_draws], len(exact))[0], exact)
    return [
        {"eta": eta, "acceptance": cost["acceptance"][i]}
        | mean_and_error("logmae", found["logmae"][i])
        | mean_and_error("coverage", found["coverage"][i])
        for i, eta in enumerate(SCALES)
    ]


def tell(run: Run[Size], rows: list[Row]) -> None:
    """All samplers, and the scales."""
    run.table(rows, COLUMNS, legend=LEGEND)
    title = f"HiSS with other scales, {run.size.sweep_chains} chains, {run.size.sweep_draws} draws"
    run.table(
        run.shown["scales"], columns("eta g | logmae .3f+- logMAE | acceptance .4f | coverage .3f+-"), title=title
    )


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """The best sampler of a chain and of all chains, and the best scale."""
    best = min(run.shown["scales"], key=lambda row: row["logmae"])
    return "\n".join(
        [
            best_sampler(rows, "logmae", "logMAE"),
            best_sampler(rows, "pooled", "pooled TVD"),
            f"of the scales eta = {best['eta']:g} has the least logMAE, {best['logmae']:.3f}",
        ]
    )


EXPERIMENT = Experiment(
    name="hiss-bernoulli",
    title="Three isolated modes among 16 states; HiSS paper, Section 6.1 and Appendix D.1",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={
        "plot": plot_curves({"logmae": "logMAE", "coverage": "share of the 16 states visited"}),
        "bridging": plot_bridging,
    },
)
