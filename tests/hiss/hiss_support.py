"""The exact transition matrix of one sweep of HiSS on a few states: an own sum over proposals, quadrature over theta_a.

Nothing of `xpsample.hiss` is used, so that the two can be compared.
"""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Setting:
    """A target on listed states (states, dim) with its gradient there, and what HiSS is run with.

    `refinements` counts steps of DMALA with the step size `alpha`; `nodes` are those of the quadrature per coordinate.
    """

    states: np.ndarray
    energy: np.ndarray
    gradient: np.ndarray
    alpha: float = 0.5
    eta: float = 1.0
    refinements: int = 2
    nodes: int = 40
    pi: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        weights = np.exp(self.energy - self.energy.max())
        object.__setattr__(self, "pi", weights / weights.sum())


def cube(dim: int) -> np.ndarray:
    """{0, 1}^dim, (2^dim, dim)."""
    return np.array(list(product((0.0, 1.0), repeat=dim)))


def quadratic_cube(curvatures: Any, seed: int = 0, **settings: Any) -> Setting:
    """``U = -x' A x / 2 + b' x`` on {0, 1}^dim with A of the given eigenvalues, largest M and least m."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((len(curvatures),) * 2))[0]
    a, b = turn @ np.diag(curvatures) @ turn.T, rng.standard_normal(len(curvatures))
    states = cube(len(curvatures))
    return Setting(states, states @ b - 0.5 * np.sum(states @ a * states, axis=-1), b - states @ a, **settings)


def log_noise(setting: Setting, noisy: np.ndarray) -> np.ndarray:
    """Log of the logistic density of theta_a (points, dim) given each state, up to a constant: (points, states)."""
    z = (noisy[:, None, :] - setting.states) / setting.eta
    return -2.0 * np.sum(np.log(np.cosh(0.5 * z)), axis=-1)


def refinement(setting: Setting, noisy: np.ndarray) -> np.ndarray:
    """The matrices (points, states, states) of one DMALA step given theta_a: Eqs. 10 and 12, summed over proposals."""
    states = setting.states
    joint = setting.energy + log_noise(setting, noisy)
    slope = setting.gradient + np.tanh(0.5 * (noisy[:, None, :] - states) / setting.eta) / setting.eta
    moved = states[None, :, :] - states[:, None, :]  # from, to
    logits = 0.5 * np.einsum("pfi,fti->pft", slope, moved) - np.sum(moved**2, axis=-1) / (2.0 * setting.alpha)
    q = np.exp(logits)
    q /= q.sum(axis=-1, keepdims=True)
    flow = np.exp(joint - joint.max(axis=-1, keepdims=True))[..., None] * q
    step = q * np.minimum(1.0, np.swapaxes(flow, -1, -2) / flow)
    return _with_rejections(step)


def denoising(setting: Setting, noisy: np.ndarray) -> np.ndarray:
    """The matrices of the denoising proposal given theta_a, accepted by Eq. 8."""
    logs = log_noise(setting, noisy)
    q = np.exp(logs - logs.max(axis=-1, keepdims=True))
    q /= q.sum(axis=-1, keepdims=True)
    return _with_rejections(q[:, None, :] * np.minimum(1.0, setting.pi / setting.pi[:, None]))


def sweep(setting: Setting) -> np.ndarray:
    """The matrix (states, states) of noising, denoising and refining, theta_a integrated out."""
    dim = setting.states.shape[1]
    nodes, weights = np.polynomial.legendre.leggauss(setting.nodes)
    u = 0.5 * (nodes + 1.0)
    grid = np.array(list(product(np.log(u / (1.0 - u)), repeat=dim)))
    weights = np.prod(np.array(list(product(0.5 * weights, repeat=dim))), axis=-1)
    rows = []
    for i, state in enumerate(setting.states):
        noisy = state + setting.eta * grid
        row = denoising(setting, noisy)[:, i, :]
        step = refinement(setting, noisy)
        for _ in range(setting.refinements):
            row = np.einsum("pf,pft->pt", row, step)
        rows.append(weights @ row)
    return np.array(rows)


def _with_rejections(step: np.ndarray) -> np.ndarray:
    """Off the diagonal as given; on it what is missing to 1."""
    step = step * (1.0 - np.eye(step.shape[-1]))
    return step + np.eye(step.shape[-1]) * (1.0 - step.sum(axis=-1))[..., None]
