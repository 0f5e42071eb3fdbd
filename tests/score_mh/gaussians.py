"""A Gaussian whose Metropolis-Hastings ratio is known in closed form, for every proposal."""

import numpy as np
from array_api_compat import array_namespace

from xpsample.score_mh import CrankNicolson, LangevinProposal, RandomWalk, log_sigmoid

MEAN = np.array([0.4, -0.7])
PRECISION = np.array([[1.3, 0.4], [0.4, 0.8]])
GAUSSIAN = {"mean": MEAN, "precision": PRECISION}
PROPOSALS = {"RWM": RandomWalk(0.8), "MALA": LangevinProposal(0.3), "PCN": CrankNicolson(0.6)}


def log_density(x, p):
    d = x - p["mean"]
    return -0.5 * array_namespace(x).sum(d * (d @ p["precision"]), axis=-1)


def score(x, p):
    return -(x - p["mean"]) @ p["precision"]


def log_ratio(x_new, x, p, proposal):
    """log r(x', x), by the log densities."""
    back, there = proposal.log_density(x, x_new, score(x_new, p)), proposal.log_density(x_new, x, score(x, p))
    return log_density(x_new, p) - log_density(x, p) + back - there


def metropolis_hastings(proposal, divisor=1.0):
    """log min(1, r) - log divisor (Eq. 5 and Prop. 3)."""

    def log_acceptance(x_new, x, p):
        log_r = log_ratio(x_new, x, p, proposal)
        return array_namespace(x).where(log_r < 0.0, log_r, 0.0) - float(np.log(divisor))

    return log_acceptance


def barker(proposal, divisor=1.0):
    """The logit of r / (1 + r) / divisor, which satisfies detailed balance as well: of log r where divisor is 1."""

    def network(x_new, x, p):
        log_r = log_ratio(x_new, x, p, proposal)
        if divisor == 1.0:
            return log_r
        log_a = log_sigmoid(log_r) - float(np.log(divisor))
        xp = array_namespace(x)
        return log_a - xp.log(-xp.expm1(log_a))

    return network


def placed(library, p=GAUSSIAN):
    return {name: library.array(value) for name, value in p.items()}


def pairs(rows=50, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 2)) * 1.5, rng.standard_normal((rows, 2)) * 1.5
