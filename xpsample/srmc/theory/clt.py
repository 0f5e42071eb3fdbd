"""The central limit theorem of SRMC (Theorem 3.3), its matrices, and its closed forms.

SRMC is a stochastic approximation. The errors of the history theta_n and of the weighted mean mu_n of a function f
(Eq. 7) have covariance gamma_n Sigma, where gamma_n are the step sizes of the history. Sigma depends on the target and
the base kernel only through three matrices, the `Linearization`. The score s has d coordinates, f has m. Functions
accept arrays of any library and return the same. alpha is a number or an array; its axes come first in the result.
"""

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_range
from xpsample.core.registry import to_host
from xpsample.srmc.schedules import PowerLaw

AVERAGING = PowerLaw()
"""The default schedule 1 / (n + 1), with which theta_n and mu_n are plain averages."""


class Linearization(NamedTuple):
    """The recursion of theta and mu near its limit, but for alpha.

    ``score_covariance`` S (d, d) and ``cross_covariance`` C (m, d) are the target's Cov(s, s) and Cov(f, s). ``noise``
    U (d + m, d + m) is the long-run covariance of (s, f) along the base kernel's chain (Eq. 10). ``batches`` is the
    number of batch means behind the noise, or 0 if it is exact.
    """

    score_covariance: Array
    cross_covariance: Array
    noise: Array
    batches: int = 0


def independent(score_covariance: Array, cross_covariance: Array, value_covariance: Array) -> Linearization:
    """The linearization of a base kernel that draws independently from the tilted target (Eqs. 64-66).

    Parameters
    ----------
    score_covariance, cross_covariance, value_covariance : array, shapes (d, d), (m, d), (m, m)
        The target's Cov(s, s), Cov(f, s) and Cov(f, f).
    """
    s, c = score_covariance, cross_covariance
    return Linearization(s, c, _blocks(s, _transposed(c), c, value_covariance))


# ---- the theorem of the paper ----------------------------------------------------------------------------------------


def drift_matrix(linearization: Linearization, alpha: float | Array) -> Array:
    """The Jacobian A* of the mean field at its root, shape (*alpha, d + m, d + m) (Eq. 11)."""
    s, c = linearization.score_covariance, linearization.cross_covariance
    xp, alpha = array_namespace(s), _strength(alpha, s)
    zero = 0 * alpha
    mean = -_eye(s, c.shape[0]) + zero
    return _blocks(-_eye(s) - alpha * s, xp.zeros_like(_transposed(c)) + zero, -alpha * c, mean)


def solve_lyapunov(drift: Array, noise: Array) -> Array:
    """Sigma with ``drift Sigma + Sigma drift' + noise = 0`` (Eq. 13), by one linear solve for its n^2 entries.

    Parameters
    ----------
    drift : array, shape (*batch, n, n)
        For Eq. 13: `drift_matrix`, plus half the identity if rho = 1.
    noise : array, shape (*batch, n, n) or broadcasting to it

    Raises
    ------
    HyperparameterError
        If the real part of an eigenvalue of the drift is not negative: then there is no stationary covariance.

    Notes
    -----
    Memory grows as n^4 (n = 100: 800 MB). `iterate_covariance` avoids that, since A* is block triangular.
    """
    xp = array_namespace(drift, noise)
    largest = np.max(np.real(np.linalg.eigvals(to_host(drift))))
    if not largest < 0:
        raise HyperparameterError(
            f"the drift is not stable: an eigenvalue has real part {largest:.3g} (must be negative). With rho = 1, use "
            "a c / n for which those of A* are below -1 / (2 c)."
        )
    n, eye = drift.shape[-1], _eye(drift)
    # Sigma as a vector, row by row: the operator is drift (x) I + I (x) drift.
    left = drift[..., :, None, :, None] * eye[:, None, :]
    right = drift[..., None, :, None, :] * eye[:, None, :, None]
    operator = xp.reshape(left + right, (*drift.shape[:-2], n * n, n * n))
    flat = xp.reshape(xp.broadcast_to(noise, drift.shape), (*drift.shape[:-2], n * n, 1))
    return xp.reshape(xp.linalg.solve(operator, -flat), drift.shape)


# ---- asymptotic covariances ------------------------------------------------------------------------------------------


