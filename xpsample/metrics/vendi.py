"""The Vendi score: the effective number of different samples in a batch."""

from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.devices import as_in_runs
from xpsample.metrics.classes import entropy


@as_in_runs
def cosine_similarity(features: Array) -> Array:
    """Cosines between all pairs of feature vectors, (..., n, k) to (..., n, n).

    A zero vector has cosine 0 with all others and 1 with itself, so that the result is a similarity matrix.
    """
    xp = array_namespace(features)
    norms = xp.sqrt(xp.sum(features * features, axis=-1, keepdims=True))
    units = features / xp.where(norms > 0, norms, xp.ones_like(norms))
    products = units @ xp.matrix_transpose(units)
    same = xp.eye(features.shape[-2], dtype=features.dtype, device=device_of(features)) > 0
    return xp.where(same, xp.ones_like(products), products)


def vendi_score(similarity: Array) -> Array:
    """exp of the Shannon entropy of the eigenvalues of K / n (Friedman & Dieng 2023).

    Parameters
    ----------
    similarity : array, shape (..., n, n)
        Symmetric and positive semi-definite, with ones on the diagonal, as `cosine_similarity` gives it.

    Returns
    -------
    array, shape (...)
        From 1 (all samples are the same) to n (no two are alike).
    """
    if similarity.ndim < 2 or similarity.shape[-1] != similarity.shape[-2] or not similarity.shape[-1]:
        raise ValueError(f"similarity must have shape (..., n, n) with n >= 1, not {tuple(similarity.shape)}")
    xp = array_namespace(similarity)
    weights = xp.linalg.eigvalsh(similarity) / similarity.shape[-1]
    return xp.exp(entropy(xp, weights))  # rounding may make an eigenvalue of zero negative
