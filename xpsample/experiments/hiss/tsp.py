"""Tours of 14 cities by samplers of one-hot matrices, and by 2-opt moves of permutations (HiSS, Section 6.3, Table 1).

A state of the one-hot samplers is an n x n matrix with one city for each place of the tour; a proposal that misses a
city has density 0. The paper's temperature is 1, in the unit of the map. Beside its samplers stand a parallel tempering
that is one, a uniform Metropolis, what the problem asks for, Metropolis on permutations that reverses segments, and
independent draws, from the target by dynamic programming and of tours of any length.
"""

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.core.errors import DivergenceWarning
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import ACS, DMALA, GWG, Cosine, Kernel, ParallelTempering, SingleFlip
from xpsample.kernels.discrete.two_opt import TwoOpt
from xpsample.metrics.tours import tour_diversity
from xpsample.particles.ladders import geometric_ladder
from xpsample.run.recorders import Record
from xpsample.run.sampling import sample
from xpsample.targets import Target
from xpsample.zoo.data import load_dataset
from xpsample.zoo.tsp import LARGEST_DRAWN, draw_tours, tsp, tsp_one_hot

ALPHA, ETA, SWEEPS, REFINEMENTS = 0.02, 2.0, 10, 4
INNER = SWEEPS * REFINEMENTS
"""Inner steps per sample, of every sampler."""
RUNGS, SWAP_EVERY = 10, 100
SETS = ("eil10", "eil14", "eil16", "eil20", "eil51")

PAPER = {
    "GWG": "370.7 +- 19.7, 27.0, 0.556, 2",
    "DMALA": "339.0 +- 43.5, 84.2, 0.148, 10",
    "ACS": "382.9 +- 2.6, 105.0, 0.037, 2",
    "PT+DMALA": "337.2 +- 45.0, 80.4, 0.140, 9",
    "HiSS": "277.9 +- 19.8, 103.1, 0.099, 11",
}
COLUMNS = {
    "backend": ("backend", "s"),
    "sampler": ("sampler", "s"),
    "cost": ("mean cost", ".1f"),
    "cost_sd": ("sd", ".1f"),
    "best": ("best", ".2f"),
    "final": ("at the end", ".1f"),
    "moved": ("moved", ".1e"),
    "unique": ("unique", "d"),
    "unique_cycles": ("cycles", "d"),
    "mismatch": ("PMC", ".1f"),
    "jaccard": ("Jaccard", ".3f"),
    "seconds": ("s", ".1f"),
    "paper": ("paper: cost, PMC, Jaccard, unique", "s"),
}
LEGEND = """\
mean cost  mean length of the distinct tours of all chains, the start among them, and their standard deviation
best       shortest tour met; at the end: mean length of the chains' last tours
moved      share of the samples that differ from the one before
unique     distinct tours, all chains together; cycles: distinct up to rotation and reversal
PMC        mismatching pairs of places, averaged over pairs of distinct tours, as the paper's public code counts them
Jaccard    shared edges over all edges, averaged in the same way"""


class Size(NamedTuple):
    """Chains, and kept samples of each."""

    chains: int
    samples: int


FULL = Size(chains=10, samples=500)
QUICK = Size(chains=3, samples=10)


class Sampler(NamedTuple):
    """A kernel, the inner steps that one step of it makes, and whether it moves permutations."""

    kernel: Kernel
    inner: int = 1
    permutations: bool = False


