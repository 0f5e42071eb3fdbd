"""The largest cut of a graph that samplers find, beside simulated annealing written for NumPy, at equal flips.

``python -m asv_benchmarks.peers.max_cut FILE ...`` from the root of the checkout prints a table. A file has the form of
the G-set: the numbers of nodes and edges, then a line ``i j weight`` for each edge, nodes counted from 1. Every side
has `WALKERS` walkers, each of which proposes a flip to every node `--sweeps` times, warm-up included.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xpsample as xps
from asv_benchmarks.tables import table
from xpsample.kernels import Kernel, greedy_coloring
from xpsample.zoo.ising import ising_couplings

CHAINS, RUNGS = 4, 16
WALKERS = CHAINS * RUNGS
STAGES = 20
HOTTEST, COLDEST = 0.3, 6.0
"""Inverse temperatures, in units of one over the root mean square of the sums that act on a node."""
COLUMNS = {
    "graph": ("graph", "s"),
    "nodes": ("nodes", "d"),
    "side": ("side", "s"),
    "best": ("best", ".0f"),
    "median": ("median", ".0f"),
    "least": ("least", ".0f"),
    "seconds": ("CPU s", ".1f"),
}
LEGEND = """\
best    of all seeds, the largest cut that a run met; median and least of the seeds
CPU s   of a run, preparation included, median"""


class Graph(NamedTuple):
    """Nodes, edges (edges, 2) counted from 0, and their weights."""

    nodes: int
    pairs: np.ndarray
    weights: np.ndarray

    def cut(self, spins: np.ndarray) -> np.ndarray:
        """The weight of the edges whose ends differ: (..., nodes) -> (...)."""
        ends = spins[..., self.pairs]
        return np.sum(np.where(ends[..., 0] != ends[..., 1], self.weights, 0.0), axis=-1)

    def couplings(self) -> np.ndarray:
        """-w_ij, (nodes, nodes): spins that differ are better."""
        matrix = np.zeros((self.nodes, self.nodes))
        np.subtract.at(matrix, tuple(np.concatenate([self.pairs, self.pairs[:, ::-1]]).T), np.tile(self.weights, 2))
        return matrix

    @property
    def scale(self) -> float:
        """The root mean square of the sum that acts on a node whose neighbors are random."""
        return float(np.sqrt(2 * np.sum(self.weights**2) / self.nodes))


def read(path: Path) -> Graph:
    """A file of the G-set."""
    (nodes, edges), *rows = (line.split() for line in path.read_text().splitlines() if line.strip())
    found = np.asarray([row[:3] for row in rows], dtype=np.float64)
    if len(found) != int(edges):
        raise ValueError(f"{path} has {len(found)} edges and says that there are {edges}")
    return Graph(int(nodes), found[:, :2].astype(int) - 1, found[:, 2])


def target_of(graph: Graph, beta: float) -> xps.Target:
    """-beta sum w s s: by a matrix, or by sums over neighbors where no node has many, as on a lattice."""
    if 50 * np.max(np.bincount(graph.pairs.ravel())) > graph.nodes:
        return ising_couplings(beta * graph.couplings())
    both = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    node, other, weight = *both[order].T, np.tile(graph.weights, 2)[order]
    place = np.arange(len(node)) - np.searchsorted(node, node)
    neighbors, weights = (np.zeros((np.max(place) + 1, graph.nodes), kind) for kind in (int, float))
    neighbors[place, node], weights[place, node] = other, -beta * weight

    def pull(x: Any, data: Any) -> Any:
        return sum(x[..., data["neighbors"][k]] * data["weights"][k] for k in range(len(weights)))

    return xps.Target(
        lambda x, data: 0.5 * (x * pull(x, data)).sum(-1),
        score=pull,
        differences=lambda x, data: (-2.0 * x * pull(x, data))[..., None],
        data={"neighbors": neighbors, "weights": weights},
        space=xps.Spins(),
    )


def annealing(graph: Graph, seed: int, sweeps: int) -> float:
    """By hand: the sums that act on the nodes are kept, and all walkers are at the same node."""
    rng, coupling = np.random.default_rng(seed), graph.couplings()
    around = [np.flatnonzero(row) for row in coupling]
    pull_of = [2.0 * row[near, None] for row, near in zip(coupling, around, strict=True)]
    s = rng.choice([-1.0, 1.0], size=(graph.nodes, WALKERS))
    pull, best = coupling @ s, -np.inf
    for beta in np.linspace(HOTTEST, COLDEST, sweeps) / graph.scale:
        log_uniform = np.log(rng.random((graph.nodes, WALKERS))) / (2.0 * beta)
        for i, (near, pulls) in enumerate(zip(around, pull_of, strict=True)):
            flip = np.where(log_uniform[i] < -s[i] * pull[i], s[i], 0.0)
            pull[near] -= pulls * flip
            s[i] -= 2.0 * flip
        best = max(best, float(np.max(graph.cut(s.T))))
    return best


def tempered(
    base: Callable[[Graph], Kernel], flips: Callable[[Graph], int], warmup: float = 0.0
) -> Callable[..., float]:
    """Parallel tempering, of chains on `RUNGS` rungs; a step of the base kernel proposes so many flips."""

    def run(graph: Graph, seed: int, sweeps: int) -> float:
        steps = sweeps * graph.nodes // flips(graph)
        kernel = xps.ParallelTempering(base(graph), xps.geometric_ladder(RUNGS, HOTTEST / COLDEST))
        x0 = np.random.default_rng(seed).choice(np.asarray([-1.0, 1.0], np.float32), size=(CHAINS, graph.nodes))
        return _best(graph, kernel, x0, seed, steps - int(warmup * steps), int(warmup * steps))

    return run


def cooled(graph: Graph, seed: int, sweeps: int) -> float:
    """`STAGES` runs of ChromaticGibbs one after another, each colder than the last and from where that ended."""
    x = np.random.default_rng(seed).choice(np.asarray([-1.0, 1.0], np.float32), size=(WALKERS, graph.nodes))
    best, kernel = -np.inf, chromatic(graph)
    for stage, beta in enumerate(np.linspace(HOTTEST, COLDEST, STAGES) / graph.scale):
        target = target_of(graph, float(beta))
        trace = _silent(target, kernel, x, sweeps // STAGES, seed=STAGES * seed + stage)
        best, x = max(best, _largest(graph, trace)), trace.draws[-1]
    return best


def particles(graph: Graph, seed: int, sweeps: int) -> float:
    """Tempered SMC of `WALKERS` particles, whose temperature falls as in annealing."""
    x0 = np.random.default_rng(seed).choice(np.asarray([-1.0, 1.0], np.float32), size=(WALKERS, graph.nodes))
    kernel = xps.TemperedSMC(xps.DMALA(), tuple(np.linspace(0.0, 1.0, sweeps + 1)), moves=1)
    return _best(graph, kernel, x0, seed, sweeps, None)


def _best(graph: Graph, kernel: Kernel, x0: np.ndarray, seed: int, draws: int, warmup: int | None) -> float:
    target = target_of(graph, COLDEST / graph.scale)
    return _largest(graph, _silent(target, kernel, x0, draws, warmup=warmup, seed=seed))


def _silent(*args: Any, **settings: Any) -> xps.Trace:
    """A run without warnings: what is asked for is the largest cut, and no sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xps.sample(*args, progress=False, **settings)


