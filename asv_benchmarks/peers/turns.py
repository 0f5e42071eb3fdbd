"""Ours and a peer's in turns, in one process: the distributions first, then the times."""

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from asv_benchmarks.peers.problems import Work, disagreement, ours

FURTHEST = 5.5
"""Standard errors: with the 63 compared numbers of the larger problem, exceeded by chance with probability 3e-6."""

DRAWS = {"numpy": 4000, "torch": 3000, "jax": 80_000}
"""Of the shorter run with one chain, logistic, MALA: about 0.15 seconds of ours, as those of other work."""
LONGER = 3
"""Times as many draws has the longer run. The difference is steps alone: what a run does once is in both."""
Run = Callable[[int], tuple[Any, ...]]


class UnequalWork(Exception):
    """A peer's chain has another distribution than ours, so that there is nothing to compare."""


def draws(problem: str, kernel: str, chains: int, library: str) -> int:
    """How many draws a timed run keeps."""
    arithmetic = {"logistic": 1, "breast_cancer": 8}[problem] * {"mala": 1, "hmc": 8}[kernel]
    scale = 1 + chains * arithmetic / {"numpy": 40, "torch": 250, "jax": 8}[library]
    calls = {"mala": 1, "hmc": 4}[kernel]
    return max(40, int(DRAWS[library] / (calls if library != "jax" else 1) / scale))


@cache
def _ours(work: Work, score: str, library: str, dtype: str) -> Run:
    return ours(work, score, library, dtype)


@cache
def _theirs(work: Work, score: str, name: str) -> Run:
    return peer_named(name).build(work, score)


def _sides(name: str, work: Work, scores: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Run]:
    """Runs by side and score; none is built twice, so that none compiles twice."""
    peer = peer_named(name)
    sides: dict[tuple[str, str], Run] = {}
    for score, their_score in scores:
        sides["ours", score] = _ours(work, score, peer.LIBRARY, peer.DTYPE)
        sides["theirs", their_score] = _theirs(work, their_score, name)
    return sides


def check_distribution(name: str, problem: str, kernel: str) -> float:
    """The largest disagreement of a peer's distribution with ours, with 100 chains.

    Raises
    ------
    UnequalWork
        If it is more than chance explains.
    """
    peer = peer_named(name)
    work = Work(problem, kernel, 100, draws(problem, kernel, 100, peer.LIBRARY))
    found = {side: run(seed) for seed, (side, run) in enumerate(_sides(name, work, peer.SCORES).items())}
    apart = max(disagreement(found["ours", one], found["theirs", other]) for one, other in peer.SCORES)
    if not apart < FURTHEST:
        raise UnequalWork(f"{name}, {kernel} on {problem}: moments or acceptance differ by {apart:.1f} standard errors")
    return apart


def compare(
    name: str, problem: str, kernel: str, chains: int, rounds: int, scores: Sequence[str] = ("analytic", "autodiff")
) -> list[dict[str, Any]]:
    """Medians over `rounds` pairs of runs of each side, which take turns; CPU and wall time, in ns for a chain's step.

    The time of a step is the difference of a longer run and a shorter one, without our diagnosis at their ends. A row
    for every pair of scores of which ours is one of `scores`. A ratio is the median of those of runs next to each
    other: a machine that is slow for some seconds is so for both.
    """
    peer = peer_named(name)
    work = Work(problem, kernel, chains, draws(problem, kernel, chains, peer.LIBRARY))
    pairs = [pair for pair in peer.SCORES if pair[0] in scores]
    short, long = (_sides(name, replace(work, draws=n * work.draws), pairs) for n in (1, LONGER))
    times: dict[tuple[str, str], list[tuple[float, ...]]] = {side: [] for side in short}
    for seed in range(rounds + 1):
        for side in short:
            few, many = _spent(short[side], seed), _spent(long[side], seed)
            times[side].append(tuple(b - a for a, b in zip(few, many, strict=True)))
    rows = []
    for score, their_score in pairs:
        mine, theirs = times["ours", score][1:], times["theirs", their_score][1:]
        row: dict[str, Any] = {"peer": name, "problem": problem, "kernel": kernel, "chains": chains}
        row |= {"score": score, "their_score": their_score, "draws": work.draws}
        for i, clock in enumerate(("cpu", "wall")):
            steps = (LONGER - 1) * chains * work.draws
            ns = [statistics.median(1e9 * pair[i] for pair in side) / steps for side in (mine, theirs)]
            ratios = [a[i] / b[i] for a, b in zip(mine, theirs, strict=True)]
            row |= {f"ours_{clock}": ns[0], f"theirs_{clock}": ns[1], f"{clock}_ratio": statistics.median(ratios)}
            if clock == "cpu":
                row |= {"least_ratio": min(ratios), "most_ratio": max(ratios)}
        rows.append(row)
    return rows


def _spent(run: Run, seed: int) -> tuple[float, float]:
    """CPU and wall seconds of a run, less what it does that peers do not."""
    began = time.process_time(), time.perf_counter()
    found = run(seed)
    end = time.process_time(), time.perf_counter()
    for besides in found[2:]:
        besides()
    after = time.process_time(), time.perf_counter()
    return 2 * end[0] - began[0] - after[0], 2 * end[1] - began[1] - after[1]


def peer_named(name: str) -> Any:
    """The module of a peer; ImportError where its library is not installed."""
    return importlib.import_module(f"asv_benchmarks.peers.{name}")
