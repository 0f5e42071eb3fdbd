"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

from importlib import import_module

from xpsample.core.version import __version__ as __version__

TYPE_CHECKING = False  # as in typing, whose import takes most of what this one takes

if TYPE_CHECKING:  # what editors and type checkers read; at run time `__getattr__` imports a name's home when asked
    from xpsample.core.covariance import LowRankCovariance
    from xpsample.core.registry import backend_of, installed_backends
    from xpsample.gradients import Analytic, Auto, FiniteDifference, Via
    from xpsample.hiss.kernel import HiSS
    from xpsample.kernels import (
        ACS,
        DMALA,
        DULA,
        GWG,
        HMC,
        MALA,
        MAMS,
        MCLMC,
        MYULA,
        NUTS,
        PCN,
        RWM,
        ULA,
        CycleSearch,
        Gibbs,
        IndependentMH,
        LocallyBalanced,
        ParallelTempering,
        PolynomialDecay,
        SingleFlip,
        TwoOpt,
        UnderdampedLangevin,
    )
    from xpsample.kernels.blocks import Blocks
    from xpsample.kernels.minibatch import Minibatch
    from xpsample.metrics.stein import RBF, InverseMultiquadric
    from xpsample.particles.ais import AIS, log_normalizer
    from xpsample.particles.annealed import Annealed
    from xpsample.particles.ladders import annealing_ladder, geometric_ladder
    from xpsample.particles.smc import TemperedSMC, particle_log_normalizer
    from xpsample.particles.svgd import SVGD, AdaGrad, StochasticSVGD
    from xpsample.prox import L1, AnisotropicTV, IsotropicTV
    from xpsample.run.checkpoint import Checkpoint
    from xpsample.run.loading import load
    from xpsample.run.noise import Portable, Replay
    from xpsample.run.recorders import BatchMeans, Draws, Histogram, Moments, Record, Statistics
    from xpsample.run.sampling import sample
    from xpsample.run.stepwise import steps
    from xpsample.run.trace import Trace
    from xpsample.run.until import Until
    from xpsample.sosmc import SOSMC
    from xpsample.spaces import (
        Binary,
        Categorical,
        Circular,
        CorrelationCholesky,
        CovarianceCholesky,
        Interval,
        LowerBounded,
        OneHot,
        Ordered,
        Permutations,
        Positive,
        PositiveOrdered,
        Real,
        Simplex,
        Spins,
        UnitVector,
        UpperBounded,
    )
    from xpsample.srld import SRLD, Rolling, Thinned
    from xpsample.srmc import SRMC, PowerLaw
    from xpsample.targets import Exact, Parametric, Ratio, Shift, Target, Tempered, Untilted, posterior
    from xpsample.targets.batched import batched
    from xpsample.targets.bridge import Bridge
    from xpsample.targets.model import Model
    from xpsample.targets.start import start
    from xpsample.warmup import (
        BoundedBias,
        DenseMetric,
        DiagonalMetric,
        Ladder,
        LowRankMetric,
        ProposalCovariance,
        StepSize,
    )

__all__ = [
    "ACS",
    "AIS",
    "DMALA",
    "DULA",
    "GWG",
    "HMC",
    "L1",
    "MALA",
    "MAMS",
    "MCLMC",
    "MYULA",
    "NUTS",
    "PCN",
    "RBF",
    "RWM",
    "SOSMC",
    "SRLD",
    "SRMC",
    "SVGD",
    "ULA",
    "AdaGrad",
    "Analytic",
    "AnisotropicTV",
    "Annealed",
    "Auto",
    "BatchMeans",
    "Binary",
    "Blocks",
    "BoundedBias",
    "Bridge",
    "Categorical",
    "Checkpoint",
    "Circular",
    "CorrelationCholesky",
    "CovarianceCholesky",
    "CycleSearch",
    "DenseMetric",
    "DiagonalMetric",
    "Draws",
    "Exact",
    "FiniteDifference",
    "Gibbs",
    "HiSS",
    "Histogram",
    "IndependentMH",
    "Interval",
    "InverseMultiquadric",
    "IsotropicTV",
    "Ladder",
    "LocallyBalanced",
    "LowRankCovariance",
    "LowRankMetric",
    "LowerBounded",
    "Minibatch",
    "Model",
    "Moments",
    "OneHot",
    "Ordered",
    "ParallelTempering",
    "Parametric",
    "Permutations",
    "PolynomialDecay",
    "Portable",
    "Positive",
    "PositiveOrdered",
    "PowerLaw",
    "ProposalCovariance",
    "Ratio",
    "Real",
    "Record",
    "Replay",
    "Rolling",
    "Shift",
    "Simplex",
    "SingleFlip",
    "Spins",
    "Statistics",
    "StepSize",
    "StochasticSVGD",
    "Target",
    "Tempered",
    "TemperedSMC",
    "Thinned",
    "Trace",
    "TwoOpt",
    "UnderdampedLangevin",
    "UnitVector",
    "Until",
    "Untilted",
    "UpperBounded",
    "Via",
    "annealing_ladder",
    "backend_of",
    "batched",
    "geometric_ladder",
    "installed_backends",
    "load",
    "log_normalizer",
    "particle_log_normalizer",
    "posterior",
    "sample",
    "start",
    "steps",
]

