"""How near images are to a reference."""

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import to_host


def mean_squared_error(x: Array, reference: Array) -> Array:
    """Mean over pixels of the squared difference, shape (...), in units of x squared.

    Parameters
    ----------
    x : array, shape (..., height, width)
    reference : array, shape (height, width)
    """
    return array_namespace(x).mean((x - reference) ** 2, axis=(-2, -1))


def structural_similarity(x: Array, reference: Array, data_range: float | None = None) -> np.ndarray:
    """SSIM (Wang et al. 2004) with windows of 7 x 7 equal weights, by scikit-image on the host.

    Parameters
    ----------
    x : array, shape (..., height, width)
    reference : array, shape (height, width)
        At least 7 x 7.
    data_range : float, optional
        Largest minus smallest value that a pixel can take; that of the reference's pixels when not given.

    Returns
    -------
    numpy.ndarray, shape (...)
        float64, at most 1; 1 for an equal image.

    Raises
    ------
    ImportError
        Without scikit-image (``pip install "xpsample[metrics]"``).
    HyperparameterError
        If the shapes do not fit.
    """
    try:
        from skimage.metrics import structural_similarity as of_pair
    except ImportError as error:
        raise ImportError('structural_similarity() needs scikit-image: pip install "xpsample[metrics]"') from error
    images, truth = (to_host(a).astype(np.float64) for a in (x, reference))
    if truth.ndim != 2 or images.shape[-2:] != truth.shape or min(truth.shape) < 7:
        raise HyperparameterError(
            f"images have shape (..., height, width), at least 7 x 7, as the reference; got {images.shape} and "
            f"{truth.shape}"
        )
    size = float(np.ptp(truth)) if data_range is None else data_range
    out = np.empty(images.shape[:-2])
    for at in np.ndindex(out.shape):
        out[at] = of_pair(truth, images[at], data_range=size)
    return out
