"""Public constructors and entry points: good arguments, and what else an argument has a meaning for."""

import numpy as np

import xpsample as xps
from tests.fuzz.kernels import kernels
from tests.fuzz.particles import particles
from tests.fuzz.uses import (
    COUNT,
    DRAWS,
    EVERY_ARRAY,
    FLAG,
    FUNCTION,
    LADDER,
    NONE,
    NUMBER,
    PER_CHAIN,
    POSITIVE,
    RWM,
    SAMPLE,
    SEED,
    SHARE,
    STEP_SIZE,
    TARGET,
    X0,
    ZERO,
    Argument,
    Call,
    arg,
    array,
    as_acceptance,
    as_balance,
    as_blocks,
    as_gradient,
    as_noise,
    as_recorder,
    as_regularizer,
    as_space,
    as_target,
    as_training_loss,
    binary,
    checkpointed,
    density,
    density_of_values,
    first_step,
    likelihood,
    likelihood_score,
    ones,
    potential,
    real,
    sampled,
    saved,
    saved_by,
    score,
    trained,
)
from xpsample import metrics, score_mh, sosmc, srmc
from xpsample.sosmc import LangevinMove
from xpsample.targets import LineIntegral, Taylor, check_gradient

SIZES = {"none", "whole", "one", "whole numbers", "empty"}
"""What is a shape, of a discrete parameter."""

METRIC = {"scores": arg(None, {"none", "flag"}), "inverse": arg(None, {"none", "flag"})}