_ROOMS = (
    "core",
    "engine",
    "files",
    "gradients",
    "hiss",
    "interop",
    "kernels",
    "metrics",
    "optimize",
    "particles",
    "prox",
    "run",
    "score_mh",
    "sosmc",
    "spaces",
    "srld",
    "srmc",
    "targets",
    "warmup",
    "zoo",
)

_HOMES = {
    "xpsample.core.covariance": ("LowRankCovariance",),
    "xpsample.core.registry": ("backend_of", "installed_backends"),
    "xpsample.gradients": ("Analytic", "Auto", "FiniteDifference", "Via"),
    "xpsample.hiss.kernel": ("HiSS",),
    "xpsample.kernels": (
        "ACS",
        "DMALA",
        "DULA",
        "GWG",
        "HMC",
        "MALA",
        "MAMS",
        "MCLMC",
        "MYULA",
        "NUTS",
        "PCN",
        "RWM",
        "ULA",
        "CycleSearch",
        "Gibbs",
        "IndependentMH",
        "LocallyBalanced",
        "ParallelTempering",
        "PolynomialDecay",
        "SingleFlip",
        "TwoOpt",
        "UnderdampedLangevin",
    ),
    "xpsample.kernels.blocks": ("Blocks",),
    "xpsample.kernels.minibatch": ("Minibatch",),
    "xpsample.metrics.stein": ("RBF", "InverseMultiquadric"),
    "xpsample.particles.ais": ("AIS", "log_normalizer"),
    "xpsample.particles.annealed": ("Annealed",),
    "xpsample.particles.ladders": ("annealing_ladder", "geometric_ladder"),
    "xpsample.particles.smc": ("TemperedSMC", "particle_log_normalizer"),
    "xpsample.particles.svgd": ("SVGD", "AdaGrad", "StochasticSVGD"),
    "xpsample.prox": ("L1", "AnisotropicTV", "IsotropicTV"),
    "xpsample.run.checkpoint": ("Checkpoint",),
    "xpsample.run.noise": ("Portable", "Replay"),
    "xpsample.run.recorders": ("BatchMeans", "Draws", "Histogram", "Moments", "Record", "Statistics"),
    "xpsample.run.sampling": ("sample",),
    "xpsample.run.stepwise": ("steps",),
    "xpsample.targets.start": ("start",),
    "xpsample.run.loading": ("load",),
    "xpsample.run.trace": ("Trace",),
    "xpsample.run.until": ("Until",),
    "xpsample.sosmc": ("SOSMC",),
    "xpsample.spaces": (
        "Binary",
        "Categorical",
        "Circular",
        "CorrelationCholesky",
        "CovarianceCholesky",
        "Interval",
        "LowerBounded",
        "OneHot",
        "Ordered",
        "Permutations",
        "Positive",
        "PositiveOrdered",
        "Real",
        "Simplex",
        "Spins",
        "UnitVector",
        "UpperBounded",
    ),
    "xpsample.srld": ("SRLD", "Rolling", "Thinned"),
    "xpsample.srmc": ("SRMC", "PowerLaw"),
    "xpsample.targets": ("Exact", "Parametric", "Ratio", "Shift", "Target", "Tempered", "Untilted", "posterior"),
    "xpsample.targets.batched": ("batched",),
    "xpsample.targets.bridge": ("Bridge",),
    "xpsample.targets.model": ("Model",),
    "xpsample.warmup": (
        "BoundedBias",
        "DenseMetric",
        "DiagonalMetric",
        "Ladder",
        "LowRankMetric",
        "ProposalCovariance",
        "StepSize",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # which would take any name for one that is there

    def __getattr__(name):
        """A name or a room, imported when it is first asked for: the root itself imports nothing (PEP 562)."""
        if name in _HOME_OF:
            value = getattr(import_module(_HOME_OF[name]), name)
        elif name in _ROOMS:
            return import_module(f"xpsample.{name}")
        else:
            raise AttributeError(f"module 'xpsample' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """What a user types, and nothing else."""
    return [*__all__, "__version__"]
