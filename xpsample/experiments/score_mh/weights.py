"""Score-MH paper, Fig. 1: the weights that samplers give two distant modes, and where they start.

The target is 0.8 N((5, 5), I) + 0.2 N((-5, -5), I). The paper reports ULA 0.52, random walk and MALA 0.79 of the first
mode, and neither starts nor step sizes. Here all start in four ways, which are one batched run, and the acceptance is
made from the density, from the true score, and by a network learned on that score.
"""

import argparse
import math
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.score_mh.models import Training, train_acceptances
from xpsample.kernels import MALA, RWM, ULA, Kernel
from xpsample.run.sampling import sample
from xpsample.score_mh import Learned, RandomWalk, acceptance_network
from xpsample.targets import Acceptance, LineIntegral, Target, Taylor
from xpsample.zoo.mixture import gaussian_mixture

WEIGHTS, MEANS = np.array([0.8, 0.2]), np.array([[5.0, 5.0], [-5.0, -5.0]])
STARTS = ("heavy mode", "both modes", "N(0, I)", "exact draws")
WIDE = 8.0
"""Standard deviation of the random walk's proposals that reach the other mode."""
ETA = 0.5
REGULARIZATION, MAX_NORM = 1.0, 100.0

LEGEND = f"""\
weight     share of kept positions nearer to (5, 5), mean over chains +- its standard error; the target has 0.8
crossed    share of the chains seen near both modes, over all four starts
heavy mode all chains start at (5, 5); both modes: half of them at each; exact draws: by the mixture
wide       proposals of standard deviation {WIDE:g}; line n: the line integral of the true score with n nodes
learned    trained on the true score; direct: accepted with a(x', x), the paper's; ratio: with min(1, a / a back)"""


class Size(NamedTuple):
    """Chains for each start, steps, and of the learned acceptance width, updates and rows of data."""

    chains: int
    steps: int
    hidden: int
    updates: int
    rows: int
    nodes: tuple[int, ...] = (8, 32, 128)


FULL = Size(200, 1000, 64, 2000, 10_000)
QUICK = Size(40, 200, 8, 10, 500, (8,))


class Sampler(NamedTuple):
    """Its name, the kernel, and what its acceptance is made of; None for the density, or where nothing is accepted."""

    name: str
    kernel: Kernel
    acceptance: Acceptance | None = None


def mixture() -> Target:
    """0.8 N((5, 5), I) + 0.2 N((-5, -5), I), Section 3.4."""
    return gaussian_mixture(WEIGHTS, MEANS, 1.0)