def iterate_covariance(
    linearization: Linearization, alpha: float | Array, schedule: PowerLaw = AVERAGING, n: int | None = None
) -> Array:
    """lim Cov((theta_n, mu_n)) / gamma_n, the solution of Eq. 13.

    Parameters
    ----------
    linearization : Linearization
    alpha : float or array
        Repellence strength, at least 0.
    schedule : PowerLaw
        Step sizes c (n + n0)^-rho of the history and of mu, with one rho.
    n : int, optional
        Steps made: the value after n steps, at a cost in proportion to n. For rho < 1 the limit is reached slowly: the
        difference falls as n^(rho - 1). mu_n is then as in `Estimator`: divided by the weight 1 - prod (1 - gamma_k)
        that it has given to the n steps.

    Returns
    -------
    array, shape (*alpha, d + m, d + m)
        theta comes first.

    Raises
    ------
    HyperparameterError
        Without `n`, if rho = 1 and the scale c is at most 1/2: mu then forgets its start too slowly for a CLT.
        With `n`, if the first steps are so unstable that double precision does not hold the result.

    Notes
    -----
    The paper has 1/2 in Eq. 13 for rho = 1, which is right for its c = 1. Since gamma_n / gamma_(n+1) =
    1 + rho / n + ..., the term is the limit of rho / (2 n gamma_n), 1 / (2 c) for rho = 1 and 0 for rho < 1. After n
    steps the covariance follows the linear recursion, which is exact if draws of the base kernel are independent,
    and right where they decorrelate much faster than theta.

    Solved by the blocks of Eqs. 55-57 in the eigenbasis of S: one eigendecomposition.
    """
    if n is not None:
        return _after(linearization, alpha, schedule, n)[0]
    return _solve_blocks(linearization, linearization.noise, alpha, 1.0, _shift(schedule))


def average_covariance(
    linearization: Linearization, alpha: float | Array, schedule: PowerLaw = AVERAGING, n: int | None = None
) -> Array:
    """lim n Cov(plain average of f over n steps); not in Theorem 3.3, see the notes.

    Parameters
    ----------
    linearization, alpha, schedule
        As in `iterate_covariance`.
    n : int, optional
        Steps made: the value after n steps, at a cost in proportion to n. The limit is reached slowly, as n^(rho - 1).

    Returns
    -------
    array, shape (*alpha, m, m)

    Raises
    ------
    HyperparameterError
        Without `n`, if rho = 1 and c (1 + alpha lambda) is at most 1/2 for an eigenvalue lambda of S: then the history
        decays too slowly for a CLT at rate sqrt(n). With `n`, as `iterate_covariance`.

    Notes
    -----
    For rho = 1 and c = 1 the average is mu_n, and this is its block of Eq. 13. For rho < 1 it is not mu_n: the average
    of a stochastic approximation has covariance inv(A*) U inv(A*)' (Polyak and Juditsky 1992). Its f block is the
    long-run covariance of f - G s along the base chain, with G = alpha C inv(I + alpha S): repellence acts as this
    control variate. For rho = 1 and other c, (theta, average) has the drift [[-c (I + alpha S), 0], [-alpha C, -I]] in
    units of 1 / n.

    After n steps it follows the linear recursion, as in `iterate_covariance`.
    """
    if n is not None:
        return _after(linearization, alpha, schedule, n)[1]
    s, c, noise, _ = linearization
    xp = array_namespace(s)
    d, (rho, scale) = s.shape[0], _numbers(schedule)
    if rho == 1:
        weight = xp.concat([scale * xp.ones_like(s[:, 0]), xp.ones_like(c[:, 0])])
        return _solve_blocks(linearization, weight[:, None] * noise * weight, alpha, scale, 0.5)[..., d:, d:]
    strength = _strength(alpha, s)
    gain = strength * (c @ xp.linalg.inv(_eye(s) + strength * s))
    both = gain @ noise[:d, d:]
    return noise[d:, d:] - both - _transposed(both) + gain @ noise[:d, :d] @ _transposed(gain)


def independent_covariance(
    score_covariance: Array,
    cross_covariance: Array,
    value_covariance: Array,
    alpha: float | Array,
    schedule: PowerLaw = AVERAGING,
) -> Array:
    """lim Cov(mu_n) / gamma_n for independent draws from the tilted target, in closed form (Eq. 15).

    Parameters
    ----------
    score_covariance, cross_covariance, value_covariance
        As in `independent`.
    alpha, schedule
        As in `iterate_covariance`, with its errors.

    Returns
    -------
    array, shape (*alpha, m, m)

    Notes
    -----
    Computed as (Cov(f, f) - alpha C inv(b I + alpha S) C') / (2 b) with b = 1 - 1 / (2 c) for rho = 1, otherwise 1. If
    S is invertible, this is Eq. 15; it also holds if S is not.
    """
    s, c = score_covariance, cross_covariance
    alpha, b = _strength(alpha, s), _mean_decay(_shift(schedule))
    explained = c @ array_namespace(s).linalg.inv(b * _eye(s) + alpha * s) @ _transposed(c)
    return (value_covariance - alpha * explained) / (2 * b)


