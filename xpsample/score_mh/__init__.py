"""Score-MH: score matching, and acceptance functions learned from scores, for any Metropolis-Hastings kernel."""

from xpsample.score_mh.activations import gelu, log_sigmoid, softplus
from xpsample.score_mh.balance import ScoreBalance, balance_residual, negative_entropy
from xpsample.score_mh.learned import Learned
from xpsample.score_mh.losses import Loss
from xpsample.score_mh.matching import AnnealedDenoising, Denoising, ExactTrace, Sliced, geometric_ladder
from xpsample.score_mh.networks import (
    AcceptanceNetwork,
    acceptance_network,
    conditional_acceptance_network,
    conditional_score_network,
    init_acceptance_network,
    init_score_network,
    score_network,
)
from xpsample.score_mh.proposals import CrankNicolson, Langevin, Proposal, RandomWalk
from xpsample.score_mh.store import load, save
from xpsample.score_mh.training import Fitted, fit

__all__ = [
    "AcceptanceNetwork",
    "AnnealedDenoising",
    "CrankNicolson",
    "Denoising",
    "ExactTrace",
    "Fitted",
    "Langevin",
    "Learned",
    "Loss",
    "Proposal",
    "RandomWalk",
    "ScoreBalance",
    "Sliced",
    "acceptance_network",
    "balance_residual",
    "conditional_acceptance_network",
    "conditional_score_network",
    "fit",
    "gelu",
    "geometric_ladder",
    "init_acceptance_network",
    "init_score_network",
    "load",
    "log_sigmoid",
    "negative_entropy",
    "save",
    "score_network",
    "softplus",
]
