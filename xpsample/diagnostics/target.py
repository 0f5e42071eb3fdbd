"""Findings about the density of a target: its digits, its bounds and its tails; and its values around bad draws."""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.registry import to_host
from xpsample.diagnostics.findings import Column, Finding, of_worst
from xpsample.diagnostics.lagging import judge_arrival, stand_ins
from xpsample.diagnostics.scores import judge_score
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import wanted

# Spacing of the numbers, in standard deviations of the numbers to be distinguished, from which a run suffers.
# A log density that is rounded to 0.05 changes a ratio of densities by a few per cent.
FINE = 0.05

# Share of the draws that are 0, or up to so many times the smallest normal number, where values underflow.
PILED_UP, NEAR_SMALLEST = 0.005, 2.0**32


def judge_density_precision(
    log_density: np.ndarray, at_start: bool = False, computed_in: tuple[str, float] | None = None
) -> Finding | None:
    """Check whether the spacing of the numbers is coarse for the log density: an offset, or a sum of very many terms.

    Compared are the median over the chains of the log density's size and of its standard deviation in a chain, which
    counts as 1 at least: a log ratio of densities should be right to 0.05 or so. Log densities are (draw, *chains), in
    the dtype of the run; the spread of those `at_start` says nothing, and counts as 1. `computed_in` is the dtype with
    the fewest digits that it is computed in, where that is another one, and its machine epsilon.
    """
    values = np.abs(log_density[np.isfinite(log_density)])
    if not values.size:
        return None
    size = np.min(values) if at_start else np.median(values)
    sd = 1.0
    if not at_start:
        with np.errstate(all="ignore"):
            sds = np.nanstd(np.where(np.isfinite(log_density), log_density, np.nan).astype(np.float64), axis=0)
        sd = max(1.0, float(np.nan_to_num(np.median(sds))))
    spacing, name = float(np.spacing(log_density.dtype.type(size))), log_density.dtype.name
    advice = (
        "use float64, subtract a constant from each term of the sum so that the log density is near 0, or use fewer "
        "rows of data at once"
    )
    if computed_in is not None and not spacing > FINE * sd:
        name, eps = computed_in
        spacing = eps * 2.0 ** math.floor(math.log2(max(float(size), np.finfo(np.float64).tiny)))
        advice = f"the density computes in {name}: remove the cast, or the context such as autocast, that loses digits"
    if not spacing > FINE * sd:
        return None
    where = "at the start, " if at_start else ""
    return Finding(
        "precision",
        f"{where}log densities of size {float(size):.3g} have too few digits: numbers of {name} are {spacing:.2g} "
        f"apart there (limit {FINE * sd:.2g}), so ratios of densities are rounding errors",
        spacing / sd,
        advice,
    )


def judge_position_precision(columns: Sequence[Column], values: np.ndarray, dtype: np.dtype) -> Finding | None:
    """Check whether the spacing of the numbers is coarse for positions: a narrow coordinate that is far from 0."""
    if dtype.kind != "f" or not values.size:
        return None
    with np.errstate(all="ignore"):
        sd, sizes = np.std(values, axis=(0, 1)), np.abs(values)
        # The computed standard deviation of equal numbers may be their rounding error.
        known = np.any(values != values[:1, :1], axis=(0, 1)) & np.isfinite(sd)
        if not np.any(known & (np.spacing(np.max(sizes, axis=(0, 1)).astype(dtype)) > FINE * sd)):
            return None
        size = np.median(sizes, axis=(0, 1))
        spacing = np.spacing(size.astype(dtype)).astype(np.float64)
        coarse = np.where(known, spacing / sd, 0.0)
    what = (
        f"positions near {{size:.3g}} have too few digits: numbers of {dtype.name} are {{spacing:.2g}} apart there "
        f"(limit {FINE:.0%} of the standard deviation, {{sd:.2g}})"
    )
    advice = "use float64, or subtract a constant and sample the difference"
    found = {"size": size, "spacing": spacing, "sd": sd}
    return of_worst("precision", what, advice, columns, coarse > FINE, coarse, **found)