def gaussian_covariance(
    covariance: Array, score_noise: Array, alpha: float | Array, schedule: PowerLaw = AVERAGING
) -> Array:
    """lim Cov(mu_n) / gamma_n for f(x) = x under N(mean, covariance), any base kernel (Eqs. 16 and 59).

    Parameters
    ----------
    covariance : array, shape (d, d)
        The target's.
    score_noise : array, shape (d, d)
        Long-run covariance of the scores along the base chain; the precision for independent draws.
    alpha, schedule
        As in `iterate_covariance`, with its errors.

    Returns
    -------
    array, shape (*alpha, d, d)

    Notes
    -----
    The paper states Eq. 16 for the plain average and any rho; its proof takes rho = 1, where the average is mu_n. For
    rho < 1 the average has another covariance, which falls as 1 / alpha^2 (`average_covariance`).
    """
    alpha, b = _strength(alpha, covariance), _mean_decay(_shift(schedule))
    variance, basis = array_namespace(covariance).linalg.eigh(covariance)
    scores = (_transposed(basis) @ score_noise @ basis) / (2 * b + alpha * (1 / variance[:, None] + 1 / variance))
    return basis @ (variance[:, None] * scores * variance) @ _transposed(basis)


def direction_variance(
    alpha: Array,
    score_variance: Array,
    cross_covariance: float | Array,
    score_noise: Array,
    cross_noise: Array,
    value_noise: Array,
    rho: float | Array = 1.0,
    scale: float = 1.0,
) -> Array:
    """The limit of `average_covariance` where each f goes with one score alone, for any number of such pairs.

    All arguments broadcast. Nothing is checked, so a compiled program may call it.

    Parameters
    ----------
    alpha : array
        Repellence strength.
    score_variance, cross_covariance : array
        The target's Var(s) and Cov(f, s).
    score_noise, cross_noise, value_noise : array
        Long-run variance of s along the base chain, covariance of s and f, variance of f.
    rho, scale : float or array
        Exponent and scale of the schedule; if rho is 1, the scale is above 1/2.
    """
    xp = array_namespace(alpha)
    rho = 0 * alpha + rho
    decay = 1 + alpha * score_variance
    theta = score_noise / (2 * (decay - xp.where(rho == 1, 0 * rho + 0.5 / scale, 0.0)))
    coupling = alpha * cross_covariance
    cross = (cross_noise - coupling * theta) / decay
    gain = coupling / decay
    slower = value_noise - 2 * gain * cross_noise + gain**2 * score_noise
    return xp.where(rho == 1, value_noise - 2 * coupling * cross, slower)


# ---- parts -----------------------------------------------------------------------------------------------------------


def _solve_blocks(linearization: Linearization, noise: Array, alpha: float | Array, rate: float, shift: float) -> Array:
    """Sigma for the drift [[shift - rate (I + alpha S), 0], [-alpha C, shift - 1]] (Eqs. 55-57)."""
    s, c = linearization.score_covariance, linearization.cross_covariance
    d, alpha = s.shape[0], _strength(alpha, s)
    eigenvalues, basis = array_namespace(s).linalg.eigh(s)
    decay = rate * (1 + alpha * eigenvalues[:, None]) - shift  # of theta, (*alpha, d, 1)
    mean = _mean_decay(shift)
    least = np.min(to_host(decay))
    if not least > 0:
        raise HyperparameterError(
            f"the history decays too slowly for a CLT: the least scale (1 + alpha lambda) is {least + shift:.3g}, but "
            "must exceed 1/2 with rho = 1. Use a larger scale, or rho < 1."
        )
    coupling = alpha * (c @ basis)
    theta = (_transposed(basis) @ noise[:d, :d] @ basis) / (decay + _transposed(decay))
    cross = (_transposed(basis) @ noise[:d, d:] - theta @ _transposed(coupling)) / (decay + mean)
    feedback = coupling @ cross
    mu = (noise[d:, d:] - feedback - _transposed(feedback)) / (2 * mean)
    cross = basis @ cross
    return _blocks(basis @ theta @ _transposed(basis), cross, _transposed(cross), mu)


