"""Findings about a score: whether it is the gradient of the log density. All arrays are the host's."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xpsample.diagnostics.findings import Finding

# Change of the log density over which both are compared, the share of it by which they disagree, and the largest step,
# in standard deviations of the draws.
RISE, DISAGREES, NARROW = 0.02, 0.02, 0.05

NAMED = 32  # Coordinates that are compared one by one, once score and log density disagree


class Compared(NamedTuple):
    """Slopes by the log density and by the score, and whether they agree and disagree for certain, each (*chains)."""

    slope: np.ndarray
    predicted: np.ndarray
    agree: np.ndarray
    disagree: np.ndarray


def judge_score(
    density: Callable[[np.ndarray], np.ndarray], draws: np.ndarray, scores: np.ndarray, names: Sequence[str]
) -> Finding | None:
    """Compare scores with central differences of the log density at some draws, both (draw, *chains, dim).

    All coordinates move at once, each by as much as changes the log density by the same amount according to the score:
    uphill, which shows a wrong sign or factor, and up or down at random, which shows one coordinate that is wrong.
    Functions with kinks, or with a rough score, disagree at a few chains only; so most of those where the difference
    is certain must disagree.
    """
    rng, dim = np.random.default_rng(0), draws.shape[-1]
    with np.errstate(all="ignore"):
        unit = np.std(draws.astype(np.float64), axis=tuple(range(draws.ndim - 1)))
        unit = np.where((unit > 0) & np.isfinite(unit), unit, 1e-2 * np.maximum(1.0, np.abs(draws)))
        steps = np.minimum(RISE / (dim * np.abs(scores)), NARROW * unit / np.sqrt(dim))
    for signs in (np.where(scores < 0, -1.0, 1.0), rng.choice([-1.0, 1.0], size=scores.shape)):
        found = [_compare(density, *each) for each in zip(draws, scores, signs * steps, strict=True)]
        wrong, right = (np.sum([np.sum(one[i]) for one in found]) for i in (3, 2))
        if wrong > max(1, right):
            at = int(np.argmax([np.sum(one.disagree) for one in found]))
            return _where(density, draws[at], scores[at], steps[at], names)
    return None


def _compare(
    density: Callable[[np.ndarray], np.ndarray], x: np.ndarray, score: np.ndarray, step: np.ndarray
) -> Compared:
    """Compare changes of the log density from x - step to x + step, and over half of that, with those by the score.

    A difference is certain if it is beyond rounding, and halves with the step: errors of central differences shrink to
    an eighth.
    """
    found = []
    for length in (1.0, 0.5):
        high, low = ((x + sign * length * step).astype(x.dtype) for sign in (1.0, -1.0))
        with np.errstate(all="ignore"):
            top, bottom = density(high), density(low)
            parts = score * (high.astype(np.float64) - low)
            noise = 16 * np.finfo(x.dtype).eps * (np.abs(top) + np.abs(bottom))
            found.append((top - bottom, np.sum(parts, axis=-1), np.sum(np.abs(parts), axis=-1), noise))
    (change, predicted, size, noise), (half_change, half, _, _) = found
    with np.errstate(all="ignore"):
        apart, limit = np.abs(change - predicted), DISAGREES * np.fmax(np.abs(change), size)
        halves = np.abs(2 * (half_change - half) - (change - predicted)) < 0.25 * apart
        length = 2 * np.sqrt(np.sum(step**2, axis=-1))
        agree, disagree = (apart <= limit) & (noise < limit), (apart > limit) & (4 * noise < apart) & halves
        return Compared(change / length, predicted / length, agree, disagree)


def _where(
    density: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    score: np.ndarray,
    steps: np.ndarray,
    names: Sequence[str],
) -> Finding:
    """A finding that names the coordinates in which most chains disagree, among the first `NAMED`."""
    wrong: list[tuple[str, float, float]] = []
    for i in range(min(NAMED, x.shape[-1])):
        one = _compare(density, x, score, steps * (np.arange(x.shape[-1]) == i))
        if np.sum(one.disagree) > np.sum(one.agree):
            chain = np.argmax(np.where(one.disagree, np.abs(one.slope - one.predicted), -1))
            wrong.append((names[i], float(one.predicted.flat[chain]), float(one.slope.flat[chain])))
    said = f": it is {wrong[0][1]:.3g}, but the slope is {wrong[0][2]:.3g}," if wrong else ""
    return Finding(
        "score",
        f"the score is not the gradient of the log density{said}",
        float(len(wrong)),
        "fix its signs, factors and order, or omit the score. sample(..., check=True) compares both before a run",
        tuple(name for name, _, _ in wrong),
    )
