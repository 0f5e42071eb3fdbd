"""Kernels: one file per algorithm, each a frozen value with a pure step."""

from xpsample.core.lazy_imports import attach

_NAMES = {
    ".core.covariance": "matrix",
    ".core.fields": "checked count flag function instance number numbers parameter text vector",
    ".core.hyperparameters": "per_coordinate",
    "discrete.acs": "ACS ACSState",
    "discrete.balanced": "Balancing Barker LocallyBalanced Max SquareRoot",
    "discrete.colors": "greedy_coloring",
    "discrete.cycles": "Cosine Cycle CycleSearch Table",
    "discrete.dlp": "DMALA DULA",
    "discrete.gibbs": "ChromaticGibbs Gibbs SingleFlip",
    "discrete.gwg": "GWG",
    "discrete.swendsen_wang": "SwendsenWang",
    "discrete.swap": "Swap",
    "discrete.sweep": "Sweep",
    "discrete.two_opt": "TwoOpt",
    "delayed": "DelayedAcceptance",
    "elliptical": "EllipticalSlice",
    "ensemble": "DifferentialEvolution Ensemble Stretch",
    "hmc": "HMC",
    "independent": "IndependentMH",
    "kernel": "ChainState Info Kernel MemorylessKernel freeze metropolis none_frozen normal_like select "
    "uniform_like uniform_per_chain with_position",
    "mala": "MALA",
    "mams": "MAMS MAMSInfo",
    "mclmc": "MCLMC MCLMCInfo",
    "myula": "MYULA",
    "nuts": "NUTS NUTSInfo",
    "pcn": "PCN",
    "rwm": "RWM",
    "slice": "Slice",
    "sgnht": "SGNHT",
    "step_sizes": "CosineCycles PolynomialDecay StepSizes",
    "tempering": "ParallelTempering",
    "traits": "ADJUSTED MEMORYLESS UNADJUSTED Trait",
    "ula": "ULA",
    "underdamped": "UnderdampedLangevin",
}
__getattr__, __all__ = attach(__name__, _NAMES)


def __dir__() -> list[str]:
    return __all__
