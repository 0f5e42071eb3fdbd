"""Stochastic optimisation via sequential Monte Carlo, and the parts of particle methods that it is made of."""

from xpsample.sosmc.batches import Batches, Draws, Rows
from xpsample.sosmc.history import History
from xpsample.sosmc.kernel import SOSMC, Adaptation, SOSMCState
from xpsample.sosmc.losses import (
    EnergyModel,
    Expectation,
    Loss,
    MarginalLikelihood,
    RewardForwardKL,
    RewardReverseKL,
    Surrogate,
)
from xpsample.sosmc.moves import Langevin, Move, Reversible, Unweighted
from xpsample.sosmc.optimizers import SGD, Adam, Clipped, Optimizer
from xpsample.sosmc.resampling import Multinomial, Resampling, Residual, Stratified, Systematic
from xpsample.sosmc.single_chain import SingleChain
from xpsample.sosmc.weights import Weights, effective_sample_size

__all__ = [
    "SGD",
    "SOSMC",
    "Adam",
    "Adaptation",
    "Batches",
    "Clipped",
    "Draws",
    "EnergyModel",
    "Expectation",
    "History",
    "Langevin",
    "Loss",
    "MarginalLikelihood",
    "Move",
    "Multinomial",
    "Optimizer",
    "Resampling",
    "Residual",
    "Reversible",
    "RewardForwardKL",
    "RewardReverseKL",
    "Rows",
    "SOSMCState",
    "SingleChain",
    "Stratified",
    "Surrogate",
    "Systematic",
    "Unweighted",
    "Weights",
    "effective_sample_size",
]
