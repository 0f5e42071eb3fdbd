"""Calls of kernels and of what they hold: good arguments, and what else an argument has a meaning for."""

import xpsample as xps
from tests.fuzz.uses import (
    COUNT,
    COVARIANCE,
    FLAG,
    FUNCTION,
    NONE,
    NUMBER,
    PER_CHAIN,
    POSITIVE,
    RWM,
    SHARE,
    STEP_SIZE,
    VECTOR,
    ZERO,
    Call,
    arg,
    array,
    as_autocorrelation,
    as_history,
    as_pair_kernel,
    as_schedule,
    as_srmc_recorder,
    as_strength,
    on_ones,
    on_reals,
    on_rows,
)
from xpsample import srld, srmc
from xpsample.hiss.smoothed import Logistic
from xpsample.kernels import Cosine, Table


def kernels() -> list[Call]:
    """Of kernels for single chains."""
    return [
        # ---- kernels
        Call("RWM", xps.RWM, {"step_size": STEP_SIZE, "covariance": COVARIANCE}, on_reals),
        Call("ULA", xps.ULA, {"step_size": STEP_SIZE, "preconditioner": COVARIANCE}, on_reals),
        Call("MALA", xps.MALA, {"step_size": STEP_SIZE, "preconditioner": COVARIANCE}, on_reals),
        Call("HMC", xps.HMC, {"step_size": STEP_SIZE, "steps": arg(2, COUNT | {"none"}), "mass": COVARIANCE}, on_reals),
        Call("HMC by length", lambda length: xps.HMC(0.5, length=length), {"length": STEP_SIZE}, on_reals),
        Call("NUTS", xps.NUTS, {"step_size": STEP_SIZE, "mass": COVARIANCE, "max_depth": arg(3, COUNT)}, on_reals),
        Call("MAMS", xps.MAMS, {"step_size": STEP_SIZE, "length": STEP_SIZE, "mass": COVARIANCE}, on_reals),
        Call("MCLMC", xps.MCLMC, {"step_size": STEP_SIZE, "length": STEP_SIZE, "mass": COVARIANCE}, on_reals),
        Call(
            "UnderdampedLangevin",
            xps.UnderdampedLangevin,
            {"step_size": STEP_SIZE, "friction": STEP_SIZE, "mass": COVARIANCE},
            on_reals,
        ),
        Call(
            "PCN",
            xps.PCN,
            {
                "beta": arg(0.5, {"none"} | SHARE | {"one", "float one"}),
                "mean": arg(None, VECTOR),
                "covariance": COVARIANCE,
            },
            on_reals,
        ),
        Call("IndependentMH", xps.IndependentMH, {"mean": arg(None, VECTOR), "covariance": COVARIANCE}, on_reals),
        Call(
            "MYULA",
            xps.MYULA,
            {
                "step_size": STEP_SIZE,
                "regularizer": arg(xps.L1(), NONE),
                "smoothing": STEP_SIZE,
                "strength": arg(1.0, PER_CHAIN | ZERO | FUNCTION),
            },
            on_reals,
        ),
        Call(
            "PolynomialDecay",
            xps.PolynomialDecay,
            {"scale": STEP_SIZE, "power": arg(0.5, PER_CHAIN | ZERO), "offset": arg(0.0, PER_CHAIN | ZERO)},
            lambda made, lib: on_reals(xps.ULA(made), lib),
        ),
        Call(
            "Minibatch",
            xps.Minibatch,
            {"base": arg(xps.ULA(0.1), NONE), "size": arg(2, COUNT), "common": arg(False, FLAG)},
            on_rows,
        ),
        Call(
            "ParallelTempering",
            xps.ParallelTempering,
            {"base": RWM, "betas": arg((1.0, 0.5), {"numbers", "none"}), "every": arg(1, COUNT)},
            on_reals,
        ),
        Call("DMALA", xps.DMALA, {"step_size": STEP_SIZE, "balance": arg(0.5, PER_CHAIN | ZERO)}, on_ones),
        Call("DULA", xps.DULA, {"step_size": STEP_SIZE}, on_ones),
        Call("GWG", xps.GWG, {"temperature": arg(0.5, PER_CHAIN | ZERO)}, on_ones),
        Call(
            "LocallyBalanced", xps.LocallyBalanced, {"balancing": arg(xps.LocallyBalanced().balancing, NONE)}, on_ones
        ),
        Call(
            "Cosine",
            Cosine,
            {"step_size": STEP_SIZE, "length": arg(4, COUNT), "balance": arg(0.9, PER_CHAIN | ZERO)},
            lambda made, lib: on_ones(xps.ACS(made), lib),
        ),
        Call(
            "Table",
            Table,
            {
                "step_sizes": array([0.5, 0.6, 0.7, 0.8], {"chains", "integers", "vector"}),
                "balances": array([0.5, 0.6, 0.7, 0.8], {"chains", "zeros", "integers", "vector"}),
            },
            lambda made, lib: on_ones(xps.ACS(made), lib),
        ),
        Call("ACS", xps.ACS, {"cycle": arg(Cosine(0.5, 4), {"none"})}, on_ones),
        Call(
            "HiSS",
            xps.HiSS,
            {
                "base": arg(xps.SingleFlip(), NONE),
                "scale": STEP_SIZE,
                "sweeps": arg(1, COUNT),
                "refinements": arg(1, COUNT | {"zero"}),
                "smoothing": arg(Logistic(), NONE),
                "adjusted": arg(True, FLAG),
            },
            on_ones,
        ),
        Call(
            "SRMC",
            xps.SRMC,
            {
                "base": arg(xps.MALA(0.1), {"kernel"}),
                "alpha": arg(1.0, PER_CHAIN | ZERO),
                "schedule": arg(xps.PowerLaw(), {"schedule"}),
                "tilt": arg(xps.Exact(), {"none"}),
                "theta": arg(None, VECTOR | {"positions", "number", "chains"}),
            },
            on_reals,
        ),
        Call(
            "PowerLaw",
            xps.PowerLaw,
            {
                "rho": arg(1.0, SHARE | {"one", "float one"}),
                "scale": arg(1.0, POSITIVE),
                "offset": arg(1.0, POSITIVE | ZERO),
            },
            as_schedule,
        ),
        Call(
            "Stable",
            srmc.Stable,
            {
                "autocorrelation": arg(srmc.Constant(0.0), NONE),
                "eigenvalues": arg(None, NUMBER | ZERO | {"huge", "none", "chains", "vector", "triple", "number"}),
                "schedule": arg(xps.PowerLaw(), {"schedule"}),
                "kappa": arg(0.5, {"share", "one", "float one"}),
            },
            as_schedule,
        ),
        Call(
            "Constant",
            srmc.Constant,
            {"value": arg(0.0, SHARE | {"one", "float one", "negative", "negatives"} | ZERO)},
            as_autocorrelation,
        ),
        Call("LangevinAutocorrelation", srmc.LangevinAutocorrelation, {"step_size": STEP_SIZE}, as_autocorrelation),
        Call(
            "LeapfrogAutocorrelation",
            srmc.LeapfrogAutocorrelation,
            {"step_size": STEP_SIZE, "steps": arg(2, COUNT)},
            as_autocorrelation,
        ),
        Call("autocorrelation", lambda kernel: srmc.autocorrelation(kernel), {"kernel": RWM}),
        Call(
            "Adaptive",
            srmc.Adaptive,
            {
                "reference": arg(1.0, PER_CHAIN | ZERO),
                "warmup": arg(2, COUNT),
                "fraction": arg(0.8, {"share"}),
                "threshold": arg(1.0, POSITIVE | {"inf"}),
            },
            as_strength,
        ),
        Call("warmup_steps", srmc.warmup_steps, {"budget": arg(1000, COUNT), "leapfrog_steps": arg(1, COUNT)}),
        Call(
            "Repellence",
            srmc.Repellence,
            {
                "limit": arg(1.0, POSITIVE),
                "share": arg(0.75, {"share", "one", "float one"}),
                "least_acceptance": arg(0.05, {"share", "one", "float one"} | ZERO),
                "name": arg("repellence", {"text"}),
            },
            as_srmc_recorder,
        ),
        Call(
            "Estimator",
            srmc.Estimator,
            {"function": arg(lambda x: x, FUNCTION), "name": arg("estimate", {"text"})},
            as_srmc_recorder,
        ),
        Call(
            "SRLD",
            xps.SRLD,
            {
                "base": arg(xps.ULA(0.1), {"kernel"}),
                "alpha": arg(1.0, PER_CHAIN | ZERO | {"none"}),
                "history": arg(xps.Rolling(1), NONE),
                "kernel": arg(xps.RBF(1.0), NONE),
                "shared": arg(False, FLAG),
            },
            on_reals,
        ),
        Call(
            "Rolling",
            xps.Rolling,
            {"size": arg(2, COUNT), "every": arg(1, COUNT), "padded": arg(False, FLAG)},
            as_history,
        ),
        Call(
            "Thinned",
            xps.Thinned,
            {"size": arg(2, COUNT), "every": arg(1, COUNT), "padded": arg(False, FLAG)},
            as_history,
        ),
        Call(
            "Balanced",
            srld.Balanced,
            {"steps": arg(2, COUNT), "scale": arg(1.0, PER_CHAIN | ZERO)},
            lambda made, lib: on_reals(xps.SRLD(xps.ULA(0.1), made, xps.Rolling(1), xps.RBF(1.0)), lib),
        ),
        Call("RBF", xps.RBF, {"bandwidth": arg(1.0, PER_CHAIN)}, as_pair_kernel),
        Call(
            "InverseMultiquadric",
            xps.InverseMultiquadric,
            {"bandwidth": arg(1.0, PER_CHAIN), "power": arg(-0.5, {"negative"})},
            as_pair_kernel,
        ),
    ]
