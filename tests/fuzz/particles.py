"""Calls of what moves and weighs particles: good arguments, and what else an argument has a meaning for."""

import numpy as np

import xpsample as xps
from tests.fuzz.uses import (
    BETAS,
    COUNT,
    DRAWS,
    FLAG,
    FUNCTION,
    LADDER,
    NONE,
    NUMBER,
    PER_CHAIN,
    POSITIVE,
    RWM,
    STEP_SIZE,
    ZERO,
    Argument,
    Call,
    arg,
    array,
    as_loss,
    as_move,
    as_optimizer,
    density,
    on_family,
    on_levels,
    on_reals,
    potential,
    real,
)
from xpsample import sosmc
from xpsample.optimize import CosineDecay
from xpsample.particles.pcd import PCD
from xpsample.sosmc import EnergyModel, LangevinMove, Multinomial, RowBatches, SingleChain


def particles() -> list[Call]:
    """Of particle methods and their optimisers."""
    return [
        # ---- particles
        Call("AIS", xps.AIS, {"base": RWM, "betas": BETAS, "approximate": arg(False, FLAG)}, on_reals),
        Call(
            "TemperedSMC",
            xps.TemperedSMC,
            {
                "base": RWM,
                "betas": BETAS,
                "ess": arg(None, {"none"}),
                "threshold": arg(0.5, {"share", "one", "float one"} | ZERO),
                "resampling": arg(Multinomial(), NONE),
            },
            on_reals,
        ),
        Call(
            "TemperedSMC by ess",
            lambda ess: xps.TemperedSMC(xps.RWM(0.5), ess=ess),
            {"ess": arg(0.5, {"share"})},
            on_reals,
        ),
        Call(
            "SVGD",
            xps.SVGD,
            {"step_size": STEP_SIZE, "kernel": arg(xps.RBF(1.0), NONE), "adagrad": arg(xps.AdaGrad(), {"none"})},
            on_reals,
        ),
        Call(
            "StochasticSVGD", xps.StochasticSVGD, {"step_size": STEP_SIZE, "kernel": arg(xps.RBF(1.0), NONE)}, on_reals
        ),
        Call(
            "AdaGrad",
            xps.AdaGrad,
            {"decay": arg(0.9, {"share", "zero", "float zero"}), "offset": arg(1e-6, POSITIVE)},
            lambda made, lib: on_reals(xps.SVGD(0.1, xps.RBF(1.0), made), lib),
        ),
        Call(
            "Annealed",
            xps.Annealed,
            {
                "base": arg(xps.ULA(0.1), NONE),
                "sigmas": arg((1.0, 0.5), {"numbers"}),
                "steps": arg(1, COUNT),
                "units": arg((1.0, 0.5), LADDER | {"none"}),
            },
            on_levels,
        ),
        Call("geometric_ladder", xps.geometric_ladder, {"rungs": arg(3, {"whole"}), "hottest": arg(0.1, {"share"})}),
        Call(
            "Ladder",
            xps.Ladder,
            {"rungs": arg(3, {"whole", "none"}), "hottest": arg(0.1, {"share"} | ZERO)},
        ),
        Call(
            "annealing_ladder",
            xps.annealing_ladder,
            {
                "state": Argument(
                    lambda lib: on_reals(xps.ParallelTempering(xps.RWM(0.5), (1, 0.5, 0)), lib).state, NONE
                ),
                "rungs": arg(3, {"whole"}),
            },
        ),
        Call(
            "log_normalizer",
            xps.log_normalizer,
            {
                "log_weights": array(
                    [0.0, -1.0, -2.0], DRAWS | {"chains32", "integers", "narrow", "wide", "foreign", "deep"}
                ),
                "initial_log_normalizer": arg(0.0, NUMBER | {"huge", "negative", "zero", "float zero"}),
            },
        ),
        Call(
            "particle_log_normalizer",
            xps.particle_log_normalizer,
            {
                "state": Argument(lambda lib: on_reals(xps.TemperedSMC(xps.RWM(0.5), (0, 1)), lib).state, NONE),
                "initial_log_normalizer": arg(0.0, NUMBER | {"huge", "negative", "zero", "float zero"}),
            },
        ),
        Call(
            "SOSMC",
            xps.SOSMC,
            {
                "loss": arg(sosmc.MarginalLikelihood(), FUNCTION),
                "move": arg(LangevinMove(0.1), {"kernel"}),
                "optimizer": arg(sosmc.SGD(0.1), NONE),
                "threshold": arg(0.5, {"share", "one", "float one"} | ZERO),
                "resampling": arg(Multinomial(), NONE),
                "adapt_move": arg(None, {"none"}),
                "adapt_optimizer": arg(None, {"none"}),
            },
            on_family,
        ),
        Call(
            "Adaptation",
            sosmc.Adaptation,
            {
                "threshold": arg(0.95, {"share", "one", "float one"} | ZERO),
                "factor": arg(1.5, {"above", "whole", "huge"}),
                "least": arg(0.0, {"share"} | ZERO),
                "most": arg(1.0, POSITIVE | {"inf"}),
            },
        ),
        Call(
            "LangevinMove",
            LangevinMove,
            {
                "step_size": STEP_SIZE,
                "noise_scale": arg(1.0, POSITIVE),
                "drift": arg(None, FUNCTION | {"none"}),
            },
            as_move,
        ),
        Call("SingleChain", SingleChain, {"step_size": STEP_SIZE, "burn_in": arg(1, COUNT | {"zero"})}, as_move),
        Call("Unweighted", sosmc.Unweighted, {"move": arg(LangevinMove(0.1), NONE)}, as_move),
        Call("Reversible", sosmc.Reversible, {"kernel": RWM}, as_move),
        Call("EnergyModel", EnergyModel, {"data": Argument(lambda lib: RowBatches(real(lib)), NONE)}, as_loss),
        Call(
            "RewardForwardKL",
            sosmc.RewardForwardKL,
            {
                "reward": arg(density, FUNCTION),
                "beta": arg(0.5, POSITIVE | ZERO),
                "reference": Argument(lambda lib: RowBatches(real(lib)), NONE),
            },
            as_loss,
        ),
        Call(
            "RewardReverseKL",
            sosmc.RewardReverseKL,
            {"reward": arg(density, FUNCTION), "beta": arg(0.5, PER_CHAIN | ZERO)},
            as_loss,
        ),
        Call("Expectation", sosmc.Expectation, {"h": arg(lambda x, p: x - p, FUNCTION)}, as_loss),
        Call("Surrogate", sosmc.Surrogate, {"function": arg(lambda p, x, w: (p * p).sum(), FUNCTION)}, as_loss),
        Call(
            "RowBatches",
            RowBatches,
            {"rows": Argument(real, {"positions", "matrix", "square"}), "size": arg(2, COUNT | {"none"})},
            lambda made, lib: as_loss(EnergyModel(made), lib),
        ),
        Call(
            "DrawnBatches",
            sosmc.DrawnBatches,
            {
                "numbers": arg({"u": xps.RWM(1.0).noise(np.zeros((5, 2)))["proposal"]}, NONE),
                "function": arg(lambda u: u, FUNCTION),
            },
            lambda made, lib: as_loss(EnergyModel(made), lib),
        ),
        Call(
            "SOSMCHistory",
            sosmc.SOSMCHistory,
            {"means": arg({"m": density}, {"empty"}), "parameters": arg(True, FLAG), "name": arg("history", {"text"})},
            lambda made, lib: xps.sample(
                xps.Parametric(potential, np.zeros(2)),
                xps.SOSMC(sosmc.MarginalLikelihood(), LangevinMove(0.1), sosmc.SGD(0.1)),
                real(lib),
                2,
                seed=0,
                recorders=[made],
                progress=False,
            ),
        ),
        Call(
            "PCD",
            PCD,
            {
                "data": Argument(lambda lib: RowBatches(real(lib)), NONE),
                "optimizer": arg(sosmc.SGD(0.1), NONE),
                "step_size": arg(0.1, POSITIVE),
                "steps": arg(1, COUNT),
                "blocks": arg(1, COUNT),
                "refresh": arg(0.5, {"share", "one", "float one"} | ZERO),
                "low": arg(-2.0, NUMBER | ZERO | {"negative"}),
                "high": arg(2.0, NUMBER | ZERO | {"huge"} | {"negative"}),
                "energy_penalty": arg(0.0, POSITIVE | ZERO),
                "gradient_penalty": arg(0.0, POSITIVE | ZERO),
            },
            on_family,
        ),
        # ---- optimisers
        Call(
            "SGD",
            sosmc.SGD,
            {"learning_rate": arg(0.1, POSITIVE), "momentum": arg(0.5, {"share", "zero", "float zero"})},
            as_optimizer,
        ),
        Call(
            "Adam",
            sosmc.Adam,
            {
                "learning_rate": arg(0.1, POSITIVE),
                "beta1": arg(0.9, {"share", "zero", "float zero"}),
                "beta2": arg(0.9, {"share", "zero", "float zero"}),
                "epsilon": arg(1e-8, POSITIVE),
            },
            as_optimizer,
        ),
        Call(
            "Averaged",
            sosmc.Averaged,
            {"optimizer": arg(sosmc.SGD(0.1), NONE), "decay": arg(0.9, {"share", "zero", "float zero"})},
            as_optimizer,
        ),
        Call(
            "Clipped",
            sosmc.Clipped,
            {"optimizer": arg(sosmc.SGD(0.1), NONE), "max_norm": arg(1.0, POSITIVE), "runs": arg(0, {"zero", "one"})},
            as_optimizer,
        ),
        Call(
            "CosineDecay",
            CosineDecay,
            {"optimizer": arg(sosmc.SGD(0.1), NONE), "steps": arg(10, COUNT)},
            as_optimizer,
        ),
    ]