def judge_underflow(
    columns: Sequence[Column], values: np.ndarray, dtype: np.dtype, diverged: bool = False
) -> Finding | None:
    """Check whether positive values, (draw, chain, column), pile up at the smallest numbers there are.

    If steps diverge, draws half of the way down, in logarithms, are enough: the mass of a prior so near
    to 0 continues to where values underflow, and there the steps diverge.
    """
    if dtype.kind != "f" or not values.size:
        return None
    smallest = float(np.finfo(dtype).smallest_normal)
    limit = math.sqrt(smallest) if diverged else smallest * NEAR_SMALLEST
    small = (values < limit) & (values > 0)  # 0 itself is a value that discrete parameters have
    if not np.any(small):
        return None
    share = np.mean(small, axis=(0, 1))
    share = share + np.where(share > 0, np.mean(values == 0, axis=(0, 1)), 0.0)
    what = (
        f"values underflow: a share of {{worst:.2g}} of the draws (limit {PILED_UP}) is below {limit:.2g}, close to "
        f"the smallest numbers of {dtype.name},"
    )
    advice = (
        "the target has mass there that chains cannot reach. Make the logarithm the parameter and write the density in "
        "it, use a prior with less mass at 0, or use float64"
    )
    return of_worst("underflow", what, advice, columns, share > PILED_UP, share)


# Share of the places around the draws at which a log density is not finite; and of a bound that is declared.
OFTEN_OUTSIDE, OFTEN_BEYOND = 0.02, 0.2


def judge_bound(around: np.ndarray, declared: bool = False) -> Finding | None:
    """Check whether there is a hard bound, or the end of a density's numerical range, among the draws.

    The log densities (place, *chains) are at places as far from the draws as these are from one another. A bound that
    is `declared` is found only if it is often met.
    """
    outside, unknown = float(np.mean(around == -np.inf)), float(np.mean(np.isnan(around)))
    better = "use an unbounded parameter, as Model(..., x=Positive()) does"
    if declared:
        what = (
            f"the log density is -inf at {outside:.0%} of the points around the draws (limit {OFTEN_BEYOND:.0%}), "
            "beyond the declared bound"
        )
        advice = f"moves that end there are rejected; {better}"
        return Finding("bound", what, outside, advice) if outside >= OFTEN_BEYOND else None
    if max(outside, unknown) < OFTEN_OUTSIDE:
        return None
    better = f"{better}, or at least set constrained=True in the target or model"
    around_them = f"of the points around the draws (limit {OFTEN_OUTSIDE:.0%})"
    if outside >= unknown:
        what = f"the log density is -inf at {outside:.0%} {around_them}, and no bound is declared"
        advice = f"if a hard bound is intended, {better}; otherwise fix the underflow of the density there"
        return Finding("bound", what, outside, advice)
    what = f"the log density is nan, or fails, at {unknown:.0%} {around_them}"
    return Finding("bound", what, unknown, f"if a hard bound is intended, return -inf beyond it, and {better}")


def judge_improper(rays: Sequence[np.ndarray]) -> Finding | None:
    """Check whether the log density falls too slowly in the tails for a finite integral: not faster than -log |x|.

    Each of the rays has log densities (sign, distance, *chains) at distances that are ten times the one before.
    """
    least, worst, grows = math.log(10), 0.0, 0.0
    for values in rays:
        with np.errstate(invalid="ignore"):
            falls = values[:, :-1] - values[:, 1:]
            # With the logarithm of the distance; a fall of 1 is just too slow for a finite integral.
            flat = np.all(((falls < 0.9 * least) & (values[:, 1:] > -np.inf)) | (values[:, 1:] == np.inf), axis=1)
            rises = flat & np.all((falls < -1.0) | (values[:, 1:] == np.inf), axis=1)
        worst = max(worst, float(np.max(np.mean(np.reshape(flat, (len(flat), -1)), axis=-1))))
        grows = max(grows, float(np.max(np.mean(np.reshape(rises, (len(rises), -1)), axis=-1))))
    if grows > 0.5:
        return Finding(
            "improper",
            "the log density grows in the tail, in the chains' direction, so the density has no finite integral",
            grows,
            "check its sign, and that it is the logarithm of a density. No kernel can sample this target",
        )
    if worst > 0.5:
        return Finding(
            "improper",
            "the log density does not fall in the tail, in the chains' direction, so the density has no finite "
            "integral",
            worst,
            "set a proper prior for every parameter, fix parameters that the data do not inform, or check that the "
            "function is the logarithm of a density. No kernel can sample this target",
        )
    return None


