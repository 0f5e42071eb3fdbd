"""Zero-variance control variates: values minus polynomials of positions and scores whose mean under the target is 0.

For a polynomial P, ``laplacian P + grad P . score`` has mean 0 (Mira, Solgi & Imparato 2013). Its coefficients are
fitted by least squares with a penalty; penalty and order are chosen by cross-validation (South, Oates, Mira & Drovandi
2022), here between chains, and by the error of the mean, not of a draw.
"""

from collections.abc import Callable, Sequence

import numpy as np

GROUPS = 4  # Groups of chains: the coefficients for each are fitted on the others

MOST = 1_000  # Variates that are fitted together, at most

FITTED = 10_000  # Approximate maximum number of draws on which coefficients are fitted

# Candidate penalties on squared coefficients, for variates of variance 1.
PENALTIES = (1e-10, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)

Variates = Callable[[np.ndarray, np.ndarray], np.ndarray]


def linear(x: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The variates of P = x_i: the score."""
    return score


def squares(x: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Linear variates, and the variates of P = x_i^2 / 2, ``1 + x_i s_i``."""
    return np.concatenate([score, 1.0 + x * score], axis=-1)


def quadratic(x: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Variates of `squares`, and the variates of P = x_i x_j, ``x_i s_j + x_j s_i``."""
    i, j = np.triu_indices(x.shape[-1], 1)
    products = x[..., i] * score[..., j] + x[..., j] * score[..., i]
    return np.concatenate([squares(x, score), products], axis=-1)


def corrected(values: np.ndarray, x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Subtract from values (draw, chain, m) a fit of their deviations by polynomials of positions and scores.

    Positions and scores are (draw, chain, dim), from four or more chains, which are cut into four groups. The fit that
    is subtracted from a group was fitted and chosen on the others, so the mean of every corrected chain is as unbiased
    as it was. If nothing lowers the estimated error, nothing is subtracted.
    """
    found = values.copy()
    groups = np.array_split(np.arange(x.shape[1]), GROUPS)
    for own in groups:
        others = [group for group in groups if group is not own]
        fitting = np.concatenate(others)
        centre, spread = (moment(x[:, fitting], axis=(0, 1)) for moment in (np.mean, np.std))
        spread = np.where(spread > 0, spread, 1.0)
        parts = [[_batches(a, group) for a in ((x - centre) / spread, scores * spread, values)] for group in others]
        for variates, coefficients in _chosen(parts):
            if np.any(coefficients):
                for chain in own:
                    standard = (x[:, chain] - centre) / spread, scores[:, chain] * spread
                    found[:, chain] -= variates(*standard) @ coefficients
    return found


def _batches(a: np.ndarray, chains: np.ndarray) -> np.ndarray:
    """Stretches of about ``sqrt(draws)`` draws of some chains, evenly spread, (stretch, draw, ...)."""
    length = int(len(a) ** 0.5)
    few = chains[:: -(-len(chains) * GROUPS * length // FITTED)]
    many = min(len(a) // length, max(2, FITTED // (GROUPS * length * len(few))))
    first = np.linspace(0, len(a) - length, many).astype(int)
    rows = first[:, None] + np.arange(length)
    return np.concatenate([a[rows, chain] for chain in few])


def _chosen(parts: Sequence[Sequence[np.ndarray]]) -> list[tuple[Variates, np.ndarray]]:
    """Each kind of variates with the coefficients (p, m) that lower the error most; 0 of those not taken."""
    x, scores, values = zip(*parts, strict=True)
    dim = x[0].shape[-1]
    sizes = {linear: dim, squares: 2 * dim, quadratic: dim * (dim + 3) // 2}
    kinds = [kind for kind, size in sizes.items() if size <= MOST]
    errors = [np.var(np.concatenate([np.mean(f, axis=1) for f in values]), axis=0)]
    fits = []
    for kind in kinds:
        g = [kind(*own) for own in zip(x, scores, strict=True)]
        errors += _errors(g, values)
        fits.append(np.stack(_fits(g, values)))
    best = np.argmin(errors, axis=0) - 1  # -1 for no variates
    chosen = np.reshape(best == np.arange(len(errors) - 1)[:, None], (len(kinds), len(PENALTIES), -1))
    return [(kind, np.einsum("ipm,im->pm", fit, taken)) for kind, fit, taken in zip(kinds, fits, chosen, strict=True)]


def _errors(g: Sequence[np.ndarray], f: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return, for each penalty, the variance (m) of the corrected means of stretches, each fitted without its group."""
    left: list[list[np.ndarray]] = [[] for _ in PENALTIES]
    for k in range(len(g)):
        fits = _fits([*g[:k], *g[k + 1 :]], [*f[:k], *f[k + 1 :]])
        for kept, b in zip(left, fits, strict=True):
            kept.append(np.mean(f[k], axis=1) - np.mean(g[k], axis=1) @ b)
    return [np.var(np.concatenate(kept), axis=0) for kept in left]


def _fits(g: Sequence[np.ndarray], f: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Coefficients (p, m) of a ridge regression with an intercept, of each penalty."""
    rows, values = (np.concatenate([np.reshape(a, (-1, a.shape[-1])) for a in own]) for own in (g, f))
    rows, values = (a - np.mean(a, axis=0) for a in (rows, values))
    sd = np.std(rows, axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    rows = rows / sd
    n, p = rows.shape
    # (R'R + penalty)^-1 R'y, or the same as R' (RR' + penalty)^-1 y where that matrix is the smaller one.
    eigenvalues, vectors = np.linalg.eigh((rows.T @ rows if p <= n else rows @ rows.T) / n)
    left, right = (vectors, rows.T @ values) if p <= n else (rows.T @ vectors, values)
    along = vectors.T @ right / n
    return [left @ (along / (np.maximum(eigenvalues, 0.0) + penalty)[:, None]) / sd[:, None] for penalty in PENALTIES]