def _others(folder: str) -> list[Call]:
    """Of all but kernels and particles."""
    return [
        # ---- runs
        Call(
            "sample",
            sampled,
            {
                "target": TARGET,
                "kernel": RWM,
                "x0": X0,
                "draws": arg(3, COUNT),
                "seed": arg(0, SEED),
                "warmup": arg(0, {"zero", "none"}),
                "until": arg(None, {"none"}),
                "burn_in": arg(0, COUNT | {"zero"}),
                "thinning": arg(1, COUNT),
                "recorders": arg((xps.Draws(),), {"empty"}),
                "checkpoint": arg(None, {"none", "text"}),
                "progress": arg(False, {"none", "flag"}),
                "check": arg(False, FLAG),
                "compile": arg(False, FLAG),
                "shards": arg(None, {"none"} | COUNT),
                "executor": arg(None, {"none"}),
                "watchers": arg((), {"empty"}),
            },
        ),
        Call(
            "steps",
            first_step,
            {"target": TARGET, "kernel": RWM, "x0": X0, "seed": arg(0, SEED), "warmup": arg(0, {"zero", "none"})},
        ),
        Call(
            "start",
            xps.start,
            {
                "target": TARGET,
                "like": array([0.0, 1.0], {"vector", "triple", "chains", "chains32", "zeros", "negatives", "foreign"}),
                "chains": arg(3, COUNT | {"whole numbers", "empty"}),
                "scale": arg(2.0, NUMBER | {"huge", "number", "integer", "vector"}),
                "seed": arg(0, SEED),
            },
        ),
        Call(
            "StepSize",
            xps.StepSize,
            {
                "acceptance": arg(0.5, {"share"}),
                "harmonic": arg(None, {"none", "flag"}),
                "first": arg(None, {"none", "huge"} | NUMBER),
                "most": arg(None, {"none", "huge"} | NUMBER),
            },
        ),
        Call(
            "Until",
            xps.Until,
            {
                "ess": arg(100, {"none"} | POSITIVE),
                "rhat": arg(1.5, {"none", "whole", "above", "huge"}),
                "seconds": arg(1.0, {"none"} | POSITIVE),
            },
        ),
        Call("DiagonalMetric", xps.DiagonalMetric, METRIC),
        Call("DenseMetric", xps.DenseMetric, METRIC),
        Call("LowRankMetric", xps.LowRankMetric, {"directions": arg(5, COUNT), "inverse": arg(None, {"none", "flag"})}),
        Call("ProposalCovariance", xps.ProposalCovariance, {"dense": arg(False, FLAG)}),
        Call(
            "BoundedBias",
            xps.BoundedBias,
            {
                "bias": arg(0.05, {"share"}),
                "metric": arg(None, {"none", "text"}),
                "underdamped": arg(None, {"none", "flag"}),
                "smoothing": arg(None, {"none", "text"}),
            },
        ),
        Call(
            "CycleSearch",
            xps.CycleSearch,
            {
                "length": arg(4, COUNT),
                "acceptance": arg(0.5, {"share"}),
                "balance": arg(0.95, NUMBER | {"huge"}),
            },
        ),
        Call("check_gradient", check_gradient, {"target": TARGET, "x": X0}),
        Call("spectrum", srmc.spectrum, {"target": TARGET, "x": X0}),
        # ---- targets
        Call(
            "Target",
            xps.Target,
            {
                "log_density": arg(density, {"none"} | FUNCTION),
                "score": arg(score, {"none"} | FUNCTION),
                "hvp": arg(None, {"none"} | FUNCTION),
                "log_density_and_score": arg(None, {"none"} | FUNCTION),
                "score_plus_hvp": arg(None, {"none"} | FUNCTION),
                "differences": arg(None, {"none"} | FUNCTION),
                "gradient": arg(xps.Auto(), NONE),
                "space": arg(xps.Target(density).space, {"space"}),
                "acceptance": arg(LineIntegral(2), NONE),
                "constrained": arg(False, FLAG),
            },
            as_target,
        ),
        Call(
            "Target on a discrete space",
            lambda **functions: xps.Target(space=xps.Binary(), **functions),
            {"log_density": arg(density, FUNCTION), "differences": arg(None, {"none"} | FUNCTION)},
            lambda made, lib: xps.sample(made, xps.LocallyBalanced(), ones(lib), 2, seed=0, progress=False),
        ),
        Call("Tempered", xps.Tempered, {"target": TARGET, "beta": arg(0.5, PER_CHAIN | ZERO)}, as_target),
        Call(
            "Bridge",
            xps.Bridge,
            {"initial": TARGET, "target": TARGET},
            lambda made, lib: xps.sample(made, xps.AIS(xps.RWM(0.5), (0, 1)), real(lib), 2, seed=0, progress=False),
        ),
        Call(
            "Parametric",
            xps.Parametric,
            {
                "log_density": arg(potential, FUNCTION),
                "parameters": arg(np.zeros(2), {"vector", "number", "chains", "positions", "integer"} | NUMBER),
                "score": arg(None, FUNCTION | {"none"}),
                "gradient": arg(xps.Auto(), NONE),
                "space": arg(xps.Target(density).space, {"space"}),
                "log_density_and_score": arg(None, FUNCTION | {"none"}),
            },
            lambda made, lib: xps.sample(
                made,
                xps.SOSMC(sosmc.MarginalLikelihood(), LangevinMove(0.1), sosmc.SGD(0.1)),
                real(lib),
                2,
                seed=0,
                progress=False,
            ),
        ),
        Call(
            "posterior",
            xps.posterior,
            {
                "log_prior": arg(density, FUNCTION),
                "log_likelihood": arg(likelihood, FUNCTION),
                "rows": arg(
                    np.ones((6, 1)), {"matrix", "square", "rectangle", "positions"} | DRAWS | {"numbers", "rows"}
                ),
                "prior_score": arg(score, FUNCTION),
                "likelihood_score": arg(likelihood_score, FUNCTION),
                "gradient": arg(xps.Auto(), NONE),
                "sets": arg(0, {"zero", "one"}),
            },
            as_target,
        ),
        Call(
            "batched",
            xps.batched,
            {"f": arg(lambda x: (x * x).sum(), FUNCTION), "rejects": arg((), {"empty"})},
            lambda f, lib: as_target(xps.Target(f), lib),
        ),
        Call("LineIntegral", LineIntegral, {"nodes": arg(2, COUNT)}, as_acceptance),
        Call("Taylor", Taylor, {"order": arg(1, COUNT), "averaged": arg(True, FLAG)}, as_acceptance),
        Call(
            "FiniteDifference",
            xps.FiniteDifference,
            {"eps": arg(1e-4, POSITIVE), "scheme": arg("central", NONE)},
            as_gradient,
        ),
        Call("Via", xps.Via, {"library": arg("torch", NONE)}, as_gradient),
        Call(
            "Analytic",
            xps.Analytic,
            {"score_function": arg(score, FUNCTION), "hvp_function": arg(None, FUNCTION | {"none"})},
            as_gradient,
        ),
        # ---- spaces
        Call(
            "Categorical",
            xps.Categorical,
            {
                "values": arg((0.0, 1.0), {"numbers", "rows", "whole numbers", "vector", "triple"}),
                "shape": arg(None, SIZES),
            },
            as_space,
        ),
        Call("OneHot", xps.OneHot, {"choices": arg(2, {"whole"}), "shape": arg(None, SIZES)}, as_space),
        # ---- models
        Call(
            "Model",
            lambda **options: xps.Model(options.pop("log_density"), x=xps.Real(2), **options),
            {
                "log_density": arg(density_of_values, FUNCTION),
                "gradient": arg(xps.FiniteDifference(), NONE),
                "constrained": arg(False, FLAG),
                "dims": arg(None, {"none", "empty"}),
                "coords": arg(None, {"none", "empty"}),
            },
            as_target,
        ),
        Call("Blocks", xps.Blocks, {"sweep": arg({"x": xps.RWM(0.5)}, NONE)}, as_blocks),
        # ---- regularisers
        Call(
            "IsotropicTV",
            xps.IsotropicTV,
            {"shape": arg((1, 2), {"whole numbers"}), "iterations": arg(2, COUNT)},
            as_regularizer,
        ),
        Call(
            "AnisotropicTV",
            xps.AnisotropicTV,
            {"shape": arg((1, 2), {"whole numbers"}), "sweeps": arg(2, COUNT)},
            as_regularizer,
        ),
        # ---- noise and recorders
        Call("Portable", xps.Portable, {"seed": arg(0, SEED)}, as_noise),
        Call(
            "Replay",
            xps.Replay,
            {
                "arrays": Argument(
                    lambda lib: {
                        "proposal": lib.array(np.zeros((3, 4, 2))),
                        "accept": lib.array(np.full((3, 4), 0.5)),
                    },
                    NONE,
                ),
                "first": arg(0, {"zero"}),
            },
            as_noise,
        ),
        Call("Draws", xps.Draws, {"name": arg("draws", {"text"}), "store": arg(None, {"none"})}, as_recorder),
        Call("Statistics", xps.Statistics, {"name": arg("statistics", {"text"})}, as_recorder),
        Call("Moments", xps.Moments, {"name": arg("moments", {"text"})}, as_recorder),
        Call("BatchMeans", xps.BatchMeans, {"size": arg(2, COUNT), "name": arg("b", {"text"})}, as_recorder),
        Call(
            "Record",
            xps.Record,
            {"name": arg("r", {"text"}), "function": arg(lambda s: s.point.x, FUNCTION)},
            as_recorder,
        ),
        Call(
            "Histogram",
            xps.Histogram,
            {"name": arg("h", {"text"})},
            lambda made, lib: xps.sample(binary(), xps.Gibbs(), ones(lib), 2, seed=0, recorders=[made], progress=False),
        ),
        Call(
            "Checkpoint",
            xps.Checkpoint,
            {"path": arg(f"{folder}/checkpoint", {"text"}), "every": arg(60.0, POSITIVE | ZERO | {"inf"})},
            checkpointed,
        ),
        # ---- files and libraries
        Call(
            "load",
            xps.load,
            {"path": Argument(lambda lib: saved(folder), {"text"}), "like": arg(None, EVERY_ARRAY | {"none"})},
        ),
        Call("Trace.save", saved_by, {"path": arg(f"{folder}/trace.npz", NONE)}),
        Call("backend_of", xps.backend_of, {"array": Argument(real, EVERY_ARRAY)}),
        # ---- training
        Call(
            "fit",
            trained,
            {
                "loss": arg(score_mh.Sliced(), NONE),
                "data": Argument(real, SAMPLE),
                "parameters": arg(score_mh.init_score_network(2, 4, 0), NONE),
                "epochs": arg(2, COUNT),
                "seed": arg(0, SEED),
                "optimizer": arg(None, {"none"}),
                "batch_size": arg(2, COUNT | {"none"}),
                "steps_per_epoch": arg(1, COUNT | {"none"}),
                "validation": Argument(real, SAMPLE | {"none"}),
                "patience": arg(1, COUNT | {"none"}),
                "gradient": arg(None, {"none"}),
                "checkpoint": arg(None, {"none", "text"}),
                "progress": arg(False, FLAG | {"none"}),
            },
        ),
        Call(
            "Sliced",
            score_mh.Sliced,
            {"projections": arg(1, COUNT), "network": arg(score_mh.score_network, FUNCTION)},
            as_training_loss,
        ),
        Call("ExactTrace", score_mh.ExactTrace, {"network": arg(score_mh.score_network, FUNCTION)}, as_training_loss),
        Call(
            "Denoising",
            score_mh.Denoising,
            {"sigma": arg(0.5, POSITIVE), "network": arg(score_mh.score_network, FUNCTION)},
            as_training_loss,
        ),
        Call(
            "AnnealedDenoising",
            lambda sigmas: score_mh.AnnealedDenoising(sigmas, lambda x, sigma, parameters: -x),
            {"sigmas": arg((1.0, 0.5), LADDER)},
        ),
        Call(
            "ScoreBalance",
            score_mh.ScoreBalance,
            {
                "proposal": arg(score_mh.RandomWalk(0.5), NONE),
                "score": arg(score, FUNCTION),
                "network": arg(score_mh.acceptance_network, FUNCTION),
                "regularization": arg(0.0, POSITIVE | ZERO),
                "max_norm": arg(None, POSITIVE | {"none"}),
                "pairs": arg("global", NONE),
                "alpha": arg((0.0, 1.0), LADDER),
            },
        ),
        Call("RandomWalk", score_mh.RandomWalk, {"step_size": STEP_SIZE}, as_balance),
        Call("LangevinProposal", score_mh.LangevinProposal, {"step_size": STEP_SIZE}, as_balance),
        Call("CrankNicolson", score_mh.CrankNicolson, {"beta": arg(0.5, SHARE | {"one", "float one"})}, as_balance),
        Call(
            "geometric_noise_levels",
            score_mh.geometric_noise_levels,
            {"largest": arg(2.0, POSITIVE), "smallest": arg(0.1, NUMBER), "levels": arg(3, COUNT)},
        ),
        Call(
            "DiffusionSchedule",
            score_mh.DiffusionSchedule,
            {
                "signals": arg((0.9, 0.5), LADDER),
                "sigmas": arg((0.1, 0.5), LADDER),
                "times": arg(None, LADDER | {"none"}),
            },
        ),
        Call("variance_preserving", score_mh.variance_preserving, {"betas": arg((0.1, 0.2), LADDER)}),
        Call(
            "variance_exploding",
            score_mh.variance_exploding,
            {"sigmas": arg((0.1, 0.2), LADDER), "times": arg(None, LADDER | {"none"})},
        ),
        Call(
            "linear_betas",
            score_mh.linear_betas,
            {"timesteps": arg(3, {"whole"}), "first": arg(0.1, {"share"}), "last": arg(0.2, {"share"})},
        ),
        Call(
            "cosine_betas",
            score_mh.cosine_betas,
            {"timesteps": arg(3, {"whole"}), "offset": arg(0.1, {"share", "one", "float one"})},
        ),
        Call(
            "diffusion_target",
            score_mh.diffusion_target,
            {
                "network": arg(lambda x, t: x, FUNCTION),
                "schedule": arg(score_mh.variance_exploding((0.1, 0.5)), NONE),
                "prediction": arg("data", NONE),
                "space": arg(xps.Real(), NONE),
                "acceptance": arg(LineIntegral(2), NONE),
            },
            as_target,
        ),
        Call(
            "NoisePrediction",
            score_mh.NoisePrediction,
            {
                "schedule": arg(score_mh.variance_exploding((0.1, 0.5)), NONE),
                "network": arg(lambda x, t, parameters: score_mh.score_network(x, parameters), FUNCTION),
                "prediction": arg("noise", NONE),
            },
            as_training_loss,
        ),
        # ---- measures
        *[
            Call(
                f.__name__,
                f,
                {
                    "draws": Argument(
                        lambda lib: lib.array(np.random.default_rng(0).normal(size=(20, 4, 2))), DRAWS | {"deep"}
                    )
                },
            )
            for f in (metrics.chain_ess, metrics.split_rhat, metrics.mcse_mean)
        ],
        Call(
            "squared_mmd",
            metrics.squared_mmd,
            {
                "x": Argument(real, SAMPLE | {"deep"}),
                "y": Argument(real, SAMPLE | {"deep"}),
                "kernel": arg(None, {"none"}),
                "unbiased": arg(True, FLAG),
            },
        ),
        Call(
            "squared_ksd",
            metrics.squared_ksd,
            {
                "x": Argument(real, SAMPLE),
                "score": Argument(real, SAMPLE),
                "kernel": arg(None, {"none"}),
                "unbiased": arg(True, FLAG),
            },
        ),
    ]


def calls(folder: str) -> list[Call]:
    """All calls; what they write goes into a folder."""
    return [*kernels(), *particles(), *_others(folder)]
