"""Findings about numbers: a density or positions whose digits the dtype does not have, and values that underflow."""

import math
from collections.abc import Sequence

import numpy as np

from xpsample.metrics.findings import Column, Finding, of_worst

FINE = 0.05
"""Spacing of the numbers, in standard deviations of what they are to tell apart, from which a run suffers.

A log density that is rounded to 0.05 changes a ratio of densities by a few per cent.
"""

PILED_UP, NEAR_SMALLEST = 0.005, 2.0**32
"""Share of the draws that are 0, or up to so many times the smallest normal number, where values underflow."""


def judge_density_precision(
    log_density: np.ndarray, at_start: bool = False, computed_in: tuple[str, float] | None = None
) -> Finding | None:
    """Whether the spacing of the numbers is coarse for the log density: an offset, or a sum of very many terms.

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
        "use float64; or subtract a constant from each term inside the sum, so that the log density is near 0; or use "
        "fewer rows of data at once"
    )
    if computed_in is not None and not spacing > FINE * sd:
        name, eps = computed_in
        spacing = eps * 2.0 ** math.floor(math.log2(max(float(size), np.finfo(np.float64).tiny)))
        advice = f"the density computes in {name}: leave out the cast, or the context, that takes the digits (autocast)"
    if not spacing > FINE * sd:
        return None
    where = "at the start, " if at_start else ""
    return Finding(
        "precision",
        f"{where}log densities of size {float(size):.3g}, where numbers of {name} are {spacing:.2g} apart: the ratios "
        "of densities are rounding",
        spacing / sd,
        advice,
    )


def judge_position_precision(columns: Sequence[Column], values: np.ndarray, dtype: np.dtype) -> Finding | None:
    """Whether the spacing of the numbers is coarse for positions: a narrow coordinate that is far from 0."""
    if dtype.kind != "f" or not values.size:
        return None
    with np.errstate(all="ignore"):
        sd = np.std(values, axis=(0, 1))

        def coarseness(size: np.ndarray) -> np.ndarray:
            spacing = np.spacing(size.astype(dtype)).astype(np.float64)
            return np.where((sd > 0) & np.isfinite(sd), spacing / sd, 0.0)

        if not np.any(coarseness(np.max(np.abs(values), axis=(0, 1))) > FINE):
            return None
        size = np.median(np.abs(values), axis=(0, 1))
        spacing, coarse = np.spacing(size.astype(dtype)).astype(np.float64), coarseness(size)
    what = (
        f"positions near {{size:.3g}}, where numbers of {dtype.name} are {{spacing:.2g}} apart, with a standard "
        "deviation of {sd:.2g},"
    )
    advice = "use float64, or sample the difference from a constant"
    found = {"size": size, "spacing": spacing, "sd": sd}
    return of_worst("precision", what, advice, columns, coarse > FINE, coarse, **found)


def judge_underflow(
    columns: Sequence[Column], values: np.ndarray, dtype: np.dtype, diverged: bool = False
) -> Finding | None:
    """Whether positive values, (draw, chain, column), pile up at the smallest numbers there are.

    Where steps diverge it is enough that draws are half of the way down there, in logarithms: what a prior has so near
    to 0 goes on to where values underflow, and there the steps diverge.
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
    what = f"{{worst:.2g}} of the draws are below {limit:.2g}, on the way to the smallest numbers of {dtype.name},"
    advice = (
        "the target has mass where values underflow, and the chains cannot go there: make the logarithm the parameter "
        "and write the density in that, take a prior with less mass at 0, or use float64"
    )
    return of_worst("underflow", what, advice, columns, share > PILED_UP, share)