def judge_data_precision(target: BoundTarget, draws: Array) -> Finding | None:
    """Check whether rounding float32 data, such as Julian dates, changes the ratios of log densities.

    Each number moves by half its spacing, up or down at random. At draws of the target the log density then changes by
    less than its own rounding, up to a constant, if the digits of the data suffice.
    """
    leaves = dict(tree.items(target.data))
    rounded = {path: leaf for path, leaf in leaves.items() if is_array(leaf) and tree.dtype_name(leaf) == "float32"}
    if not rounded or tree.dtype_name(target.as_floating(draws[-1, ...])) != "float32":
        return None
    rng = np.random.default_rng(0)

    def changes(paths: Iterable[str]) -> float:
        """Standard deviation over the last draws of the change in log density if these leaves are rounded anew."""
        moved = {path: _rounded_anew(rng, target, rounded[path]) for path in paths}
        other = target.with_data(tree.fill(target.data, leaves | moved))
        apart = []
        with np.errstate(all="ignore"), warnings.catch_warnings(), suppress(Exception):  # such as too little memory
            warnings.simplefilter("ignore")
            for i in range(-min(4, draws.shape[0]), 0):
                one, two = (t.log_density(draws[i, ...]) for t in (target, other))
                apart.append(np.asarray(to_host(two), dtype=np.float64) - np.asarray(to_host(one)))
            sd = np.std(apart, axis=(0, -1) if np.ndim(apart) > 1 else 0)  # of each group, whose data may be its own
            return float(np.max(np.nan_to_num(sd), initial=0.0))
        return 0.0

    if changes(rounded) < ROUGH:
        return None
    each = {path: changes([path]) for path in rounded}
    worst = max(each, key=each.__getitem__)
    return Finding(
        "precision",
        f"the float32 rounding of data {worst!r} changes log densities by {each[worst]:.2g} between draws",
        each[worst],
        "pass float64 positions, or subtract a constant from the data (data - data.mean()) before rounding them",
    )


ROUGH = 0.2  # Standard deviation of the change of a log density by rounding from which posterior means move noticeably


def _rounded_anew(rng: Any, target: BoundTarget, leaf: Array) -> Array:
    host = to_host(leaf)
    limit = rng.choice(np.asarray([-np.inf, np.inf], dtype=np.float32), size=host.shape)
    return target.backend.from_host(np.nextafter(host, limit), leaf)


# By how much the log density falls between two modes, at so many places between them; it does not in one mode that is
# log-concave, as badly conditioned as it may be. And array elements of the means of both sides.
VALLEY, PLACES, MEANS = 2.0, 7, 2**21


def judge_valley(along: np.ndarray) -> bool:
    """Return whether log densities (place, *chains) along lines, ends included, fall between the ends of most lines."""
    with np.errstate(invalid="ignore"):
        depth = np.minimum(along[0], along[-1]) - np.min(along[1:-1], axis=0)
    return not np.nanmedian(np.where(np.isnan(depth), np.inf, depth)) < VALLEY


