"""Optimizers of torch.optim, with their schedulers, as optimizers of xpsample."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from xpsample.core import tree
from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError

Named = list[tuple[str, torch.Tensor]]
"""Parameters by name, as torch's optimizers expect them."""


class OptimState(NamedTuple):
    """State of a torch optimizer between steps, as tensors.

    ``steps`` (0-d, on the CPU) counts the steps made. ``tensors`` are the optimizer's, for each parameter.
    ``numbers`` (0-d, on the CPU) belong to the parameter groups and the scheduler, such as learning rates.
    """

    steps: torch.Tensor
    tensors: dict[str, torch.Tensor]
    numbers: dict[str, torch.Tensor]


@dataclass(frozen=True)
class TorchOptimizer:
    """An optimizer of torch as a pure function of its state; `optimizer` makes it."""

    factory: Callable[..., Any]
    scheduler: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name, value in (("factory", self.factory), ("scheduler", self.scheduler or self.factory)):
            if not callable(value):  # a class is a factory, too
                raise HyperparameterError(f"{name} makes it, such as torch.optim.Adam; got {given(value)}")

    def init(self, parameters: tree.Tree) -> OptimState:
        """Zeros in place of the state that torch creates at its first step."""
        for path, leaf in tree.items(parameters):
            if not isinstance(leaf, torch.Tensor):
                raise HyperparameterError(
                    f"optimizers of torch move torch tensors; {path or 'the parameter'} is {given(leaf)}: use those "
                    "of xpsample.optimize, or optax for JAX arrays"
                )
        steps = torch.zeros((), dtype=torch.int64)
        gradients = tree.map(torch.zeros_like, parameters)
        first = self.update(gradients, OptimState(steps, {}, {}), parameters)[1]
        second = self.update(gradients, first, parameters)[1]
        if _shapes(first.tensors) != _shapes(second.tensors) or first.numbers.keys() != second.numbers.keys():
            raise HyperparameterError(
                "the optimizer's state grows with every step, which the state of a run cannot hold. Use one whose "
                "state has a fixed size, such as torch.optim.Adam."
            )
        return OptimState(steps, *(tree.map(torch.zeros_like, part) for part in first[1:]))

    def update(self, gradients: tree.Tree, state: OptimState, parameters: tree.Tree) -> tuple[tree.Tree, OptimState]:
        """One step of an optimizer that is made anew, put into the state, and left behind."""
        named = [(path, leaf.detach().clone()) for path, leaf in tree.items(parameters)]
        optimizer = self.factory(named)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise HyperparameterError(f"the factory must return an optimizer of torch; it returned {given(optimizer)}")
        scheduler = None if self.scheduler is None else self.scheduler(optimizer)
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise HyperparameterError(
                "ReduceLROnPlateau needs a loss at each step, which an optimizer here does not see. Use a schedule of "
                "the step number, such as CosineAnnealingLR."
            )
        if int(state.steps):
            _restore(optimizer, scheduler, named, state)
        for (_, leaf), gradient in zip(named, tree.leaves(gradients), strict=True):
            leaf.grad = gradient
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        moved = {path: leaf - old for (path, leaf), old in zip(named, tree.leaves(parameters), strict=True)}
        return tree.fill(parameters, moved), OptimState(state.steps + 1, *_kept(optimizer, scheduler, named))


