"""Tours of 14 cities by samplers of one-hot matrices, and by 2-opt moves of permutations (HiSS, Section 6.3, Table 1).

A state of the one-hot samplers is an n x n matrix with one city for each place of the tour; a proposal that misses a
city has density 0. The paper's temperature is 1, in the unit of the map. Beside its samplers stand a parallel tempering
that is one, a uniform Metropolis, what the problem asks for, Metropolis on permutations that reverses segments, and
independent draws, from the target by dynamic programming and of tours of any length.
"""

import argparse
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.data import load_dataset
from xpsample.experiments.figures import tidy
from xpsample.experiments.hiss.exact_tours import LARGEST_DRAWN, draw_tours
from xpsample.experiments.hiss.one_hot_tours import tsp_one_hot
from xpsample.experiments.hiss.uniform import UniformProposals
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.table import Row, columns
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import ACS, DMALA, GWG, Cosine, Kernel, ParallelTempering, SingleFlip
from xpsample.kernels.discrete.two_opt import TwoOpt
from xpsample.metrics.discrete import tour_diversity
from xpsample.particles.ladders import geometric_ladder
from xpsample.targets import Target
from xpsample.trace.recorders import Record
from xpsample.zoo.tsp import tsp

ALPHA, ETA, SWEEPS, REFINEMENTS = 0.02, 2.0, 10, 4
INNER = SWEEPS * REFINEMENTS
"""Inner steps per sample, of every sampler."""
RUNGS, SWAP_EVERY = 10, 100
SETS = ("eil10", "eil14", "eil16", "eil20", "eil51")

TABLE_1 = {
    "GWG": "370.7 +- 19.7, 27.0, 0.556, 2",
    "DMALA": "339.0 +- 43.5, 84.2, 0.148, 10",
    "ACS": "382.9 +- 2.6, 105.0, 0.037, 2",
    "PT+DMALA": "337.2 +- 45.0, 80.4, 0.140, 9",
    "HiSS": "277.9 +- 19.8, 103.1, 0.099, 11",
}
COLUMNS = columns(
    "backend | sampler | cost .1f mean cost | cost_sd .1f sd | best .2f | final .1f at the end | moved .1e | "
    "unique d | unique_cycles d cycles | mismatch .1f PMC | jaccard .3f Jaccard | seconds .1f s | "
    "paper s paper: cost, PMC, Jaccard, unique"
)
LEGEND = """\
mean cost  mean length of the distinct tours of all chains, the start among them, and their standard deviation
best       shortest tour met; at the end: mean length of the chains' last tours
moved      share of the samples that differ from the one before
unique     distinct tours, all chains together; cycles: distinct up to rotation and reversal
PMC        mismatching pairs of places, averaged over pairs of distinct tours, as the paper's public code counts them
Jaccard    shared edges over all edges, averaged in the same way"""
PAPER = """\
Table 1, 14 cities and 10,000 iterations: its figures are in the last column. HiSS has the lowest cost and the most
distinct tours"""


SCALES = (0.1, 0.3, 1.0, 2.0, 4.0, 10.0)
"""eta of Fig. 17, whose own values are not given."""
SCALED = columns("eta g | accepted .1e | unique d | found d | mismatch .1f PMC | jaccard .3f Jaccard")


class Size(NamedTuple):
    """Chains, kept samples of each, and iterations of the chains over eta."""

    chains: int
    samples: int
    iterations: int


FULL = Size(chains=10, samples=500, iterations=10_000)
QUICK = Size(chains=3, samples=10, iterations=10)


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
        "uniform proposals": Sampler(UniformProposals()),
        "2-opt": Sampler(TwoOpt(), permutations=True),
    }


def options(parser: argparse.ArgumentParser) -> None:
    """Which cities, and how long."""
    parser.add_argument("--cities", choices=SETS, default="eil14", help="which cities (default: %(default)s)")
    parser.add_argument("--samples", type=int, help=f"kept samples of each chain (default: {FULL.samples})")


