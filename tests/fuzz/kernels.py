"""Calls of kernels, of particle methods and of what they hold: good arguments, and what else has a meaning."""

import numpy as np

import xpsample as xps
from tests.fuzz import uses
from tests.fuzz.uses import Argument, Call, arg, array, call
from xpsample import sosmc, srld, srmc
from xpsample.kernels import Cosine, Table
from xpsample.optimize import CosineDecay
from xpsample.particles.pcd import PCD
from xpsample.sosmc import EnergyModel, LangevinMove, RowBatches, SingleChain


def kernels() -> list[Call]:
    """Of kernels for single chains."""
    alike = (xps.RWM, xps.ULA, xps.MALA, xps.MAMS, xps.MCLMC, xps.UnderdampedLangevin, xps.SGNHT, xps.IndependentMH)
    alike += (xps.EllipticalSlice, xps.Slice)
    return [
        *(call(kernel, uses.on_reals) for kernel in alike),
        call(xps.HMC, uses.on_reals, steps=arg(2, "COUNT, none"), length=""),
        call(lambda length: xps.HMC(0.5, length=length), uses.on_reals, called="HMC by length"),
        call(xps.NUTS, uses.on_reals, max_depth=arg(3, "COUNT, none")),
        call(xps.DelayedAcceptance, uses.on_bridges),
        call(xps.PCN, uses.on_reals, beta=arg(0.5, "none, SHARE, UP_TO_ONE")),
        call(xps.Ensemble, uses.on_walkers),
        call(xps.Stretch, lambda made, lib: uses.on_walkers(xps.Ensemble(made), lib), scale=arg(2.0, "POSITIVE")),
        call(
            xps.DifferentialEvolution,
            lambda made, lib: uses.on_walkers(xps.Ensemble(made), lib),
            gamma=arg(0.5, "POSITIVE, none"),
        ),
        call(
            xps.MYULA,
            uses.on_reals,
            regularizer=arg(xps.L1(), ""),
            smoothing=uses.STEP_SIZE,
            strength="PER_CHAIN, ZERO, FUNCTION",
        ),
        call(
            xps.PolynomialDecay,
            lambda made, lib: uses.on_reals(xps.ULA(made), lib),
            power=arg(0.5, "PER_CHAIN, ZERO"),
            offset="PER_CHAIN, ZERO",
        ),
        call(xps.CosineCycles, lambda made, lib: uses.on_reals(xps.ULA(made), lib), length=arg(3, "COUNT")),
        call(xps.Minibatch, uses.on_rows, base=arg(xps.ULA(0.1), "")),
        call(xps.ParallelTempering, uses.on_reals, betas=arg((1.0, 0.5), "numbers, none")),
        call(xps.DMALA, uses.on_ones, balance="PER_CHAIN, ZERO"),
        call(xps.DULA, uses.on_ones),
        call(xps.GWG, uses.on_ones, temperature="PER_CHAIN, ZERO"),
        call(xps.ChromaticGibbs, uses.on_ones, colors=arg((0, 1, 0), "whole numbers, integers")),
        call(xps.Sweep, uses.on_ones),
        call(xps.LocallyBalanced, uses.on_ones),
        call(
            Cosine,
            lambda made, lib: uses.on_ones(xps.ACS(made), lib),
            length=arg(4, "COUNT"),
            balance=arg(0.9, "PER_CHAIN, ZERO"),
        ),
        call(
            Table,
            lambda made, lib: uses.on_ones(xps.ACS(made), lib),
            step_sizes=array([0.5, 0.6, 0.7, 0.8], "chains, integers, vector"),
            balances=array([0.5, 0.6, 0.7, 0.8], "chains, zeros, integers, vector"),
        ),
        call(xps.ACS, uses.on_ones, cycle=arg(Cosine(0.5, 4), "none")),
        call(
            xps.HiSS,
            uses.on_ones,
            base=arg(xps.SingleFlip(), ""),
            sweeps=arg(1, "COUNT"),
            refinements=arg(1, "COUNT, zero"),
        ),
        call(
            xps.SRMC,
            uses.on_reals,
            base=arg(xps.MALA(0.1), "kernel"),
            alpha=arg(1.0, "PER_CHAIN, ZERO"),
            tilt=arg(xps.Exact(), "none"),
            theta="VECTOR, positions, number, chains",
        ),
        call(
            xps.PowerLaw, uses.as_schedule, rho="SHARE, UP_TO_ONE", scale=arg(1.0, "POSITIVE"), offset="POSITIVE, ZERO"
        ),
        call(
            srmc.Stable,
            uses.as_schedule,
            autocorrelation=arg(srmc.Constant(0.0), ""),
            eigenvalues="NUMBER, ZERO, huge, chains, vector, triple, number",
            kappa="UP_TO_ONE",
        ),
        call(srmc.Constant, uses.as_autocorrelation, value="SHARE, one, float one, negative, negatives, ZERO"),
        call(srmc.LangevinAutocorrelation, uses.as_autocorrelation),
        call(srmc.LeapfrogAutocorrelation, uses.as_autocorrelation),
        call(lambda kernel: srmc.autocorrelation(kernel), called="autocorrelation"),
        call(
            srmc.Adaptive,
            uses.as_strength,
            reference=arg(1.0, "PER_CHAIN, ZERO"),
            warmup=arg(2, "COUNT"),
            fraction="share",
            threshold=arg(1.0, "POSITIVE, inf"),
        ),
        call(srmc.warmup_steps, budget=arg(1000, "COUNT"), leapfrog_steps="COUNT"),
        call(
            srmc.Repellence,
            uses.as_srmc_recorder,
            limit="POSITIVE",
            share="UP_TO_ONE",
            least_acceptance="UP_TO_ONE, ZERO",
        ),
        call(srmc.Estimator, uses.as_srmc_recorder, function=arg(lambda x: x, "FUNCTION")),
        call(
            xps.SRLD,
            uses.on_reals,
            base=arg(xps.ULA(0.1), "kernel"),
            alpha=arg(1.0, "PER_CHAIN, ZERO, none"),
            history=arg(xps.Rolling(1), ""),
            kernel=arg(xps.RBF(1.0), ""),
        ),
        call(xps.Rolling, uses.as_history),
        call(xps.Thinned, uses.as_history),
        call(
            srld.Balanced,
            lambda made, lib: uses.on_reals(xps.SRLD(xps.ULA(0.1), made, xps.Rolling(1), xps.RBF(1.0)), lib),
            scale=arg(1.0, "PER_CHAIN, ZERO"),
        ),
        call(xps.RBF, uses.as_pair_kernel),
        call(xps.InverseMultiquadric, uses.as_pair_kernel, power="negative"),
    ]


