"""Which of known modes chains have visited."""

import math

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.devices import as_in_runs


@as_in_runs
def nearest_centre(x: Array, centres: Array) -> Array:
    """Index of the nearest centre in Euclidean distance: how Appendix D.2.1 of the SRMC paper assigns modes.

    Parameters
    ----------
    x : array, shape (..., dim)
    centres : array, shape (modes, dim)

    Returns
    -------
    array of int, shape (...)

    Notes
    -----
    One matrix product. The origin is moved to the mean of the centres, so that small distances between large
    coordinates keep their digits in float32.
    """
    if x.ndim < 1 or centres.ndim != 2 or x.shape[-1] != centres.shape[-1] or not centres.shape[0]:
        raise ValueError(
            f"x must have shape (..., dim) and centres (modes, dim), not {tuple(x.shape)} and {tuple(centres.shape)}"
        )
    xp = array_namespace(x, centres)
    origin = xp.mean(centres, axis=0)
    centres = centres - origin
    return xp.argmax((x - origin) @ centres.T - 0.5 * xp.sum(centres * centres, axis=-1), axis=-1)


def modes_discovered(modes: Array) -> Array:
    """How many different modes a group of chains has visited up to each row.

    Parameters
    ----------
    modes : array of int, shape (draw, *groups, chain)
        The mode of every chain at every row, such as from `nearest_centre`; negative for none. The chains of a group
        are pooled; take ``modes[..., None]`` to count every chain for itself.

    Returns
    -------
    array of int, shape (draw, *groups)
        Number of different modes up to and including each row: the curve of the SRMC paper's Fig. 7.
    """
    if modes.ndim < 2:
        raise ValueError(f"modes must have shape (draw, *groups, chain), not {tuple(modes.shape)}")
    xp = array_namespace(modes)
    draws, *groups, chains = modes.shape
    if 0 in modes.shape:
        return xp.sum(xp.zeros_like(modes), axis=-1)
    count = math.prod(groups)
    # In time order along axis 0, the chains of a row one after the other.
    visits = xp.permute_dims(xp.reshape(modes, (draws, count, chains)), (0, 2, 1))
    visits = xp.reshape(visits, (draws * chains, count))
    order = xp.argsort(visits, axis=0, stable=True)
    ordered = xp.take_along_axis(visits, order, axis=0)
    first = xp.concat(
        [ordered[:1, ...] >= 0, (ordered[1:, ...] != ordered[:-1, ...]) & (ordered[1:, ...] >= 0)], axis=0
    )
    # Back into time order: the sort that undoes the sort.
    first = xp.take_along_axis(xp.astype(first, order.dtype), xp.argsort(order, axis=0), axis=0)
    total = xp.cumulative_sum(first, axis=0)[chains - 1 :: chains, ...]
    return xp.reshape(total, (draws, *groups))
