"""Modules of Equinox and Flax NNX: posteriors of their weights, and networks as functions of their parameters."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, final

import jax
import jax.numpy as jnp

from xpsample.core.arrays import Tree
from xpsample.core.checks import check_count, check_function, check_seed, given
from xpsample.core.errors import CapabilityError
from xpsample.interop.adaptors import ModuleFunction, Networks, Prediction, by_name, mapped_axis, prior_of
from xpsample.interop.constraints import space_of
from xpsample.targets.model import Model, check_density

Array = Any
"""An array of this library."""


@final
@dataclass(frozen=True, eq=False)
class Network(ModuleFunction):
    """A module as a function of its inputs and of its parameters; `network` makes it.

    Parameters
    ----------
    module : callable
        ``module(parameters)``: the module with other parameters.
    axes : dict of str to int
        The parameters, by name, and how many axes each has.
    held : dict of str to object
        What stays as it is, by which a checkpoint knows the module.
    example : int or None
        Axes of one input, over all others of which the module is mapped; None for a module that takes batches.
    """

    module: Callable[[Mapping[str, Array]], Any]
    axes: dict[str, int]
    held: dict[str, Any]
    example: int | None

    def at(self, parameters: Mapping[str, Array], *inputs: Any) -> Any:
        """Output of one network for a batch of inputs."""
        one = self.module(parameters)
        for _ in range(0 if self.example is None else jnp.ndim(inputs[0]) - self.example):
            one = jax.vmap(one, in_axes=tuple(map(mapped_axis, inputs)))
        return one(*inputs)

    def vmap(self, function: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
        """`jax.vmap`."""
        return jax.vmap(function, in_axes=axes)

    def of_networks(self, parameters: Any, chains: tuple[int, ...], inputs: tuple, at_once: int | None) -> Any:
        """An Equinox module is mapped over the first axis of its inputs."""

        def one(parameters: Mapping[str, Array]) -> Any:
            module = self.module(parameters)
            return (module if self.example is None else jax.vmap(module))(*inputs)

        mapped = jax.vmap(one) if at_once is None else partial(jax.lax.map, one, batch_size=at_once)
        return jax.tree.map(lambda leaf: jnp.reshape(leaf, (*chains, *leaf.shape[1:])), mapped(parameters))


def model(
    module: Any,
    log_likelihood: Callable[..., Array],
    /,
    *,
    prior: Any,
    data: Tree = None,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Model:
    """The posterior of a module's weights.

    Parameters
    ----------
    module : equinox.Module or flax.nnx.Module
        Its parameters become the model's, by their names: ``trace["layers.0.weight"]``. They are the floating JAX
        arrays of an Equinox module, and the ``nnx.Param`` of an NNX module; all else stays what it is.
    log_likelihood : callable
        ``log_likelihood(net)``, or ``log_likelihood(net, data)``, of shape ``(*chains)``. ``net(x)`` is what the module
        gives for rows x with the weights of every chain: ``(*chains, rows, ...)``. An Equinox module is mapped over the
        first axis of x. ``net.parameters["layers.0.bias"]`` are the weights.
    prior : numpyro.distributions.Distribution, or mapping of str to such
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
        For dropout and batch normalization in training mode, and for complex parameters.
    HyperparameterError
        If a parameter has no prior, or one of another shape.

    Examples
    --------
    >>> import equinox as eqx
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import xpsample as xps
    >>> from numpyro.distributions import Normal
    >>> from xpsample_jax import from_module
    >>> x = jnp.linspace(-1, 1, 10)[:, None]
    >>> y = jnp.sin(3 * x[:, 0])
    >>> def make(key):
    ...     return eqx.nn.MLP(1, 1, 8, depth=1, activation=jnp.tanh, key=key)
    >>> def log_likelihood(net, data):
    ...     x, y = data
    ...     return Normal(net(x)[..., 0], 0.1).log_prob(y).sum(-1)
    >>> model = from_module.model(make(jax.random.key(0)), log_likelihood, prior=Normal(0.0, 1.0), data=(x, y))
    >>> x0 = from_module.start(make, chains=100, seed=0)
    >>> trace = xps.sample(model, xps.HMC(0.01, steps=10), x0, 20, seed=1, progress=False)
    >>> trace["layers.0.weight"].shape
    (20, 100, 8, 1)
    >>> trace.map(from_module.predict(make(jax.random.key(0)), x)).shape
    (20, 100, 10, 1)
    """
    from numpyro.distributions import Distribution, constraints

    check_function("log_likelihood", log_likelihood, "(net)")
    function, own = network(module), parameters(module)
    priors = {name: prior_of(prior, name, tuple(leaf.shape), Distribution) for name, leaf in own.items()}
    spaces: dict[str, Any] = {
        name: space_of(constraints, name, priors[name].support, tuple(leaf.shape)) for name, leaf in own.items()
    }

    def log_density(p: Any, *data: Any) -> Array:
        values = by_name(p, priors)
        batch_axes = {name: tuple(range(-len(own.batch_shape), 0)) for name, own in priors.items()}
        terms = [jnp.sum(priors[name].log_prob(value), axis=batch_axes[name]) for name, value in values.items()]
        total = sum(terms[1:], start=terms[0])
        return total + check_density(log_likelihood(Networks(function, values), *data), total.shape)

    return Model(log_density, data=data, dims=dims, coords=coords, **spaces)


def start(make: Callable[[Array], Any], chains: int | tuple[int, ...] = 4, *, seed: int) -> dict[str, Array]:
    """Start positions by the module's own initialization, drawn anew for each chain.

    Parameters
    ----------
    make : callable
        ``make(key)`` makes a module: ``lambda key: eqx.nn.MLP(1, 1, 16, 2, key=key)``, or
        ``lambda key: Net(nnx.Rngs(key))``.
    chains : int or tuple of int
        Chains, or the chain axes of a sweep.
    seed : int

    Returns
    -------
    dict of str to array, each of shape (*chains, *shape)
        For `sample`, by the names of the parameters.
    """
    check_function("make", make, "(key)")
    axes = tuple(check_count("chains", n) for n in (chains if isinstance(chains, tuple) else (chains,)))
    keys = jax.random.split(jax.random.key(check_seed("seed", seed)), prod(axes))
    drawn = jax.vmap(lambda key: parameters(make(key)))(keys)
    return {name: jnp.reshape(leaf, (*axes, *leaf.shape[1:])) for name, leaf in drawn.items()}


def predict(module: Any, *inputs: Any) -> Prediction:
    """A function for `Trace.map`: what the networks of all draws give for rows, ``(draw, *chains, rows, ...)``.

    Parameters
    ----------
    module : equinox.Module or flax.nnx.Module
        As for `model`.
    *inputs : array, shape (rows, ...)
    """
    return Prediction(network(module), inputs)


def network(module: Any, *, example: int = 1) -> Network:
    """A module as a function of its inputs and of its `parameters`: ``network(x, parameters)``.

    Pass it wherever `fit`, `Parametric`, `Learned` and others accept a function of parameters.
    ``network.module(found)`` is the module with other parameters.

    Parameters
    ----------
    module : equinox.Module or flax.nnx.Module
    example : int
        Axes of one input of an Equinox module, which is mapped over the axes in front of them. An NNX module gets its
        inputs as they are.

    Raises
    ------
    CapabilityError
        As for `model`.

    Examples
    --------
    >>> import equinox as eqx
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from xpsample.score_mh import Denoising, fit
    >>> from xpsample_jax import from_module
    >>> module = eqx.nn.MLP(2, 2, 16, depth=1, key=jax.random.key(0))
    >>> score = from_module.network(module)
    >>> found = fit(Denoising(0.3, score), from_module.parameters(module), jnp.zeros((50, 2)), epochs=3, seed=0)
    >>> score(jnp.zeros((5, 2)), found.parameters).shape
    (5, 2)
    >>> type(score.module(found.parameters)).__name__
    'MLP'
    """
    example = check_count("example", example, 0)
    if _is_nnx(module):
        graph, names, leaves, structure, rest = _nnx_parts(module)
        merged = partial(_merged_nnx, graph, structure, tuple(names), rest)
        held = {
            name: leaf
            for name, leaf in _named(rest).items()
            if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended)
        }
        held["graph"] = re.sub(" at 0x[0-9a-f]+", "", str(graph))  # addresses are other ones in another process
        return Network(merged, {n: leaf.ndim for n, leaf in zip(names, leaves, strict=True)}, held, None)
    every, own = _named(module), parameters(module)
    held = {name: leaf for name, leaf in every.items() if name not in own}
    merged = partial(_merged, jax.tree.structure(module), tuple(every), held)
    return Network(merged, {name: leaf.ndim for name, leaf in own.items()}, held, example)


def parameters(module: Any) -> dict[str, Array]:
    """The parameters of a module by name: floating JAX arrays, or the ``nnx.Param`` of an NNX module."""
    if _is_nnx(module):
        _, names, leaves, _, _ = _nnx_parts(module)
        found = dict(zip(names, leaves, strict=True))
    else:
        every = _named(module)
        for name, leaf in every.items():
            if name.rpartition(".")[2] == "inference" and leaf is False:
                raise CapabilityError(
                    f"{name} is False, so that the module is random or changes its state: pass "
                    "equinox.nn.inference_mode(module)"
                )
        found = {n: a for n, a in every.items() if isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jnp.inexact)}
    if not found:
        raise CapabilityError(
            f"the module holds no floating JAX array: {given(module)}; the apply function of a Flax Linen module is a "
            "network as it is"
        )
    first: dict[int, str] = {}
    for name, leaf in found.items():
        if jnp.iscomplexobj(leaf):
            raise CapabilityError(f"{name} is complex, and what moves is real: make it of two real parameters")
        if first.setdefault(id(leaf), name) != name:
            raise CapabilityError(
                f"{first[id(leaf)]} and {name} are one array, which would become two: share it by equinox.nn.Shared"
            )
    return found


def _named(module: Any) -> dict[str, Any]:
    """All leaves of a tree, by dotted names."""
    pairs = jax.tree_util.tree_flatten_with_path(module)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in pairs}


def _merged(structure: Any, names: tuple[str, ...], held: Mapping[str, Any], parameters: Mapping[str, Array]) -> Any:
    return structure.unflatten([parameters[name] if name in parameters else held[name] for name in names])


def _is_nnx(module: Any) -> bool:
    return any(kind.__module__.startswith("flax.nnx.") for kind in type(module).__mro__)


def _nnx_parts(module: Any) -> tuple[Any, list[str], list[Array], Any, Any]:
    """The graph of an NNX module; the names, the leaves and the structure of its parameters; all other variables."""
    from flax import nnx

    for path, part in nnx.iter_modules(module):
        own: dict[str, Any] = vars(part)
        drops = own.get("deterministic") is False and own.get("rate", own.get("dropout_rate", 0)) > 0
        if drops or own.get("use_running_average") is False:
            name = ".".join(map(str, path)) or "the module"
            raise CapabilityError(
                f"{name} ({type(part).__name__}) is in training mode, where its output is random or it changes its "
                "statistics: call module.eval() first"
            )
    split: Any = nnx.split(module, nnx.Param, ...)
    graph, moving, rest = split
    leaves, structure = jax.tree.flatten(moving)
    return graph, [name.removesuffix(".value") for name in _named(moving)], leaves, structure, rest


def _merged_nnx(graph: Any, structure: Any, names: tuple[str, ...], rest: Any, parameters: Mapping[str, Array]) -> Any:
    from flax import nnx

    return nnx.merge(graph, structure.unflatten([parameters[name] for name in names]), rest)