def measure(run: Run[Size]) -> Iterator[Row]:
    """All samplers, and as many independent draws; lengths of the first device's tours are left for the figure."""
    data = load_dataset("tsp_eil")
    cities, samples = data[run.args.cities].astype(np.float64), run.args.samples or run.size.samples
    run.say(
        f"{run.args.cities}: {run.size.chains} chains from random tours, {samples} samples each, {INNER} inner steps "
        f"a sample, temperature 1, alpha = {ALPHA}, eta = {ETA:g}"
    )
    start = random_tours(run.seed, run.size.chains, len(cities))
    run.shown |= {"lengths": {}, "random": lengths_of(random_tours(run.seed + 1, 100_000, len(cities)), cities)}
    run.shown["optimum"] = data.get(f"{run.args.cities}_opt_length")
    for device in run.devices:
        for name, sampler in samplers(samples * INNER).items():
            row, lengths = _sampled(run, name, sampler, cities, start, device, samples)
            yield row | {"paper": TABLE_1.get(name, "") if run.args.cities == "eil14" else ""}
            if device is run.devices[0]:
                run.shown["lengths"][name] = lengths
    yield from _controls(run, cities, samples)
    run.shown["scales"] = list(_over_scales(run, cities, start))


def _over_scales(run: Run[Size], cities: np.ndarray, start: np.ndarray) -> Iterator[Row]:
    """Fig. 17: HiSS over eta with alpha = 1e-4, all of them one run; a row for each.

    A change of a place costs 1 / alpha = 10,000 in the exponent of a refinement, so that none is ever made. Refinements
    are skipped.
    """
    n, (device, *_) = len(cities), run.devices
    eta = device.array(np.asarray(SCALES)[:, None])
    x0 = device.array(np.broadcast_to(np.eye(n)[start].reshape(len(start), n * n), (len(SCALES), len(start), n * n)))

    def cities_in_order(state: Any) -> Any:
        x = state.point.x
        xp = array_namespace(x)
        return xp.argmax(xp.reshape(x, (*x.shape[:-1], n, n)), axis=-1)

    target = tsp_one_hot(cities, relaxation="coordinates", standardized=True)
    kernel, recorders = HiSS(DMALA(1e-4), eta, SWEEPS, 0), (Record("tours", cities_in_order),)
    label = f"{device} HiSS over eta, {run.size.iterations} iterations"
    trace = run.sample(target, kernel, x0, run.size.iterations, recorders=recorders, label=label, quiet=True)
    tours = to_host(trace.recorded["tours"])
    accepted = to_host(trace.run_statistics.acceptance_probability)
    for k, scale in enumerate(SCALES):
        row, _ = _measures(np.concatenate([start[None], tours[:, k]]), cities)
        yield row | {"eta": scale, "accepted": np.mean(accepted[k]), "found": row["unique"] - len(start)}


def random_tours(seed: int, *shape: int) -> np.ndarray:
    """Uniform permutations along the last axis."""
    return np.argsort(np.random.default_rng(seed).random(shape), axis=-1)


def _sampled(
    run: Run[Size],
    name: str,
    sampler: Sampler,
    cities: np.ndarray,
    start: np.ndarray,
    device: DeviceDtype,
    samples: int,
) -> tuple[Row, np.ndarray]:
    """The row, and the length of every chain's tour at every sample, (sample, chain)."""
    n = len(cities)
    target: Target
    if sampler.permutations:
        target, x0 = tsp(cities), device.array(start.astype(np.int32))
    else:
        target = tsp_one_hot(cities, relaxation="coordinates", standardized=True)
        x0 = device.array(np.eye(n)[start].reshape(len(start), n * n))
    trace = run.sample(
        *(target, sampler.kernel, x0, samples),
        thinning=INNER // sampler.inner,
        recorders=(Record("x", lambda state: state.point.x),),
        label=f"{device} {name}",
        quiet=True,  # proposals that miss a city
    )
    x = to_host(trace.recorded["x"])
    tours = x.astype(np.int64) if sampler.permutations else np.argmax(x.reshape(*x.shape[:-1], n, n), axis=-1)
    row, lengths = _measures(np.concatenate([start[None], tours]), cities)
    row |= {"backend": device.backend.name, "sampler": name, "seconds": trace.metadata["seconds"]}
    return row, lengths[1:]