def particles() -> list[Call]:
    """Of particle methods and their optimisers."""
    return [
        # ---- particles
        call(xps.AIS, uses.on_reals),
        call(xps.TemperedSMC, uses.on_reals),
        *(
            call(
                method,
                lambda made, library: xps.start(uses.gaussian(), library.array(np.zeros(2)), 3, seed=0, method=made),
                paths=arg(2, "COUNT"),
                steps=arg(5, "COUNT"),
                history=arg(3, "COUNT"),
                draws=arg(30, "whole"),
            )
            for method in (xps.Pathfinder, xps.Laplace)
        ),
        call(
            lambda ess: xps.TemperedSMC(xps.RWM(0.5), ess=ess, moves=1),
            uses.on_reals,
            called="TemperedSMC by ess",
            ess=arg(0.5, "share"),
        ),
        call(xps.SVGD, uses.on_reals, kernel=arg(xps.RBF(1.0), ""), adagrad=arg(xps.AdaGrad(), "none")),
        call(xps.StochasticSVGD, uses.on_reals, kernel=arg(xps.RBF(1.0), "")),
        call(xps.AdaGrad, lambda made, lib: uses.on_reals(xps.SVGD(0.1, xps.RBF(1.0), made), lib), offset="POSITIVE"),
        call(
            xps.Annealed,
            uses.on_levels,
            base=arg(xps.ULA(0.1), ""),
            sigmas=arg((1.0, 0.5), "numbers"),
            units=arg((1.0, 0.5), "LADDER, none"),
        ),
        call(xps.geometric_ladder, hottest=arg(0.1, "share")),
        call(xps.Ladder, rungs=arg(3, "whole, none"), hottest=arg(0.1, "share, ZERO")),
        call(
            xps.annealing_ladder,
            state=Argument(lambda lib: uses.on_reals(xps.ParallelTempering(xps.RWM(0.5), (1, 0.5, 0)), lib).state, ""),
        ),
        call(
            xps.log_normalizer,
            log_weights=array([0.0, -1.0, -2.0], "DRAWS, chains32, integers, narrow, wide, foreign, deep"),
        ),
        call(
            xps.particle_log_normalizer,
            state=Argument(lambda lib: uses.on_reals(xps.TemperedSMC(xps.RWM(0.5), (0, 1), moves=1), lib).state, ""),
        ),
        call(
            xps.SOSMC,
            uses.on_family,
            loss=arg(sosmc.MarginalLikelihood(), "FUNCTION"),
            move=arg(LangevinMove(0.1), "kernel"),
            initial="FUNCTION",
        ),
        call(
            sosmc.Adaptation,
            threshold="UP_TO_ONE, ZERO",
            factor=arg(1.5, "above, whole, huge"),
            least="share, ZERO",
            most=arg(1.0, "POSITIVE, inf"),
        ),
        call(LangevinMove, uses.as_move, noise_scale="POSITIVE", drift="FUNCTION"),
        call(sosmc.UnderdampedMove, uses.as_move, friction=arg(1.0, "PER_CHAIN, ZERO")),
        call(SingleChain, uses.as_move, burn_in=arg(1, "COUNT, zero")),
        call(sosmc.Unweighted, uses.as_move, move=arg(LangevinMove(0.1), "")),
        call(sosmc.Reversible, uses.as_move),
        call(EnergyModel, uses.as_loss, data=uses.ROWS),
        call(sosmc.RewardForwardKL, uses.as_loss, beta=arg(0.5, "POSITIVE, ZERO"), reference=uses.ROWS),
        call(sosmc.RewardReverseKL, uses.as_loss, beta=arg(0.5, "PER_CHAIN, ZERO"), reference="vector"),
        call(sosmc.Expectation, uses.as_loss, h=arg(lambda x, p: x - p, "FUNCTION")),
        call(sosmc.Surrogate, uses.as_loss, function=arg(lambda p, x, w: (p * p).sum(), "FUNCTION")),
        call(
            RowBatches,
            lambda made, lib: uses.as_loss(EnergyModel(made), lib),
            rows=Argument(uses.real, "positions, matrix, square"),
            size=arg(2, "COUNT, none"),
        ),
        call(
            sosmc.DrawnBatches,
            lambda made, lib: uses.as_loss(EnergyModel(made), lib),
            numbers=arg({"u": xps.RWM(1.0).noise(np.zeros((5, 2)))["proposal"]}, ""),
            function=arg(lambda u: u, "FUNCTION"),
        ),
        call(
            sosmc.SOSMCHistory,
            lambda made, lib: xps.sample(
                xps.Parametric(uses.potential, np.zeros(2)),
                xps.SOSMC(sosmc.MarginalLikelihood(), LangevinMove(0.1), sosmc.SGD(0.1)),
                uses.real(lib),
                2,
                seed=0,
                recorders=[made],
                progress=False,
            ),
            means=arg({"m": uses.density}, "empty, none"),
            parameters="FLAG",
        ),
        call(
            PCD,
            uses.on_family,
            data=uses.ROWS,
            step_size=arg(0.1, "POSITIVE"),
            blocks="COUNT",
            refresh=arg(0.5, "UP_TO_ONE, ZERO"),
            low=arg(-2.0, "NUMBER, ZERO, negative"),
            high=arg(2.0, "NUMBER, ZERO, huge, negative"),
            energy_penalty="POSITIVE, ZERO",
            gradient_penalty="POSITIVE, ZERO",
        ),
        # ---- optimisers
        call(sosmc.SGD, uses.as_optimizer, momentum=arg(0.5, "BELOW_ONE")),
        call(sosmc.Adam, uses.as_optimizer, beta1="BELOW_ONE", beta2=arg(0.9, "BELOW_ONE"), epsilon="POSITIVE"),
        call(sosmc.Averaged, uses.as_optimizer),
        call(sosmc.Clipped, uses.as_optimizer, max_norm=arg(1.0, "POSITIVE"), runs="zero, one"),
        call(CosineDecay, uses.as_optimizer),
    ]
