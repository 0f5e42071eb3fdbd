"""Stochastic optimisation via sequential Monte Carlo, with the parts of particle methods that it takes."""

from xpsample.optimize.optimizers import SGD, Adam, Averaged, Clipped, Optimizer
from xpsample.particles.batches import Batches, DrawnBatches, RowBatches
from xpsample.particles.resampling import Multinomial, Resampling, Residual, Stratified, Systematic
from xpsample.particles.weights import Weights, effective_sample_size
from xpsample.sosmc.history import SOSMCHistory
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
from xpsample.sosmc.moves import LangevinMove, Move, Reversible, Unweighted
from xpsample.sosmc.single_chain import SingleChain

__all__ = [
    "SGD",
    "SOSMC",
    "Adam",
    "Adaptation",
    "Averaged",
    "Batches",
    "Clipped",
    "DrawnBatches",
    "EnergyModel",
    "Expectation",
    "LangevinMove",
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
    "RowBatches",
    "SOSMCHistory",
    "SOSMCState",
    "SingleChain",
    "Stratified",
    "Surrogate",
    "Systematic",
    "Unweighted",
    "Weights",
    "effective_sample_size",
]