def _controls(run: Run[Size], cities: np.ndarray, samples: int) -> Iterator[Row]:
    """The same number of independent draws: from the target, if there are not too many cities, and of random tours."""
    shape, labels = (samples, run.size.chains, len(cities)), {"backend": "", "paper": ""}
    if len(cities) <= LARGEST_DRAWN:
        with run.step("independent draws"):
            drawn = run.once(partial(_independent, cities, samples * run.size.chains, run.seed + 2))
        row, _ = _measures(drawn["tours"].reshape(shape), cities)
        yield row | {"sampler": "independent draws", "seconds": float(drawn["seconds"])} | labels
    row, _ = _measures(random_tours(run.seed + 3, *shape), cities)
    yield row | {"sampler": "uniform tours", "seconds": 0.0} | labels


def _independent(cities: np.ndarray, count: int, seed: int) -> dict[str, Any]:
    """Tours drawn from the target, and how long that took."""
    began = time.perf_counter()
    tours, _ = draw_tours(cities, count, seed=seed)
    return {"tours": tours, "seconds": time.perf_counter() - began}


def _measures(tours: np.ndarray, cities: np.ndarray) -> tuple[Row, np.ndarray]:
    """The measures of tours (sample, chain, n), and their lengths (sample, chain)."""
    diverse, cycles = tour_diversity(tours), tour_diversity(tours, up_to_symmetry=True)
    costs, lengths = lengths_of(diverse.tours, cities), lengths_of(tours, cities)
    return {
        "cost": np.mean(costs),
        "cost_sd": np.std(costs),
        "best": np.min(costs),
        "final": np.mean(lengths[-1]),
        "moved": np.mean(np.any(tours[1:] != tours[:-1], axis=-1)),
        "unique": len(diverse.tours),
        "unique_cycles": len(cycles.tours),
        "mismatch": diverse.mismatch,
        "jaccard": diverse.jaccard,
    }, lengths


def lengths_of(tours: np.ndarray, cities: np.ndarray) -> np.ndarray:
    """Lengths (...) of closed tours (..., n) through cities (n, 2)."""
    legs = cities[tours] - cities[np.roll(tours, -1, axis=-1)]
    return np.sum(np.linalg.norm(legs, axis=-1), axis=-1)


def tell(run: Run[Size], rows: list[Row]) -> None:
    """The table, and what random tours and the shortest one have."""
    run.table(rows, COLUMNS, ("backend", "sampler"), legend=LEGEND)
    run.table(run.shown["scales"], SCALED, title="HiSS over eta with alpha = 1e-4, Fig. 17; found: beside the starts")
    random, optimum = run.shown["random"], run.shown["optimum"]
    best = "" if optimum is None else f"; the shortest has {float(optimum):.2f} (Held-Karp)"
    run.say(f"\nuniform random tours, {len(random):,} of them: {np.mean(random):.1f} +- {np.std(random):.1f}{best}")


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Which samplers moved at all, and which met the shortest tour."""
    own = [row for row in rows if row["backend"] == rows[0]["backend"]]
    moved = ", ".join(f"{row['sampler']} ({row['moved']:.1e})" for row in own if row["moved"] > 0)
    best = min(own, key=lambda row: row["final"])
    lines = [
        f"of {len(own)} samplers these left their first tour (share of samples that moved): {moved or 'none'}",
        f"{best['sampler']} ends with the shortest tours, {best['final']:.1f} on average; best {best['best']:.2f}",
    ]
    target = [row for row in rows if row["sampler"] == "independent draws"]
    lines += [
        f"independent draws of the target have {row['final']:.1f} on average; best {row['best']:.2f}" for row in target
    ]
    return "\n".join(lines)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Mean length over the chains against inner steps, with the range of the lengths."""
    figure.set_size_inches(7, 4)
    axes = figure.add_subplot()
    for i, (name, lengths) in enumerate(run.shown["lengths"].items()):
        steps = INNER * np.arange(1, len(lengths) + 1)
        axes.plot(steps, np.mean(lengths, axis=1), label=name, color=f"C{i}", lw=1.4)
        axes.fill_between(steps, lengths.min(axis=1), lengths.max(axis=1), color=f"C{i}", alpha=0.1, lw=0)
    axes.set(xscale="log", xlabel="inner steps", ylabel="length of the tour")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    tidy(axes)


EXPERIMENT = Experiment(
    name="hiss-tsp",
    title="Tours of cities on the plane; HiSS paper, Section 6.3 and Table 1",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
    options=options,
)
