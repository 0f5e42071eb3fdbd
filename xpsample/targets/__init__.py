"""Targets: what is sampled, and the targets made from targets."""

from xpsample.core.lazy_imports import attach

_NAMES = {
    "acceptance": "Acceptance LineIntegral Taylor",
    "bonds": "Bonds",
    "bound": "BoundTarget Rows",
    "check": "check_gradient",
    "parametric": "Parametric",
    "point": "Capability Costs Point",
    "rows": "posterior",
    "target": "AbstractTarget Target",
    "tempered": "Tempered",
    "tilted": "Exact Ratio Shift Tilt Tilted Untilted",
}
__getattr__, __all__ = attach(__name__, _NAMES)


def __dir__() -> list[str]:
    return __all__