def _largest(graph: Graph, trace: xps.Trace) -> float:
    return max(float(np.max(graph.cut(row))) for row in trace.draws)


def chromatic(graph: Graph) -> Kernel:
    """Colors of the graph."""
    return xps.ChromaticGibbs(greedy_coloring(graph.pairs, graph.nodes))


SIDES: dict[str, Callable[[Graph, int, int], float]] = {
    "annealing by hand": annealing,
    "ChromaticGibbs, cooled": cooled,
    "PT(ChromaticGibbs)": tempered(chromatic, lambda graph: graph.nodes),
    "PT(DMALA)": tempered(lambda graph: xps.DMALA(), lambda graph: graph.nodes, 0.3),
    "PT(HiSS(DMALA))": tempered(lambda graph: xps.HiSS(xps.DMALA(), 1.0, 1, 2), lambda graph: 3 * graph.nodes, 0.3),
    "PT(Gibbs)": tempered(lambda graph: xps.Gibbs(), lambda graph: 1),
    "PT(GWG)": tempered(lambda graph: xps.GWG(), lambda graph: 1),
    "TemperedSMC(DMALA)": particles,
}
"""What is compared, each with all flips that it proposes counted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and print the table."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.peers.max_cut", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--side", action="append", choices=list(SIDES), help="these only; by default all")
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args(arguments)
    rows = []
    for path in args.files:
        graph = read(path)
        for name in args.side or SIDES:
            found: list[float] = []
            seconds: list[float] = []
            for seed in range(args.seeds):
                began = time.process_time()
                found.append(SIDES[name](graph, seed, args.sweeps))
                seconds.append(time.process_time() - began)
            median, spent = statistics.median(found), statistics.median(seconds)
            row = {"graph": path.stem, "nodes": graph.nodes, "side": name, "best": max(found), "median": median}
            rows.append(row | {"least": min(found), "seconds": spent})
            print(f"{path.stem}, {name}: {found}, {spent:.1f} s", file=sys.stderr, flush=True)
    print(table(rows, COLUMNS) + "\n\n" + LEGEND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
