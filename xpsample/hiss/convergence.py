"""Lower bound on the convergence rate of HiSS: Theorem 5.5 in the form that holds."""

import math

from xpsample.core.checks import check_number
from xpsample.core.errors import HyperparameterError


def minorization(
    lipschitz: float,
    concavity: float,
    diameter: float,
    spread: float,
    gradient: float,
    step_size: float,
    scale: float,
) -> float:
    r"""Lower bound on the share of its state that a sweep of ``HiSS(DMALA(step_size), scale)`` redraws, from any state.

    From any state, a step of `DMALA` on the distribution of x given theta_a goes to x' with probability at least
    ``epsilon nu(x')``, with one distribution ``nu`` proportional to ``exp(U / 2)`` for every theta_a. The same holds
    for a sweep with at least one refinement, and k draws of G sweeps are within ``(1 - epsilon)^(k G)`` of the target
    in total variation. This is Theorem 5.5 with the sign of its term in 1 / scale put right, and a larger epsilon.

    Parameters
    ----------
    lipschitz, concavity : float
        M and m: all eigenvalues of the Hessian of U = log pi on the convex hull of the states are in [-M, -m]. The
        paper asks for m > 0 (Assumption 5.2), and here m may be negative.
    diameter, spread : float
        The largest distance of two states in the Euclidean norm, and in the l1 norm.
    gradient : float
        The least norm of the gradient of U at a state.
    step_size : float
        alpha of `DMALA`, below 2 / M.
    scale : float
        eta of `HiSS`, with logistic noise.

    Returns
    -------
    float
        epsilon, in (0, 1]. It is a guarantee and no estimate: it can be as small as exp(-100) where a chain mixes well.

    Raises
    ------
    HyperparameterError
        If a value is out of range, or ``step_size`` is not below ``2 / lipschitz``.

    Notes
    -----
    With D the diameter, Delta the spread and g the gradient,

    .. math:: \log \epsilon = -\Bigl(\frac1\alpha - \frac m2 + \frac{M - m}4 + \frac M2 - \frac{\min(m, 0)}4\Bigr) D^2
        - \frac{g D}2 - \frac{3 \Delta}\eta .

    The proposal from x to x' has at least the share ``exp(U(x') / 2)``, up to
    ``exp(-(1 / (2 alpha) - m / 4) D^2 - Delta / eta)``. The ratio of its acceptance loses the same for the normalizers,
    Delta / eta for the noise and ``(M - m) D^2 / 4`` for the part of U that the gradients at both ends miss. The
    remainder, ``exp((U(x') - U(x)) / 2)``, is at least its value for the largest U, which the gradient bounds.

    Examples
    --------
    >>> from xpsample.hiss.convergence import minorization
    >>> epsilon = minorization(1.0, 1.0, 2.0, 4.0, 0.0, step_size=1.9, scale=4.0)
    >>> f"{epsilon:.5f}"
    '0.00606'
    """
    lipschitz = check_number("lipschitz", lipschitz, 0)
    concavity = check_number("concavity", concavity, -lipschitz, lipschitz, closed=True)
    diameter = check_number("diameter", diameter, 0)
    spread = check_number("spread", spread, diameter, closed=True)
    gradient = check_number("gradient", gradient, 0, closed=True)
    step_size, scale = check_number("step_size", step_size, 0), check_number("scale", scale, 0)
    if step_size * lipschitz >= 2.0:
        raise HyperparameterError(f"step_size must be below 2 / lipschitz = {2.0 / lipschitz:g}; got {step_size:g}")
    curvature = 1.0 / step_size - concavity / 2 + (lipschitz - concavity) / 4 + lipschitz / 2 - min(concavity, 0.0) / 4
    return math.exp(-curvature * diameter**2 - gradient * diameter / 2 - 3.0 * spread / scale)