def optimizer(factory: Callable[..., Any], scheduler: Callable[..., Any] | None = None) -> TorchOptimizer:
    """An optimizer of torch, for `fit`, `SOSMC` and `PCD` on torch tensors.

    torch's optimizers change the parameters in place and remember what they need. Here all they remember is part of a
    run's state, so that checkpoints hold it and a resumed run has the bits of an uninterrupted one.

    Parameters
    ----------
    factory : callable
        ``factory(parameters)`` makes the optimizer; it is called at every step. The parameters are pairs of a name
        and a tensor, which torch's optimizers take, also in groups:
        ``partial(torch.optim.AdamW, lr=1e-3)``.
    scheduler : callable, optional
        ``scheduler(optimizer)`` makes the scheduler of the learning rate, which is stepped after every step of the
        optimizer: ``partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=1000)``.

    Returns
    -------
    TorchOptimizer

    Raises
    ------
    HyperparameterError
        At the start of a run, for parameters of other libraries; for ``ReduceLROnPlateau``, which is stepped with a
        loss; and for optimizers whose state grows.

    Notes
    -----
    The steps are torch's to rounding: parameters move by ``theta + (new - theta)``.

    Examples
    --------
    >>> from functools import partial
    >>> import torch
    >>> from xpsample_torch import from_optim
    >>> optimizer = from_optim.optimizer(partial(torch.optim.SGD, lr=0.5, momentum=0.9))
    >>> theta = {"w": torch.ones(2)}
    >>> state = optimizer.init(theta)
    >>> step, state = optimizer.update({"w": torch.ones(2)}, state, theta)
    >>> step["w"]
    tensor([-0.5000, -0.5000])
    """
    return TorchOptimizer(factory, scheduler)


def _kept(optimizer: Any, scheduler: Any, named: Named) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """State of an optimizer and its scheduler: tensors and numbers, by paths."""
    tensors, numbers = {}, {}
    states = [dict(optimizer.state[leaf]) for _, leaf in named]
    for name in sorted({name for state in states for name, value in state.items() if _children(value)}):
        raise HyperparameterError(f"the optimizer keeps {name}, which is no tensor and no number, for each parameter")
    for path, value in _leaves({"states": states, "settings": _settings(optimizer, scheduler)}):
        if isinstance(value, torch.Tensor):
            tensors[path] = value.detach().clone()
        else:
            numbers[path] = torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)
    return tensors, numbers


def _restore(optimizer: Any, scheduler: Any, named: Named, state: OptimState) -> None:
    """Put an optimizer and its scheduler, both new, where a state was."""
    kept: dict[str, Any] = {path: tensor.clone() for path, tensor in state.tensors.items()}
    kept |= {path: number.item() for path, number in state.numbers.items()}
    for i, (_, leaf) in enumerate(named):
        start = f"states.{i}."
        optimizer.state[leaf] = {path.removeprefix(start): kept[path] for path in kept if path.startswith(start)}
    settings = _filled(_settings(optimizer, scheduler), kept, "settings")
    if scheduler is not None:
        scheduler.load_state_dict(settings["scheduler"])
    for group, own in zip(optimizer.param_groups, settings["groups"], strict=True):
        group.update(own)


def _settings(optimizer: Any, scheduler: Any) -> dict[str, Any]:
    """Settings that belong to no single parameter: the groups', and all state of a scheduler."""
    groups = [
        {k: v for k, v in group.items() if k not in ("params", "param_names")} for group in optimizer.param_groups
    ]
    return {"groups": groups, "scheduler": None if scheduler is None else scheduler.state_dict()}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors and numbers in Python containers, by dotted paths; all else is as the factory makes it."""
    for key, child in _children(value):
        own = f"{path}.{key}" if path else str(key)
        if isinstance(child, (int, float, torch.Tensor)) and not isinstance(child, bool):
            yield own, child
        else:
            yield from _leaves(child, own)


def _filled(value: Any, kept: Mapping[str, Any], path: str) -> Any:
    """Python containers with the tensors and numbers of `_leaves` replaced."""
    kind: Any = type(value)
    if isinstance(value, Mapping):
        return kind({key: _filled(child, kept, f"{path}.{key}") for key, child in value.items()})
    if isinstance(value, (list, tuple)):
        return kind(_filled(child, kept, f"{path}.{key}") for key, child in enumerate(value))
    return kept.get(path, value)


def _children(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (list, tuple)) else []


def _shapes(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {path: tuple(leaf.shape) for path, leaf in tensors.items()}
