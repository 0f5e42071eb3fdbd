"""In which dtypes a function computes: torch.autocast and casts inside of it give results in fewer digits."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Seen(TorchDispatchMode):
    """The floating dtypes of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                self.dtypes.add(value.dtype)
        return result


def coarsest(f: Callable[..., Any], x: torch.Tensor) -> tuple[str, float] | None:
    """The dtype with the fewest digits that ``f(x)`` computes in; None where it has as many as that of `x`."""
    with torch.no_grad(), _Seen() as seen:
        f(x)
    found = max(seen.dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=x.dtype)
    eps = torch.finfo(found).eps
    return (str(found).removeprefix("torch."), eps) if eps > torch.finfo(x.dtype).eps else None