def samplers(steps: int) -> dict[str, Sampler]:
    """The samplers of the table; `steps` is the number of inner steps of a run."""
    dmala = DMALA(ALPHA)
    return {
        "GWG": Sampler(GWG()),
        "DMALA": Sampler(dmala),
        "ACS": Sampler(ACS(Cosine(ALPHA, max(1, steps // 20)))),
        "PT+DMALA": Sampler(ParallelTempering(dmala, geometric_ladder(RUNGS, 1e-4), SWAP_EVERY)),
        "HiSS": Sampler(HiSS(dmala, ETA, SWEEPS, REFINEMENTS), INNER),
        "single flip": Sampler(SingleFlip()),
        "2-opt": Sampler(TwoOpt(), permutations=True),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "hiss-tsp", backends="numpy")
    parser.add_argument("--cities", choices=SETS, default="eil14", help="which cities (default: %(default)s)")
    parser.add_argument("--samples", type=int, help=f"kept samples of each chain (default: {FULL.samples})")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    if args.samples:
        size = size._replace(samples=args.samples)
    data = load_dataset("tsp_eil")
    cities = data[args.cities].astype(np.float64)
    report.say(f"Tours of {args.cities}; HiSS paper, Section 6.3 and Table 1")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.chains} chains from random tours, {size.samples} samples each, {INNER} inner steps a sample, "
        f"temperature 1, alpha = {ALPHA}, eta = {ETA:g}, seed {args.seed}"
    )
    start = np.argsort(np.random.default_rng(args.seed).random((size.chains, len(cities))), axis=1)
    rows: list[dict[str, Any]] = []
    curves: dict[str, np.ndarray] = {}
    for device in widest(device_dtypes(names)):
        for name, sampler in samplers(size.samples * INNER).items():
            row, lengths = _run(name, sampler, cities, start, device, size, args.seed)
            rows.append(row | {"paper": PAPER.get(name, "") if args.cities == "eil14" else ""})
            if rows[-1]["backend"] == rows[0]["backend"]:
                curves[name] = lengths
    rows += _controls(cities, size, args.seed)
    report.say("\n" + table(rows, COLUMNS) + "\n\n" + LEGEND + "\n")
    _tell_references(report, cities, data, args.cities, args.seed)
    report.rows([{k: None if v != v else v for k, v in row.items()} for row in rows])  # JSON knows no nan
    _plot(report, curves)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _run(
    name: str, sampler: Sampler, cities: np.ndarray, start: np.ndarray, device: DeviceDtype, size: Size, seed: int
) -> tuple[dict[str, Any], np.ndarray]:
    """The row, and the length of every chain's tour at every sample, (sample, chain)."""
    n = len(cities)
    target: Target
    if sampler.permutations:
        target, x0 = tsp(cities), device.array(start.astype(np.int32))
    else:
        target = tsp_one_hot(cities, relaxation="coordinates", standardised=True)
        x0 = device.array(np.eye(n)[start].reshape(len(start), n * n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # proposals that miss a city
        trace = sample(
            *(target, sampler.kernel, x0, size.samples),
            thinning=INNER // sampler.inner,
            seed=seed,
            recorders=(Record("x", lambda state: state.point.x),),
            progress=False,
        )
    x = to_host(trace.recorded["x"])
    tours = x.astype(np.int64) if sampler.permutations else np.argmax(x.reshape(*x.shape[:-1], n, n), axis=-1)
    row, lengths = _measure(np.concatenate([start[None], tours]), cities)
    row |= {"backend": device.backend.name, "sampler": name, "seconds": trace.metadata["seconds"]}
    return row, lengths[1:]


def _controls(cities: np.ndarray, size: Size, seed: int) -> list[dict[str, Any]]:
    """Rows of as many independent draws: from the target, where there are not too many cities, and of any tours."""
    shape, sets = (size.samples, size.chains, len(cities)), {}
    if len(cities) <= LARGEST_DRAWN:
        begun = time.perf_counter()
        tours, _ = draw_tours(cities, size.samples * size.chains, seed=seed + 2)
        sets["independent draws"] = tours.reshape(shape), time.perf_counter() - begun
    sets["uniform tours"] = np.argsort(np.random.default_rng(seed + 3).random(shape), axis=-1), 0.0
    labels = {"backend": "", "paper": ""}
    return [
        _measure(tours, cities)[0] | {"sampler": name, "seconds": seconds} | labels
        for name, (tours, seconds) in sets.items()
    ]


def _measure(tours: np.ndarray, cities: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """The measures of tours (sample, chain, n), and their lengths (sample, chain)."""
    diverse, cycles = tour_diversity(tours), tour_diversity(tours, up_to_symmetry=True)
    costs, lengths = lengths_of(diverse.tours, cities), lengths_of(tours, cities)
    return {
        "cost": float(np.mean(costs)),
        "cost_sd": float(np.std(costs)),
        "best": float(np.min(costs)),
        "final": float(np.mean(lengths[-1])),
        "moved": float(np.mean(np.any(tours[1:] != tours[:-1], axis=-1))),
        "unique": len(diverse.tours),
        "unique_cycles": len(cycles.tours),
        "mismatch": diverse.mismatch,
        "jaccard": diverse.jaccard,
    }, lengths


def lengths_of(tours: np.ndarray, cities: np.ndarray) -> np.ndarray:
    """Lengths (...) of closed tours (..., n) through cities (n, 2)."""
    legs = cities[tours] - cities[np.roll(tours, -1, axis=-1)]
    return np.sum(np.linalg.norm(legs, axis=-1), axis=-1)


def _tell_references(report: Report, cities: np.ndarray, data: dict[str, np.ndarray], which: str, seed: int) -> None:
    random = np.argsort(np.random.default_rng(seed + 1).random((100_000, len(cities))), axis=1)
    lengths = lengths_of(random, cities)
    best = data.get(f"{which}_opt_length")
    optimum = "" if best is None else f"; the shortest has {float(best):.2f} (Held-Karp)"
    report.say(f"uniform random tours, 100,000 of them: {np.mean(lengths):.1f} +- {np.std(lengths):.1f}{optimum}")


def _plot(report: Report, curves: dict[str, np.ndarray]) -> None:
    try:
        from xpsample.experiments.hiss.tsp_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", curves, INNER)
