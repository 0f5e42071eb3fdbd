"""Score-MH: score matching, and acceptance functions that are learned from scores, for Metropolis-Hastings kernels."""

from xpsample.score_mh.activations import gelu, log_sigmoid, softplus
from xpsample.score_mh.balance import ScoreBalance, balance_residual, negative_entropy
from xpsample.score_mh.diffusion import (
    DiffusionSchedule,
    NoisePrediction,
    cosine_betas,
    diffusion_target,
    linear_betas,
    variance_exploding,
    variance_preserving,
)
from xpsample.score_mh.learned import Learned
from xpsample.score_mh.losses import TrainingLoss
from xpsample.score_mh.matching import AnnealedDenoising, Denoising, ExactTrace, Sliced, geometric_noise_levels
from xpsample.score_mh.networks import (
    AcceptanceNetwork,
    acceptance_network,
    conditional_acceptance_network,
    conditional_score_network,
    init_acceptance_network,
    init_score_network,
    score_network,
)
from xpsample.score_mh.proposals import CrankNicolson, LangevinProposal, Proposal, RandomWalk
from xpsample.score_mh.store import load_parameters, save_parameters
from xpsample.score_mh.training import Fitted, fit

__all__ = [
    "AcceptanceNetwork",
    "AnnealedDenoising",
    "CrankNicolson",
    "Denoising",
    "DiffusionSchedule",
    "ExactTrace",
    "Fitted",
    "LangevinProposal",
    "Learned",
    "NoisePrediction",
    "Proposal",
    "RandomWalk",
    "ScoreBalance",
    "Sliced",
    "TrainingLoss",
    "acceptance_network",
    "balance_residual",
    "conditional_acceptance_network",
    "conditional_score_network",
    "cosine_betas",
    "diffusion_target",
    "fit",
    "gelu",
    "geometric_noise_levels",
    "init_acceptance_network",
    "init_score_network",
    "linear_betas",
    "load_parameters",
    "log_sigmoid",
    "negative_entropy",
    "save_parameters",
    "score_network",
    "softplus",
    "variance_exploding",
    "variance_preserving",
]