def _after(linearization: Linearization, alpha: float | Array, schedule: PowerLaw, n: int) -> tuple[Array, Array]:
    """Cov((theta_n, mu_n)) / gamma_n and n Cov(average of f) after n steps of the linear recursion, from theta = 0.

    z = (theta, mu) moves as z' = (I + gamma A*) z + gamma e with e of covariance U, and the sum of f as
    sum' = sum - alpha C theta + e_f. mu is divided by the weight that it has given to steps, as by `Estimator`.

    Backward from the last step: what each e adds to z_n and to the sum. If the first steps are unstable, z is large for
    a while and falls again, and its covariance, computed forward, would lose all digits of the rest.
    """
    s, u = linearization.score_covariance, to_host(linearization.noise).astype(np.float64)
    d, (rho, scale) = s.shape[0], _numbers(schedule)
    drift = to_host(drift_matrix(linearization, alpha)).astype(np.float64)
    identity, gammas = np.eye(drift.shape[-1]), np.minimum(scale * (np.arange(1, n + 1) + schedule.offset) ** -rho, 1.0)
    _check_growth(gammas, drift[..., :d, :d])
    of_sum = drift[..., d:, :] * (np.arange(drift.shape[-1]) < d)  # -alpha C in the columns of theta
    to_end: Array = identity + 0 * drift
    to_sum: Array = 0 * of_sum
    z, total = np.zeros_like(drift), np.zeros((*drift.shape[:-2], *u[d:, d:].shape))
    for gamma in gammas[::-1]:
        z = z + gamma**2 * (to_end @ u @ _transposed(to_end))
        adds = gamma * to_sum + identity[d:, :]
        total = total + adds @ u @ _transposed(adds)
        step = identity + gamma * drift
        to_end, to_sum = to_end @ step, to_sum @ step + of_sum
    each = np.where(np.arange(drift.shape[-1]) < d, 1.0, 1 / (1 - np.prod(1 - gammas)))
    xp = array_namespace(s)
    both = (each[:, None] * z * each / gammas[-1], total / n)
    return tuple(xp.asarray(a, dtype=s.dtype, device=device_of(s)) for a in both)


def _check_growth(gammas: np.ndarray, drift: np.ndarray) -> None:
    """Raise HyperparameterError if theta grows so much in its first steps that no digit of the rest is right."""
    decay = -np.linalg.eigvalsh(drift)[..., None]
    with np.errstate(divide="ignore"):
        logs = np.cumsum(np.maximum(np.log(np.abs(1 - gammas * decay)), -700.0), axis=-1)
    growth = np.max(logs - np.minimum.accumulate(np.minimum(logs, 0.0), axis=-1))
    if growth > np.log(3e11):  # of 1e16 in double precision
        raise HyperparameterError(
            f"the first steps are unstable: gamma (1 + alpha lambda) is {gammas[0] * np.max(decay):.3g} (at most 2 is "
            f"stable; growth 10^{growth / np.log(10):.0f}). Use a smaller alpha or a larger offset."
        )


def _shift(schedule: PowerLaw) -> float:
    """The 1/2 of Eq. 13 for rho = 1: the limit of rho / (2 n gamma_n)."""
    rho, scale = _numbers(schedule)
    return 0.5 / scale if rho == 1 else 0.0


def _numbers(schedule: PowerLaw) -> tuple[float, float]:
    """rho and scale."""
    if not isinstance(schedule, PowerLaw) or np.size(to_host(schedule.rho)) != 1:
        raise HyperparameterError(f"the theory is for a PowerLaw with one rho; got {schedule}")
    return float(to_host(schedule.rho).reshape(())), float(schedule.scale)


def _mean_decay(shift: float) -> float:
    """1 - shift, the decay of mu."""
    if not shift < 1:
        raise HyperparameterError(
            "the weighted mean forgets its start too slowly for a CLT: with rho = 1 set a scale above 1/2"
        )
    return 1 - shift


def _strength(alpha: float | Array, like: Array) -> Array:
    """alpha as an array that broadcasts against matrices, (*alpha, 1, 1)."""
    strength = array_namespace(like).asarray(alpha, dtype=like.dtype, device=device_of(like))
    check_range("alpha", strength, 0, closed=True)
    return strength[..., None, None]


def _eye(like: Array, n: int | None = None) -> Array:
    return array_namespace(like).eye(n or like.shape[-1], dtype=like.dtype, device=device_of(like))


def _transposed(matrix: Array) -> Array:
    return array_namespace(matrix).matrix_transpose(matrix)


def _blocks(a: Array, b: Array, c: Array, d: Array) -> Array:
    """[[a, b], [c, d]]."""
    xp = array_namespace(a)
    return xp.concat([xp.concat([a, b], axis=-1), xp.concat([c, d], axis=-1)], axis=-2)
