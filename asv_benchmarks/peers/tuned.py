"""Samplers that tune themselves, ours and those of BlackJAX and NumPyro, in turns in one process.

``python -m asv_benchmarks.peers.tuned`` from the root of the checkout prints two tables: what every sampler takes for
an effective sample of its worst coordinate or squared coordinate, and ours as ratios to each of theirs. All compute
with JAX in float32, on the same densities with the same scores, from the same starts.
"""

import argparse
import importlib
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import jax

from asv_benchmarks.peers.tuned_cases import Case, Outcome, worst_error, worst_ess
from asv_benchmarks.tables import table
from xpsample.zoo.benchmarks import BENCHMARKS

SIDES = ["ours", "blackjax", "numpyro"]
TARGETS, CHAINS = ["gaussian", "banana", "brownian-motion", "german-credit"], [4, 128]
MEASURES = {
    "cold": "with compilation",
    "warm": "with warm-up",
    "drawing": "draws alone",
    "gradients": "gradients",
    "draw_gradients": "gradients of draws",
}
COLUMNS = {
    "target": ("target", "s"),
    "chains": ("chains", "d"),
    "sampler": ("sampler", "s"),
    "compiling": ("compile s", ".1f"),
    "warm_up": ("warm-up s", ".2f"),
    "draw": ("draw s", ".2f"),
    "ess": ("ESS", ",.0f"),
    "cold": ("cold ms/ESS", ".3g"),
    "warm": ("warm ms/ESS", ".3g"),
    "drawing": ("draw ms/ESS", ".3g"),
    "gradients": ("grads/ESS", ",.0f"),
    "draw_gradients": ("draw grads/ESS", ",.0f"),
    "error": ("error", ".3f"),
}
LEGEND = """\
compile s     CPU seconds: the first run, with nothing compiled yet, less the median of the others
warm-up, draw CPU seconds of the other runs, medians; ours without the diagnosis of the draws, which peers do not make
ESS           of the worst coordinate or squared coordinate, all chains together
cold, warm    milliseconds for an effective sample of one run, with compilation and without it; draw: of the draws alone
grads         of all chains, for an effective sample, warm-up included or not; nan where a side does not count them
error         of the mean square of the worst parameter against the known one, in standard deviations of the square"""
RATIO_LEGEND = """\
ours over theirs, medians of the rounds: below 1 ours takes less; cold with compilation, warm without, draw the draws
alone, gradients with and without the warm-up"""


def measure(case: Case, sides: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    """A row for each sampler: medians over `rounds` runs, the samplers taking turns, and a first run that compiles."""
    firsts: dict[str, float] = {}
    runs: dict[str, list[Outcome]] = {name: [] for name in sides}
    for name, run in sides.items():
        jax.clear_caches()  # so that none finds compiled what another one has left
        firsts[name] = _seconds(run(0))
    for seed in range(rounds + 1):
        for name, run in sides.items():
            outcome = run(seed)  # which compiles again what was cleared, in the round that does not count
            if seed:
                runs[name].append(outcome)
            print(f"{case.target}, {case.chains} chains, {name}, round {seed}", file=sys.stderr, flush=True)
    return [_row(case, name, firsts[name], found) for name, found in runs.items()]


def _seconds(run: Outcome) -> float:
    return run.warm_up_seconds + run.draw_seconds


def _row(case: Case, name: str, first: float, runs: Sequence[Outcome]) -> dict[str, Any]:
    each = [_per_sample(run, first) for run in runs]
    row: dict[str, Any] = {"target": case.target, "chains": case.chains, "sampler": name, "each": each}
    row |= {key: statistics.median(found[key] for found in each) for key in each[0]}
    row["warm_up"] = statistics.median(run.warm_up_seconds for run in runs)
    row["draw"] = statistics.median(run.draw_seconds for run in runs)
    row["compiling"] = max(0.0, first - row["warm_up"] - row["draw"])
    return row | {"error": statistics.median(worst_error(case, run.draws) for run in runs)}


def _per_sample(run: Outcome, first: float) -> dict[str, float]:
    ess = worst_ess(run.draws)
    return {
        "ess": ess,
        "cold": 1e3 * first / ess,
        "warm": 1e3 * _seconds(run) / ess,
        "drawing": 1e3 * run.draw_seconds / ess,
        "gradients": (run.warm_up_gradients + run.draw_gradients) / ess,
        "draw_gradients": run.draw_gradients / ess,
    }


def ratios(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ours over theirs, for each pair of samplers on one case: medians over rounds next to each other."""
    found = []
    for ours in rows:
        for theirs in rows:
            same = (ours["target"], ours["chains"]) == (theirs["target"], theirs["chains"])
            if not same or not ours["sampler"].startswith("ours") or theirs["sampler"].startswith("ours"):
                continue
            pair = {"target": ours["target"], "chains": ours["chains"]}
            pair |= {"ours": ours["sampler"].removeprefix("ours "), "theirs": theirs["sampler"]}
            pairs = list(zip(ours["each"], theirs["each"], strict=True))
            found.append(pair | {key: statistics.median(a[key] / b[key] for a, b in pairs) for key in MEASURES})
    return found


RATIO_COLUMNS = {
    "target": ("target", "s"),
    "chains": ("chains", "d"),
    "ours": ("ours", "s"),
    "theirs": ("theirs", "s"),
    "cold": ("cold", ".2f"),
    "warm": ("warm", ".2f"),
    "drawing": ("draw", ".2f"),
    "gradients": ("gradients", ".2f"),
    "draw_gradients": ("of draws", ".2f"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and print both tables."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.peers.tuned", description=__doc__)
    parser.add_argument("--target", action="append", choices=list(BENCHMARKS), help=f"by default {TARGETS}")
    parser.add_argument("--chains", action="append", type=int, help=f"by default each of {CHAINS}")
    parser.add_argument("--side", action="append", choices=SIDES, help="these only; by default all that are installed")
    parser.add_argument("--rounds", type=int, default=3, help="timed runs of each sampler, after one that compiles")
    args = parser.parse_args(arguments)
    modules = {}
    for side in args.side or SIDES:
        try:
            modules[side] = importlib.import_module(f"asv_benchmarks.peers.tuned_{side}")
        except ImportError as error:
            print(f"{side}: skipped, {error}", file=sys.stderr, flush=True)
    rows = []
    for target in args.target or TARGETS:
        for chains in args.chains or CHAINS:
            case = Case(target, chains)
            sides = {
                f"{side} {sampler}": module.build(case, sampler)
                for side, module in modules.items()
                for sampler in module.SAMPLERS
            }
            rows += measure(case, sides, args.rounds)
    print(table(rows, COLUMNS) + "\n\n" + LEGEND)
    if pairs := ratios(rows):
        print("\n" + table(pairs, RATIO_COLUMNS) + "\n\n" + RATIO_LEGEND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
