"""Public constructors and entry points: good arguments, and what else an argument has a meaning for."""

import numpy as np

import xpsample as xps
from tests.fuzz import uses
from tests.fuzz.kernels import kernels, particles
from tests.fuzz.uses import Argument, Call, arg, array, call
from xpsample import metrics, score_mh, sosmc, srmc
from xpsample.sosmc import LangevinMove
from xpsample.targets import LineIntegral, Taylor, check_gradient

METRIC: dict[str, str] = {"scores": "FLAG", "inverse": "FLAG"}
RUN = {
    "draws": arg(3, "COUNT"),
    "warmup": arg(0, "zero, none"),
    "burn_in": "COUNT, zero",
    "thinning": "COUNT",
    "recorders": arg((xps.Draws(),), "empty"),
    "checkpoint": "text",
    "progress": arg(False, "FLAG, none"),
    "shards": "COUNT",
    "callbacks": "empty",
}


def _others(folder: str) -> list[Call]:
    """Of all but kernels and particles."""
    return [
        # ---- runs
        call(uses.sampled, **RUN),
        call(xps.Sampler, lambda made, lib: made(0), **RUN),
        call(uses.first_step, warmup=arg(0, "zero, none")),
        call(
            xps.start,
            like=array([0.0, 1.0], "vector, triple, chains, chains32, zeros, negatives, foreign"),
            chains=arg(3, "COUNT, whole numbers, empty"),
            scale=arg(2.0, "NUMBER, huge, number, integer, vector"),
        ),
        call(xps.StepSize, acceptance=arg(0.5, "share"), harmonic="FLAG", first="huge, NUMBER", most="huge, NUMBER"),
        call(
            xps.Until,
            ess=arg(100, "none, POSITIVE"),
            rhat=arg(1.5, "none, whole, above, huge"),
            seconds=arg(1.0, "none, POSITIVE"),
        ),
        call(xps.DiagonalMetric, **METRIC),
        call(xps.DenseMetric, **METRIC),
        call(xps.LowRankMetric, directions=arg(5, "COUNT"), inverse="FLAG"),
        call(xps.ProposalCovariance),
        call(xps.BoundedBias, bias="share", metric="text", underdamped="FLAG", smoothing="text"),
        call(xps.CycleSearch, length=arg(4, "COUNT"), acceptance="share", balance="NUMBER, huge"),
        call(check_gradient, rtol="POSITIVE, ZERO"),
        call(srmc.spectrum),
        # ---- targets
        call(
            xps.Target,
            uses.as_target,
            log_density=arg(uses.density, "none, FUNCTION"),
            score=arg(uses.score, "none, FUNCTION"),
            hvp="FUNCTION",
            log_density_and_score="FUNCTION",
            score_plus_hvp="FUNCTION",
            differences="FUNCTION",
            differences_at="FUNCTION",
            bonds="FUNCTION",
            acceptance=arg(LineIntegral(2), ""),
        ),
        call(
            lambda **functions: xps.Target(space=xps.Binary(), **functions),
            lambda made, lib: xps.sample(made, xps.LocallyBalanced(), uses.ones(lib), 2, seed=0, progress=False),
            called="Target on a discrete space",
            log_density=arg(uses.density, "FUNCTION"),
            differences=arg(None, "none, FUNCTION"),
        ),
        call(
            lambda **functions: xps.Target(uses.density, space=xps.Binary(), **functions),
            lambda made, lib: xps.sample(made, xps.Sweep(), uses.ones(lib), 2, seed=0, progress=False),
            called="Target of a sweep",
            differences_at=arg(None, "none, FUNCTION"),
        ),
        call(xps.Tempered, uses.as_target, beta=arg(0.5, "PER_CHAIN, ZERO")),
        call(
            xps.Bridge,
            lambda made, lib: xps.sample(
                made, xps.AIS(xps.RWM(0.5), (0, 1)), uses.real(lib), 2, seed=0, progress=False
            ),
            initial=uses.TARGET,
        ),
        call(
            xps.Parametric,
            lambda made, lib: xps.sample(
                made,
                xps.SOSMC(sosmc.MarginalLikelihood(), LangevinMove(0.1), sosmc.SGD(0.1)),
                uses.real(lib),
                2,
                seed=0,
                progress=False,
            ),
            log_density=arg(uses.potential, "FUNCTION"),
            parameters=arg(np.zeros(2), "vector, number, chains, positions, integer, NUMBER"),
            score="FUNCTION",
            log_density_and_score="FUNCTION",
        ),
        call(
            xps.posterior,
            uses.as_target,
            log_prior=arg(uses.density, "FUNCTION"),
            log_likelihood=arg(uses.likelihood, "FUNCTION"),
            rows=arg(np.ones((6, 1)), "matrix, square, rectangle, positions, DRAWS, numbers, rows"),
            prior_score=arg(uses.score, "FUNCTION"),
            likelihood_score=arg(uses.likelihood_score, "FUNCTION"),
            sets="zero, one",
        ),
        call(
            xps.batched,
            lambda f, lib: uses.as_target(xps.Target(f), lib),
            f=arg(lambda x: (x * x).sum(), "FUNCTION"),
            rejects="empty",
        ),
        call(LineIntegral, uses.as_acceptance, nodes=arg(2, "COUNT")),
        call(Taylor, uses.as_acceptance, order="COUNT"),
        call(xps.FiniteDifference, uses.as_gradient, eps="POSITIVE"),
        call(xps.Via, uses.as_gradient, library=arg("torch", "")),
        # ---- spaces
        call(xps.Categorical, uses.as_space, values=arg((0.0, 1.0), "numbers, rows, whole numbers, vector, triple")),
        call(
            xps.Integers,
            uses.as_space,
            low="whole, one, float one, zero, float zero, negative, integers, numbers, whole numbers",
            high="whole, one, float one, integers, numbers, whole numbers",
        ),
        call(xps.OneHot, uses.as_space, choices=arg(2, "whole")),
        # ---- models
        call(
            lambda **options: xps.Model(options.pop("log_density"), x=xps.Real(2), **options),
            uses.as_target,
            called="Model",
            log_density=arg(uses.density_of_values, "FUNCTION"),
            gradient=arg(xps.FiniteDifference(), ""),
            constrained=arg(False, "FLAG"),
            dims=arg(None, "none, empty"),
            coords=arg(None, "none, empty"),
        ),
        call(xps.Blocks, uses.as_blocks, sweep=arg({"x": xps.RWM(0.5)}, "")),
        # ---- regularisers
        call(xps.IsotropicTV, uses.as_regularizer, shape=arg((1, 2), "whole numbers")),
        call(xps.AnisotropicTV, uses.as_regularizer, shape=arg((1, 2), "whole numbers")),
        # ---- noise and recorders
        call(xps.Portable, uses.as_noise),
        call(
            xps.Replay,
            uses.as_noise,
            arrays=Argument(
                lambda lib: {"proposal": lib.array(np.zeros((3, 4, 2))), "accept": lib.array(np.full((3, 4), 0.5))}, ""
            ),
            first="zero",
        ),
        call(xps.Draws, uses.as_recorder, store=arg(None, "none, text")),
        call(xps.Statistics, uses.as_recorder),
        call(xps.Moments, uses.as_recorder),
        call(xps.BatchMeans, uses.as_recorder),
        call(xps.Record, uses.as_recorder, function=arg(lambda s: s.point.x, "FUNCTION")),
        call(
            xps.Histogram,
            lambda made, lib: xps.sample(
                uses.binary(), xps.Gibbs(), uses.ones(lib), 2, seed=0, recorders=[made], progress=False
            ),
        ),
        call(
            xps.Checkpoint,
            uses.checkpointed,
            path=arg(f"{folder}/checkpoint", "text"),
            every=arg(60.0, "POSITIVE, ZERO, inf"),
        ),
        call(xps.expectation, trace=Argument(uses.scored, ""), function=arg(lambda x: x, "FUNCTION")),
        call(xps.tempering_log_normalizer, trace=Argument(uses.tempered, "")),
        # ---- files and libraries
        call(xps.load, path=Argument(lambda lib: uses.saved(folder), "text"), like="EVERY_ARRAY"),
        call(uses.saved_by, called="Trace.save", path=arg(f"{folder}/trace.npz", "")),
        call(xps.backend_of, array=Argument(uses.real, "EVERY_ARRAY")),
        # ---- training
        call(
            uses.trained,
            loss=arg(score_mh.Sliced(), ""),
            data=Argument(uses.real, "SAMPLE"),
            parameters=arg(score_mh.init_score_network(2, 4, 0), ""),
            epochs=arg(2, "COUNT"),
            optimizer="",
            batch_size=arg(2, "COUNT, none"),
            steps_per_epoch=arg(1, "COUNT, none"),
            validation=Argument(uses.real, "SAMPLE, none"),
            patience=arg(1, "COUNT, none"),
            checkpoint="text",
            progress=arg(False, "FLAG, none"),
        ),
        call(score_mh.Sliced, uses.as_training_loss, projections="COUNT"),
        call(score_mh.ExactTrace, uses.as_training_loss),
        call(score_mh.Denoising, uses.as_training_loss, sigma=arg(0.5, "POSITIVE")),
        call(
            lambda sigmas: score_mh.AnnealedDenoising(sigmas, lambda x, sigma, parameters: -x),
            called="AnnealedDenoising",
            sigmas=arg((1.0, 0.5), "LADDER"),
        ),
        call(
            score_mh.ScoreBalance,
            proposal=arg(score_mh.RandomWalk(0.5), ""),
            score=arg(uses.score, "FUNCTION"),
            network=arg(score_mh.acceptance_network, "FUNCTION"),
            regularization="POSITIVE, ZERO",
            max_norm="POSITIVE",
            alpha="LADDER",
        ),
        call(score_mh.RandomWalk, uses.as_balance),
        call(score_mh.LangevinProposal, uses.as_balance),
        call(score_mh.CrankNicolson, uses.as_balance, beta=arg(0.5, "SHARE, UP_TO_ONE")),
        call(
            score_mh.geometric_noise_levels,
            largest=arg(2.0, "POSITIVE"),
            smallest=arg(0.1, "NUMBER"),
            levels=arg(3, "COUNT"),
        ),
        call(
            score_mh.DiffusionSchedule,
            signals=arg((0.9, 0.5), "LADDER"),
            sigmas=arg((0.1, 0.5), "LADDER"),
            times="LADDER",
        ),
        call(score_mh.variance_preserving, betas=arg((0.1, 0.2), "LADDER")),
        call(score_mh.variance_exploding, sigmas=arg((0.1, 0.2), "LADDER"), times="LADDER"),
        call(score_mh.linear_betas, first=arg(0.1, "share"), last=arg(0.2, "share")),
        call(score_mh.cosine_betas, offset=arg(0.1, "UP_TO_ONE")),
        call(
            score_mh.diffusion_target,
            uses.as_target,
            network=arg(lambda x, t: x, "FUNCTION"),
            schedule=arg(score_mh.variance_exploding((0.1, 0.5)), ""),
            prediction=arg("data", ""),
            space="",
            acceptance=arg(LineIntegral(2), ""),
        ),
        call(
            score_mh.NoisePrediction,
            uses.as_training_loss,
            schedule=arg(score_mh.variance_exploding((0.1, 0.5)), ""),
            network=arg(lambda x, t, parameters: score_mh.score_network(x, parameters), "FUNCTION"),
        ),
        # ---- measures
        *(
            call(f, draws=Argument(uses.deep_draws, "DRAWS, deep"))
            for f in (metrics.chain_ess, metrics.split_rhat, metrics.mcse_mean)
        ),
        call(
            metrics.squared_mmd, x=Argument(uses.real, "SAMPLE, deep"), y=Argument(uses.real, "SAMPLE, deep"), kernel=""
        ),
        call(metrics.squared_ksd, x=Argument(uses.real, "SAMPLE"), score=Argument(uses.real, "SAMPLE"), kernel=""),
    ]


def calls(folder: str) -> list[Call]:
    """All calls; what they write goes into a folder."""
    return [*kernels(), *particles(), *_others(folder)]
