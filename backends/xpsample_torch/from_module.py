"""Modules of torch: posteriors of their weights, and networks as functions of their parameters."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import Any, final

import torch
from torch.distributions import Distribution
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import Module
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_function, check_seed, given
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.tree import Tree
from xpsample.interop.adaptors import ModuleFunction, Networks, Prediction, by_name, prior_of
from xpsample.targets.model import Model
from xpsample_torch import from_distributions


@final
@dataclass(frozen=True, eq=False)
class Network(ModuleFunction):
    """A module as a function of its inputs and of its parameters; `network` makes it.

    Parameters
    ----------
    module : torch.nn.Module
        A copy that nobody else has.
    about : str
        The module as text, by which a checkpoint knows it.
    axes : dict of str to int
        The parameters that move, by name, and how many axes each has.
    held : dict of str to tensor
        Buffers, and parameters that need no gradient.
    """

    module: Module
    about: str
    axes: dict[str, int]
    held: dict[str, torch.Tensor]

    def at(self, parameters: Any, *inputs: Any) -> Any:
        """Output of the module with other parameters."""
        versions = {name: tensor._version for name, tensor in self.held.items()}
        result = functional_call(self.module, parameters | self.held, inputs)
        for name, version in versions.items():
            if self.held[name]._version != version:
                raise CapabilityError(f"the module changes its buffer {name} where it is called, so it is no function")
        return result

    def vmap(self, function: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
        """`torch.func.vmap`."""
        return vmap(function, in_dims=axes)

    def of_networks(self, parameters: Any, chains: tuple[int, ...], inputs: tuple, at_once: int | None) -> Any:
        """Outputs of the module with the parameters of each network."""
        with nullcontext() if at_once is None else torch.no_grad():
            found = vmap(lambda own: self.at(own, *inputs), chunk_size=at_once)(parameters)
            return tree.map(lambda leaf: leaf.reshape(*chains, *leaf.shape[1:]), found)


def model(
    module: Module,
    log_likelihood: Callable[..., Array],
    /,
    *,
    prior: Distribution | Mapping[str, Distribution],
    data: Tree = None,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Model:
    """The posterior of a module's weights.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters become the model's, by their names: ``trace["layers.0.weight"]``. Buffers, and parameters
        with ``requires_grad=False``, stay what they are. It is copied.
    log_likelihood : callable
        ``log_likelihood(net)``, or ``log_likelihood(net, data)``, of shape ``(*chains)``. ``net(x)`` is what the module
        gives for x with the weights of every chain: ``(*chains, ...)``. ``net.parameters["0.bias"]`` are the weights.
    prior : torch.distributions.Distribution, or mapping of str to such
        Prior of every weight, or priors by patterns of names, of which the first that fits counts:
        ``{"*.bias": Normal(0, 10), "*": Normal(0, 1)}``.
    data : tree of arrays, optional
        As for `Model`.
    dims, coords : mapping, optional
        As for `Model`.

    Returns
    -------
    Model
        A parameter is in the space that the support of its prior is.

    Raises
    ------
    CapabilityError
        For dropout and batch normalization in training mode, complex or uninitialized parameters, and a module that
        changes its buffers.
    HyperparameterError
        If a parameter has no prior, or one of another shape.

    Examples
    --------
    >>> import torch
    >>> import xpsample as xps
    >>> from torch.distributions import Normal
    >>> from xpsample_torch import from_module
    >>> x = torch.linspace(-1, 1, 10)[:, None]
    >>> y = torch.sin(3 * x[:, 0])
    >>> def make():
    ...     return torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> def log_likelihood(net, data):
    ...     x, y = data
    ...     return Normal(net(x)[..., 0], 0.1).log_prob(y).sum(-1)
    >>> model = from_module.model(make(), log_likelihood, prior=Normal(0.0, 1.0), data=(x, y))
    >>> x0 = from_module.start(make, chains=100, seed=0)
    >>> trace = xps.sample(model, xps.HMC(0.01, steps=10), x0, 20, seed=1, progress=False)
    >>> trace["0.weight"].shape
    torch.Size([20, 100, 8, 1])
    >>> trace.map(from_module.predict(make(), x)).shape
    torch.Size([20, 100, 10, 1])
    """
    check_function("log_likelihood", log_likelihood, "(net)")
    function = network(module)
    shapes = {name: tuple(leaf.shape) for name, leaf in parameters(module).items()}

    def of_networks(p: Any, *data: Any) -> Array:
        return log_likelihood(Networks(function, by_name(p, function.axes)), *data)

    priors: dict[str, Any] = {name: prior_of(prior, name, shape, Distribution) for name, shape in shapes.items()}
    return from_distributions.model(of_networks, data=data, dims=dims, coords=coords, **priors)


def start(make: Callable[[], Module], chains: int | tuple[int, ...] = 4, *, seed: int) -> dict[str, torch.Tensor]:
    """Start positions by the module's own initialization, drawn anew for each chain.

    Parameters
    ----------
    make : callable
        ``make()`` makes a module, such as its class.
    chains : int or tuple of int
        Chains, or the chain axes of a sweep.
    seed : int
        Seed of torch's generators, which are restored afterwards.

    Returns
    -------
    dict of str to tensor, each of shape (*chains, *shape)
        For `sample`, by the names of the parameters.
    """
    if isinstance(make, Module) or not callable(make):
        raise HyperparameterError(f"make must make a module, such as lambda: Net(); got {given(make)}")
    axes = tuple(check_count("chains", n) for n in (chains if isinstance(chains, tuple) else (chains,)))
    with torch.random.fork_rng():
        torch.manual_seed(check_seed("seed", seed))
        modules = [make() for _ in range(prod(axes))]
    names = parameters(modules[0])
    if any(module is modules[0] for module in modules[1:]):
        raise HyperparameterError("make gives the same module at every call: let it make a new one")
    stacked = stack_module_state(modules)[0]
    return {name: stacked[name].detach().reshape(*axes, *own.shape) for name, own in names.items()}


def predict(module: Module, *inputs: Any) -> Prediction:
    """A function for `Trace.map`: what the networks of all draws give for the same inputs, ``(draw, *chains, ...)``.

    Parameters
    ----------
    module : torch.nn.Module
        As for `model`.
    *inputs : tensor
    """
    return Prediction(network(module), inputs)


def network(module: Module) -> Network:
    """A module as a function of its inputs and of its `parameters`: ``network(x, parameters)``.

    Pass it wherever `fit`, `Parametric`, `Learned` and others accept a function of parameters.

    Parameters
    ----------
    module : torch.nn.Module
        It is copied.

    Raises
    ------
    CapabilityError
        As for `model`.

    Examples
    --------
    >>> import torch
    >>> from xpsample.score_mh import Denoising, fit
    >>> from xpsample_torch import from_module
    >>> module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.SiLU(), torch.nn.Linear(16, 2))
    >>> score = from_module.network(module)
    >>> found = fit(Denoising(0.3, score), from_module.parameters(module), torch.zeros(50, 2), epochs=3, seed=0)
    >>> score(torch.zeros(5, 2), found.parameters).shape
    torch.Size([5, 2])
    """
    module = deepcopy(_checked(module))
    names = parameters(module)
    for name, own in module.named_parameters():
        if name in names:
            own.detach().zero_()  # others replace them at every call, and a checkpoint compares what is kept
    others = [(n, p) for n, p in module.named_parameters() if n not in names]
    held = {name: tensor.detach() for name, tensor in (*others, *module.named_buffers())}
    return Network(module, repr(module), {name: own.ndim for name, own in names.items()}, held)


def parameters(module: Module) -> dict[str, torch.Tensor]:
    """Copies of the parameters that need a gradient, by name; one that is shared by several layers is there once."""
    found = {n: p.detach().clone() for n, p in _checked(module).named_parameters() if p.requires_grad}
    if not found:
        raise CapabilityError(f"the module {type(module).__name__} has no parameter that needs a gradient")
    return found


def _checked(module: Any) -> Module:
    """A module that is a function of its inputs and parameters, as far as can be seen before it is called."""
    if not isinstance(module, Module):
        raise HyperparameterError(f"module must be a torch.nn.Module; got {given(module)}")
    for name, tensor in module.named_parameters():
        if is_lazy(tensor):
            raise CapabilityError(f"{name} has no shape yet: call the module once with an example")
        if tensor.is_complex():
            raise CapabilityError(f"{name} is complex, and what moves is real: make it of two real parameters")
    for name, part in module.named_modules():
        drops = getattr(part, "dropout", None)
        if part.training and (
            (isinstance(part, _DropoutNd) and part.p > 0)
            or (isinstance(part, _NormBase) and part.track_running_stats)
            or isinstance(part, torch.nn.RReLU)
            or (isinstance(drops, float) and drops > 0)
        ):
            raise CapabilityError(
                f"{name or 'the module'} ({type(part).__name__}) is in training mode, where its output is random or it "
                "changes its buffers: call module.eval() first"
            )
    return module