def draw(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Independent draws of the target, (rows, 2)."""
    return MEANS[rng.choice(2, rows, p=WEIGHTS)] + rng.standard_normal((rows, 2))


def starts(chains: int, rng: np.random.Generator) -> np.ndarray:
    """In the order of `STARTS`, (starts, chains, 2)."""
    heavy = np.broadcast_to(MEANS[0], (chains, 2))
    both = MEANS[np.arange(chains) % 2]
    return np.stack([heavy, both, rng.standard_normal((chains, 2)), draw(chains, rng)])


def samplers(size: Size) -> list[Sampler]:
    """All but the learned ones."""
    found = [Sampler(f"ULA, eta = {eta:g}", ULA(eta)) for eta in (0.005, 0.5)]
    found += [Sampler("MALA, density", MALA(ETA)), Sampler("MALA, line 8", MALA(ETA), LineIntegral(8))]
    found += [Sampler("MALA, Taylor", MALA(ETA), Taylor(1))]
    found += [Sampler(f"RW, sd {sd:g}, density", RWM(sd)) for sd in (1.0, 4.0)]
    found += [Sampler("RW wide, density", RWM(WIDE))]
    found += [Sampler(f"RW wide, line {n}", RWM(WIDE), LineIntegral(n)) for n in size.nodes]
    return [*found, Sampler("RW wide, Taylor", RWM(WIDE), Taylor(1))]


def learned(size: Size, device: DeviceDtype, seed: int) -> tuple[list[Sampler], float]:
    """Wide random walks by an acceptance network trained on the true score, and the CPU seconds of its training."""
    bound = mixture().prepare(device.array(MEANS), ULA(1.0).requires)
    data = draw(size.rows, np.random.default_rng(seed))
    trained = train_acceptances(
        data,
        RandomWalk(WIDE),
        mixture().score,
        bound.data,
        1,
        Training(size.hidden, 3, size.updates, 256, 5e-4),
        device,
        seed,
        regularization=REGULARIZATION,
        max_norm=MAX_NORM,
    )
    direct = Learned(acceptance_network, trained.parameters, RandomWalk(WIDE), direct=True)
    found = [
        Sampler("RW wide, learned, direct", RWM(WIDE), direct),
        Sampler("RW wide, learned, ratio", RWM(WIDE), replace(direct, direct=False)),
    ]
    return found, trained.seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "score-mh-weights", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began, size = time.perf_counter(), QUICK if args.quick else FULL
    report, names = Report(args.out), args.backend or ["numpy"]
    device = widest(device_dtypes(names))[0]
    report.say("The weights of two distant modes; Score-MH paper, Fig. 1")
    for line in missing(names):
        report.say(line)
    report.say(f"{device}: {size.chains} chains from each start, {size.steps} steps, the first half dropped")
    found, seconds = learned(size, device, args.seed)
    report.say(f"the acceptance network: 3 blocks of {size.hidden}, {size.updates} updates, {seconds:.0f} CPU s")
    x0 = device.array(starts(size.chains, np.random.default_rng(args.seed)))
    rows = [_row(sampler, x0, size, args.seed) for sampler in [*samplers(size), *found]]
    exact = np.mean(_near(draw(10**6, np.random.default_rng(1))))
    report.say("\n" + _table(rows) + "\n\n" + LEGEND + "\n")
    report.say(f"exact draws: {exact:.3f}. The paper: ULA 0.52, RW 0.79, MALA 0.79")
    report.rows(rows)
    _plot(report, rows)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _row(sampler: Sampler, x0: Any, size: Size, seed: int) -> dict[str, Any]:
    target = mixture()
    if sampler.acceptance is not None:
        target = Target(None, score=target.score, data=target.data, acceptance=sampler.acceptance)
    began, kept = time.process_time(), size.steps // 20
    trace = sample(target, sampler.kernel, x0, kept, thinning=10, burn_in=size.steps // 2, seed=seed, progress=False)
    near = _near(to_host(trace.draws))
    row: dict[str, Any] = {"sampler": sampler.name}
    for start, share in zip(STARTS, np.mean(near, axis=0), strict=True):
        row[start] = float(np.mean(share))
        row[f"{start}_se"] = float(np.std(share, ddof=1) / math.sqrt(len(share)))
    return row | {
        "crossed": float(np.mean(np.any(near[1:] != near[:-1], axis=0))),
        "acceptance_probability": float(np.mean(to_host(trace.run_statistics.acceptance_probability))),
        "cpu_seconds": time.process_time() - began,
    }


def _near(x: np.ndarray) -> np.ndarray:
    """Whether positions (..., 2) are nearer to the heavy mode."""
    return np.sum(x, axis=-1) > 0


def _table(rows: list[dict[str, Any]]) -> str:
    cells = [
        {"sampler": row["sampler"]}
        | {start: f"{row[start]:.3f} +- {row[f'{start}_se']:.3f}" for start in STARTS}
        | {"crossed": f"{row['crossed']:.2f}", "accept": f"{row['acceptance_probability']:.3f}"}
        | {"cpu": f"{row['cpu_seconds']:.1f}"}
        for row in rows
    ]
    return table(cells, {key: ("CPU s" if key == "cpu" else key, "s") for key in cells[0]})


def _plot(report: Report, rows: list[dict[str, Any]]) -> None:
    try:
        from xpsample.experiments.score_mh.weights_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", rows, STARTS, float(WEIGHTS[0]))