def between(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (*chains, dim) of the draws (row, *chains, dim) of each chain on the two sides of the gap between chains.

    That is the widest gap between the means of the chains of a group, in the standard deviations of their draws, of all
    coordinates; or the middle of the flattest one, if each chain is on both sides. A chain that is only on one side is
    compared with another one.
    """
    low, high = np.empty((2, *rows.shape[1:]))
    for group in np.ndindex(rows.shape[1:-2]):
        draws = rows[(slice(None), *group)].astype(np.float64)
        means, spread = np.sort(np.mean(draws, axis=0), axis=0), np.sqrt(np.mean(np.var(draws, axis=0), axis=0))
        with np.errstate(all="ignore"):
            gaps = np.nan_to_num(np.diff(means, axis=0) / spread, posinf=0.0)
            away = draws - np.mean(draws, axis=(0, 1))
            flat = np.mean(away**4, axis=(0, 1)) / np.mean(away**2, axis=(0, 1)) ** 2
        if np.max(gaps, initial=0.0) > 1:
            k, i = np.unravel_index(np.argmax(gaps), gaps.shape)
            below = np.broadcast_to(np.mean(draws[..., i], axis=0) <= means[k, i], draws.shape[:2])
        else:
            own = draws[..., int(np.argmin(np.where(np.isnan(flat), np.inf, flat)))]
            below = own <= 0.5 * (np.quantile(own, 0.02) + np.quantile(own, 0.98))
        for side, end in ((below, low), (~below, high)):
            there = np.any(side, axis=0)
            total = np.sum(np.where(side[..., None], draws, 0.0), axis=0)
            found = total / np.maximum(1, np.sum(side, axis=0))[:, None]
            if np.any(there):
                found[~there] = found[np.resize(np.flatnonzero(there), np.sum(~there))]
            end[group] = found
    return low, high


# Fewest steps of a run that evaluates the target: up to 68 times for each chain, too slow for a short run.
FEWEST_STEPS = 400

OF_A_BOUND = {"divergences", "not_finite", "stuck"}

OF_NO_END = {
    *("rhat", "ess_bulk", "ess_tail", "modes", "slow", "growth", "transient", "warmup", "depth", "not_finite"),
    *("stuck", "divergences", "constant", "restart", "precision", "energy", "heat", "tails"),
}


class Judged(NamedTuple):
    """Findings about a density, whether chains that are apart are in one mode, and evaluations for each chain."""

    findings: list[Finding]
    one_mode: bool
    evaluations: int


def judge_target(
    target: BoundTarget, draws: Array, kinds: set[str], names: Sequence[str], whole: bool = True
) -> Judged:
    """Judge the score at the draws and, for findings of some kinds, the log density around them, between modes and in
    the tails.

    A target that is not `whole`, of some rows of the data, has its mode at another position.
    """
    one_mode, n = False, draws.shape[0]
    rows = np.stack([to_host(draws[int(i), ...]) for i in np.linspace(n // 2, n - 1, min(64, n - n // 2)).astype(int)])
    like, judged, count = draws[-1, ...], [], 0

    def density(host: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        values = np.full(host.shape[:-1], np.nan)
        with np.errstate(all="ignore"), warnings.catch_warnings(), suppress(Exception):  # places that it cannot take
            warnings.simplefilter("ignore")
            # Not the log densities of its points, which acceptances other than `ByDensity` omit.
            found = target.log_density(target.backend.from_host(host.astype(rows.dtype), like))
            values = np.asarray(to_host(found), dtype=np.float64)
        return values

    def along(ray: np.ndarray) -> np.ndarray:
        """Log densities, (sign, distance, *chains), in the tails; nan for chains with a zero ray."""
        signs = [[density(rows[-1] + far * sign * ray) for far in (10.0, 100.0, 1000.0)] for sign in (1.0, -1.0)]
        return np.where(np.any(ray != 0, axis=-1), np.stack(signs), np.nan)

    if wanted(target.requires).score and target.acceptance.exact:
        some = [draws[i, ...] for i in (0, n // 2, n - 1)]
        scores, count = np.stack([to_host(target.score(x)) for x in some]), len(some)
        judged.append(judge_score(density, np.stack([to_host(x) for x in some]), scores, names))
    if kinds & (OF_NO_END if target.constrained else OF_A_BOUND):
        around = np.stack([density(x) for x in _around(_of_those_that_moved(rows))])
        judged.append(judge_bound(around, target.constrained))
    if kinds & OF_NO_END and "underflow" not in kinds:
        judged.append(judge_improper([along(ray) for ray in _rays(rows)]))
    unseen = not wanted(target.requires).log_density  # no warm-up has compared the chains
    if "rhat" in kinds and rows.ndim > 2 and whole and unseen:
        late = judge_arrival(np.stack([density(x) for x in rows]), "at the end of the run")
        # In one mode, log densities of chains that hardly move have a standard deviation of about sqrt(dim / 2).
        judged.append(late if late is not None and late.value > 10 * math.sqrt(rows.shape[-1] / 2) else None)
    if kinds & {"modes", "labels"} and rows.ndim > 2:
        many = max(len(rows), MEANS // math.prod(rows.shape[1:]))
        low, high = between(to_host(draws[n // 2 :: -(-(n - n // 2) // many), ...]))
        at = np.linspace(0.0, 1.0, PLACES + 2)
        one_mode = not judge_valley(np.stack([density(low + t * (high - low)) for t in at]))
    return Judged([finding for finding in judged if finding is not None], one_mode, count)


def _of_those_that_moved(rows: np.ndarray) -> np.ndarray:
    """The draws, (row, *chains, dim), with chains that moved in place of chains that did not.

    The surroundings of a chain stuck in the tails, such as an overflow, are no bound of the others.
    """
    if rows.ndim < 3:
        return rows
    index = stand_ins(np.all(rows == rows[:1, ...], axis=(0, -1)))
    return np.take_along_axis(rows, index[None, ..., None], axis=-2)


def _around(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Eight places around the draws of each chain, (*chains, dim): a difference of two draws away, times a factor."""
    n = len(rows)
    for i, factor in enumerate((0.25, -0.5, 1.0, -1.5) * 2):
        a, b = rows[(7 * i) % n], rows[(7 * i + n // 2) % n]
        b = np.roll(b, 1, axis=-2) if rows.ndim > 2 else b
        yield rows[(11 * i + n // 3) % n] + factor * (a - b)


def _rays(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Directions, (*chains, dim), as long as the draws go: of the way of each chain, and of some coordinates.

    The coordinates are those in which the halves of the chains differ the most.
    Chains that hardly move go a short way, at whose thousandfold they may still be where they are.
    """
    half = len(rows) // 2
    dim = rows.shape[-1]
    values = np.reshape(rows.astype(np.float64), (len(rows), -1, dim))
    way = np.mean(values[half:], axis=0) - np.mean(values[: len(rows) - half], axis=0)
    with np.errstate(all="ignore"):
        looks = np.sqrt(np.mean(way**2, axis=0)) / np.sqrt(np.mean(np.var(values, axis=0), axis=0))
    extent, length = np.ptp(values, axis=(0, 1)), np.linalg.norm(way, axis=-1, keepdims=True)
    longer = np.linalg.norm(extent) / np.where(length > 0, length, np.inf)
    way = way * np.where(np.isfinite(longer), np.maximum(1.0, longer), 1.0)
    chosen = np.argsort(-np.where(np.isfinite(looks), looks, 0.0), kind="stable")[:8]
    yield np.broadcast_to(np.reshape(way, rows.shape[1:]), rows.shape[1:])
    together = np.zeros(dim)
    together[chosen] = np.max(extent[chosen], initial=0.0)
    for ray in ([together] if len(chosen) > 1 else []) + [extent[i] * np.eye(dim)[i] for i in chosen]:
        yield np.broadcast_to(ray, rows.shape[1:])


def computed_in(target: BoundTarget, x: Array) -> dict[str, tuple[str, float]]:
    """The dtype that a log density in float32 computes in, where it has fewer digits, and its machine epsilon.

    An entry of the facts that a diagnosis has of a run; none if it computes in float32.
    """
    autodiff = target.backend.autodiff
    if autodiff is None or target.as_floating(x).dtype != target.xp.float32:
        return {}
    wants, found = wanted(target.requires), None
    if wants.log_density or (wants.ratio and target.acceptance.exact):
        with suppress(Exception):  # nothing is known if a library cannot trace it
            found = autodiff.coarsest(target.log_density, x)
    return {} if found is None else {"computed_in": found}


def say_precision(state: Any, burn_in: int, known: Mapping[str, Any]) -> Finding | None:
    """Judge the digits of the log density at the first draws; a run with burn-in is judged by its draws alone."""
    log_density = getattr(state.point, "log_density", None)
    if log_density is None or burn_in or not hasattr(log_density, "shape"):
        return None
    host = np.atleast_1d(to_host(log_density))[None]
    return judge_density_precision(host, at_start=True, computed_in=known.get("computed_in"))
