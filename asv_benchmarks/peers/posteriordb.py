"""Samplers from their defaults on posteriors of posteriordb, ours and those of BlackJAX and NumPyro, in turns.

``python -m asv_benchmarks.peers.posteriordb FOLDER`` from the root of the checkout, with a checkout of posteriordb in
FOLDER, prints what an effective sample costs, and how far means and sds are from those of the reference draws. All
compute with JAX in float32 on the same densities, with 4 chains of 1,000 draws from the same starts.
"""

import argparse
import importlib
import statistics
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import xpsample as xps
from asv_benchmarks.peers.posteriors import POSTERIORS, Posterior, flat, posterior, reference
from asv_benchmarks.peers.tuned_cases import DTYPE
from asv_benchmarks.tables import table
from xpsample.diagnostics.convergence import mixing

SAMPLERS = ["HMC", "NUTS", "MAMS", "BlackJAX", "NumPyro"]
PEERS = {"BlackJAX": "tuned_blackjax", "NumPyro": "tuned_numpyro"}

COLUMNS = {
    "posterior": ("posterior", "s"),
    "sampler": ("sampler", "s"),
    "gradients": ("grads/ESS", ".3g"),
    "least": ("least", ".3g"),
    "most": ("most", ".3g"),
    "tail": ("tail", ".3g"),
    "warm_up": ("warm-up", ",.0f"),
    "ess": ("ESS", ",.0f"),
    "rhat": ("R-hat", ".3f"),
    "mean": ("mean, sd", ".3f"),
    "z": ("mean, z", ".1f"),
    "sd": ("sd", ".3f"),
    "found": ("findings", "s"),
}
LEGEND = """\
grads/ESS  of all chains, warm-up included, for a bulk effective sample of the worst quantity: median, least and most
           of the seeds; tail: median, for a tail effective sample
warm-up    gradients of all chains; ESS: bulk, of the worst quantity; medians
R-hat      largest of all seeds
mean       of the worst quantity and seed, its distance from the reference: in its sd, and in standard errors of both
sd         of the worst quantity and seed, log of its ratio to the reference
findings   that ours gives at the end, with the number of seeds"""


@dataclass(frozen=True)
class PosteriorCase:
    """What peers are given, as a `tuned_cases.Case`."""

    posterior: Posterior
    chains: int = 4
    draws: int = 1000

    @property
    def density(self) -> Any:
        """The log density of one position, unconstrained."""
        return self.posterior.model.target.log_density

    def start(self, seed: int) -> np.ndarray:
        """(chains, dim), the same for all sides."""
        return np.asarray(self.posterior.model.start(jnp.zeros(0, DTYPE), self.chains, seed=seed))


def build(case: PosteriorCase, sampler: str) -> Any:
    """A function of a seed: draws, gradients of the warm-up and of the draws, and findings."""
    if sampler in PEERS:
        run = importlib.import_module(f"asv_benchmarks.peers.{PEERS[sampler]}").build(case, "NUTS")

        def peer(seed: int) -> tuple[np.ndarray, float, float, list[str]]:
            found = run(seed)
            return found.draws, found.warm_up_gradients, found.draw_gradients, []

        return peer

    def ours(seed: int) -> tuple[np.ndarray, float, float, list[str]]:
        kernel, x0 = getattr(xps, sampler)(), jnp.asarray(case.start(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = xps.sample(case.posterior.model, kernel, x0, case.draws, seed=seed, progress=False)
        scores = trace.run_statistics.evaluations["score"] * case.draws * case.chains
        kinds = [finding.kind for finding in trace.diagnose()]
        return np.asarray(trace.draws), float(jnp.sum(trace.warmup["scores"])), scores, kinds

    return ours


def judge(case: PosteriorCase, known: dict[str, np.ndarray], run: Any, seed: int) -> dict[str, Any]:
    """One run beside the reference draws."""
    draws, warm_up, drawing, kinds = run(seed)
    quantities = flat(case.posterior.quantities(case.posterior.model.values(jnp.asarray(draws))))
    values = np.stack([quantities[name] for name in known], axis=-1).astype(np.float64)
    theirs = np.stack(list(known.values()), axis=-1)
    found, of_reference = mixing(values), mixing(theirs)
    ess, mean, sd = (np.nan_to_num(found.ess_bulk, nan=1.0), *(f(theirs, axis=(0, 1)) for f in (np.mean, np.std)))
    error, own_sd = np.abs(np.mean(values, axis=(0, 1)) - mean), np.std(values, axis=(0, 1))
    standard_error = np.sqrt(own_sd**2 / ess + sd**2 / of_reference.ess_bulk)
    return {
        "gradients": (warm_up + drawing) / np.min(ess),
        "tail": (warm_up + drawing) / np.min(np.nan_to_num(found.ess_tail, nan=1.0)),
        "warm_up": warm_up,
        "ess": float(np.min(ess)),
        "rhat": float(np.max(np.nan_to_num(found.rhat, nan=np.inf))),
        "mean": float(np.max(error / sd)),
        "z": float(np.max(error / np.where(standard_error > 0, standard_error, 1.0))),
        "sd": float(np.max(np.abs(np.log(np.where(own_sd > 0, own_sd, 1e-30) / sd)))),
        "kinds": kinds,
    }


def row(name: str, sampler: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Runs of some seeds as a row of the table."""
    found: dict[str, Any] = {"posterior": name, "sampler": sampler}
    found |= {key: statistics.median(run[key] for run in runs) for key in ("gradients", "tail", "warm_up", "ess")}
    found |= {key: max(run[key] for run in runs) for key in ("rhat", "mean", "z", "sd")}
    found |= {"least": min(run["gradients"] for run in runs), "most": max(run["gradients"] for run in runs)}
    kinds = [kind for run in runs for kind in run["kinds"]]
    return found | {"found": " ".join(f"{kind}:{kinds.count(kind)}" for kind in dict.fromkeys(kinds))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and print the table."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.peers.posteriordb", description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkout of posteriordb")
    parser.add_argument("--posterior", action="append", choices=list(POSTERIORS), help="these only; by default all")
    parser.add_argument("--sampler", action="append", choices=SAMPLERS, help="these only; by default all")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args(arguments)
    rows = []
    for name in args.posterior or POSTERIORS:
        case, known = PosteriorCase(posterior(args.folder, name)), reference(args.folder, name)
        sides = {sampler: build(case, sampler) for sampler in args.sampler or SAMPLERS}
        runs: dict[str, list[dict[str, Any]]] = {sampler: [] for sampler in sides}
        for seed in range(1, args.seeds + 1):
            for sampler, run in sides.items():
                runs[sampler].append(judge(case, known, run, seed))
                gradients = runs[sampler][-1]["gradients"]
                print(f"{name}, {sampler}, seed {seed}: {gradients:.3g}", file=sys.stderr, flush=True)
        rows += [row(name, sampler, found) for sampler, found in runs.items()]
    print(table(rows, COLUMNS) + "\n\n" + LEGEND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
