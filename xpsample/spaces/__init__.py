"""Spaces: where positions live."""

from xpsample.core.lazy_imports import attach

_NAMES = {
    "categorical": "Categorical OneHot",
    "constrained": "Circular Interval LowerBounded Positive UpperBounded",
    "discrete": "Binary Discrete Permutations Spins",
    "integers": "Integers",
    "json_form": "space_from_json",
    "matrices": "CorrelationCholesky CovarianceCholesky",
    "simplexes": "Ordered PositiveOrdered Simplex UnitVector ZeroSum",
    "space": "Constrained Real Space",
}
__getattr__, __all__ = attach(__name__, _NAMES)


def __dir__() -> list[str]:
    return __all__
