"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

from xpsample.core.lazy_imports import attach
from xpsample.core.version import __version__ as __version__

_SUBPACKAGES = (
    "adaptation core densities diagnostics files gradients hiss interop kernels metrics optimize particles prox "
    "sampling score_mh sosmc spaces srld srmc targets trace zoo"
)
_NAMES = {
    "core.errors": "CheckpointWarning ConvergenceWarning DiagnosisWarning DivergenceWarning Interrupted "
    "RepellenceWarning XpsampleError",
    "core.covariance": "LowRankCovariance",
    "core.registry": "backend_of installed_backends",
    "gradients": "Auto FiniteDifference Via",
    "hiss.kernel": "HiSS",
    "kernels": "ACS DMALA DULA GWG HMC MALA MAMS MCLMC MYULA NUTS PCN RWM SGNHT ULA ChromaticGibbs CosineCycles "
    "CycleSearch DelayedAcceptance DifferentialEvolution EllipticalSlice Ensemble Gibbs IndependentMH "
    "LocallyBalanced ParallelTempering PolynomialDecay SingleFlip Slice Stretch Swap Sweep SwendsenWang TwoOpt "
    "UnderdampedLangevin",
    "kernels.blocks": "Blocks",
    "kernels.minibatch": "Minibatch",
    "metrics.stein": "RBF InverseMultiquadric",
    "particles.ais": "AIS log_normalizer",
    "particles.annealed": "Annealed",
    "particles.evidence": "Rungs tempering_log_normalizer",
    "particles.ladders": "annealing_ladder geometric_ladder",
    "particles.laplace": "Laplace",
    "particles.pathfinder": "Pathfinder",
    "particles.smc": "TemperedSMC particle_log_normalizer",
    "particles.svgd": "SVGD AdaGrad StochasticSVGD",
    "prox": "L1 AnisotropicTV IsotropicTV",
    "sampling.checkpoint": "Checkpoint",
    "sampling.load": "load",
    "sampling.noise": "Portable Replay",
    "sampling.sampler": "Sampler sample",
    "sampling.stepwise": "steps",
    "sampling.until": "Until",
    "sosmc": "SOSMC",
    "spaces": "Binary Categorical Circular CorrelationCholesky CovarianceCholesky Integers Interval LowerBounded "
    "OneHot Ordered Permutations Positive PositiveOrdered Real Simplex Spins UnitVector UpperBounded ZeroSum",
    "srld": "SRLD Rolling Thinned",
    "srmc": "SRMC PowerLaw",
    "targets": "Exact Parametric Ratio Shift Target Tempered Untilted posterior",
    "targets.batched": "batched",
    "targets.bridge": "Bridge",
    "targets.model": "Model",
    "targets.start": "start",
    "trace.expectation": "Scores expectation",
    "trace.histogram": "Histogram",
    "trace.recorders": "BatchMeans Draws Moments Record Statistics",
    "trace.trace": "Trace",
    "adaptation": "BoundedBias DenseMetric DiagonalMetric Ladder LowRankMetric ProposalCovariance StepSize",
}
__getattr__, __all__ = attach(__name__, _NAMES, _SUBPACKAGES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
