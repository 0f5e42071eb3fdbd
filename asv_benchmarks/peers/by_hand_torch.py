"""MALA and HMC written for torch by hand: eager under no_grad, noise in blocks; gradients by formula or autograd."""

import numpy as np
import torch

from asv_benchmarks.peers import density_torch
from asv_benchmarks.peers.problems import LEAPFROGS, Work

LIBRARY, DTYPE = "torch", "float32"
SCORES = [("analytic", "analytic"), ("autodiff", "autodiff")]
MOST_CHAINS = 1000
BLOCK = 2**18
"""Numbers drawn at once."""


def build(work: Work, score_by: str):
    start = torch.tensor(work.start, dtype=torch.float32)
    rows = torch.tensor(work.rows, dtype=torch.float32)
    chains, dim = start.shape
    both, score = (density_torch.both, density_torch.score) if score_by == "analytic" else (_both, _score)
    advance = _mala if work.kernel == "mala" else _hmc
    block = max(1, BLOCK // start.numel())

    @torch.no_grad()
    def run(seed: int):
        generator = torch.Generator().manual_seed(seed)
        draws = torch.empty((work.draws, chains, dim))
        acceptance, moved, diverged = torch.zeros(chains), torch.zeros(chains), torch.zeros(chains)
        x = start.clone()
        log_density, gradient = both(x, rows)
        for first in range(0, work.draws, block):
            steps = min(block, work.draws - first)
            normals = torch.randn((steps, chains, dim), generator=generator)
            log_uniforms = torch.rand((steps, chains), generator=generator).log_()
            for i, (xi, log_uniform) in enumerate(zip(normals.unbind(), log_uniforms.unbind(), strict=True)):
                y, y_log_density, y_gradient, log_ratio = advance(
                    both, score, x, log_density, gradient, rows, xi, work.step_size
                )
                accept = log_uniform < log_ratio
                column = accept[:, None]
                x = torch.where(column, y, x)
                log_density = torch.where(accept, y_log_density, log_density)
                gradient = torch.where(column, y_gradient, gradient)
                draws[first + i] = x
                acceptance += log_ratio.clamp(max=0).exp_()
                moved += accept
                diverged += ~(log_ratio > -1000)
        return draws, np.asarray(acceptance / work.draws)

    return run


def _both(x, rows):
    with torch.enable_grad():
        tracked = x.detach().requires_grad_()
        log_density = density_torch.log_density(tracked, rows)
        (gradient,) = torch.autograd.grad(log_density.sum(), tracked)
    return log_density.detach(), gradient


def _score(x, rows):
    return _both(x, rows)[1]


def _mala(both, score, x, log_density, gradient, rows, xi, eta):
    half = (0.5 * eta) ** 0.5
    y = torch.add(x, gradient, alpha=eta).add_(xi, alpha=(2 * eta) ** 0.5)
    y_log_density, y_gradient = both(y, rows)
    back = torch.add(xi, gradient + y_gradient, alpha=half)
    log_ratio = (y_log_density - log_density).add_((xi * xi - back * back).sum(dim=-1), alpha=0.5)
    return y, y_log_density, y_gradient, log_ratio


def _hmc(both, score, x, log_density, gradient, rows, momentum, eta):
    p = torch.add(momentum, gradient, alpha=0.5 * eta)
    y = torch.add(x, p, alpha=eta)
    for _ in range(LEAPFROGS - 1):
        p.add_(score(y, rows), alpha=eta)
        y.add_(p, alpha=eta)
    y_log_density, y_gradient = both(y, rows)
    p.add_(y_gradient, alpha=0.5 * eta)
    log_ratio = (y_log_density - log_density).add_((momentum * momentum - p * p).sum(dim=-1), alpha=0.5)
    return y, y_log_density, y_gradient, log_ratio
