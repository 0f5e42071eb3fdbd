"""Ours and a peer's in turns, in one process: the laws first, then the times."""

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

from asv_benchmarks.peers.problems import Work, disagreement, ours

SECONDS = 0.15
"""About how long one timed run of ours takes."""
CHECK = {"mala": 600, "hmc": 200}
"""Draws of the runs by which the laws are compared, with 100 chains."""
FURTHEST = 5.5
"""Standard errors: with the 63 compared numbers of the larger problem, exceeded by chance with probability 3e-6."""

# Draws of a run with one chain on the logistic problem with MALA, by library: about `SECONDS` of ours.
DRAWS = {"numpy": 4000, "torch": 1500, "jax": 40_000}


class UnequalWork(Exception):
    """A peer's chain has another law than ours, so that there is nothing to compare."""


def draws(problem: str, kernel: str, chains: int, library: str) -> int:
    """How many draws a timed run keeps."""
    arithmetic = {"logistic": 1, "breast_cancer": 8}[problem] * {"mala": 1, "hmc": 8}[kernel]
    scale = 1 + chains * arithmetic / {"numpy": 40, "torch": 60, "jax": 2}[library]
    calls = {"mala": 1, "hmc": 4}[kernel]
    return max(40, int(DRAWS[library] / (calls if library != "jax" else 1) / scale))


def check_law(name: str, problem: str, kernel: str, scores: tuple[str, str]) -> float:
    """The disagreement of a peer's law with ours.

    Raises
    ------
    UnequalWork
        If it is more than chance explains.
    """
    peer = peer_named(name)
    work = Work(problem, kernel, 100, CHECK[kernel])
    apart = disagreement(ours(work, scores[0], peer.LIBRARY, peer.DTYPE)(1), peer.build(work, scores[1])(2))
    if not apart < FURTHEST:
        raise UnequalWork(f"{name}, {kernel} on {problem}: moments or acceptance differ by {apart:.1f} standard errors")
    return apart


def compare(name: str, problem: str, kernel: str, chains: int, scores: tuple[str, str], rounds: int) -> dict[str, Any]:
    """Medians over `rounds` runs of each side, which take turns; CPU and wall time, in ns for a chain's step."""
    peer = peer_named(name)
    work = Work(problem, kernel, chains, draws(problem, kernel, chains, peer.LIBRARY))
    sides: dict[str, Callable] = {
        "ours": ours(work, scores[0], peer.LIBRARY, peer.DTYPE),
        "theirs": peer.build(work, scores[1]),
    }
    times: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for seed in range(rounds + 1):
        for side, run in sides.items():
            began = time.process_time(), time.perf_counter()
            run(seed)
            times[side].append((time.process_time() - began[0], time.perf_counter() - began[1]))
    scale = 1e9 / (work.chains * work.draws)
    row: dict[str, Any] = {"peer": name, "problem": problem, "kernel": kernel, "chains": chains}
    row |= {"score": scores[0], "their_score": scores[1], "draws": work.draws}
    for i, clock in enumerate(("cpu", "wall")):
        medians = {side: statistics.median(pair[i] for pair in found[1:]) for side, found in times.items()}
        row |= {f"{side}_{clock}": scale * median for side, median in medians.items()}
        row[f"{clock}_ratio"] = medians["ours"] / medians["theirs"]
    pairs = [a[0] / b[0] for a, b in zip(times["ours"][1:], times["theirs"][1:], strict=True)]
    return row | {"least_ratio": min(pairs), "most_ratio": max(pairs)}


def peer_named(name: str) -> Any:
    """The module of a peer; ImportError where its library is not installed."""
    return importlib.import_module(f"asv_benchmarks.peers.{name}")
